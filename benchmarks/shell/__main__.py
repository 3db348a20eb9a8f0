"""What the shell costs, without a broker.

python -m benchmarks.shell [--rounds 60]
"""

import argparse

from benchmarks.shell import compressing, in_process
from benchmarks.shell.events import demo, small


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shell", description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="of each workload, without a broker")
    chosen = parser.parse_args()
    for workload in (small(200, 20), small(200, 200)):
        in_process.main(workload, chosen.rounds)
    in_process.main(demo(40), max(9, chosen.rounds // 4))
    for workload in (small(400, 40), demo(100)):
        compressing.main(workload)


if __name__ == "__main__":
    main()
