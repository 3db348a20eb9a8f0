"""All benchmarks, one after another; `python -m benchmarks.NAME` runs one."""

from benchmarks import choosing, composing, peers, remembering

for benchmark in (composing, choosing, remembering, peers):
    benchmark.main()
