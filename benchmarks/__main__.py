"""All benchmarks, one after another; `python -m benchmarks.NAME` runs one."""

from benchmarks import choosing, composing, counting, peers, querying, remembering, worst
from benchmarks.value import report as value

if __name__ == "__main__":  # a process that `worst` starts imports this file once more
    for benchmark in (composing, choosing, counting, remembering, querying, peers, worst, value):
        benchmark.main()
