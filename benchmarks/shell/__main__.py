"""What the shell costs, without a broker and on a real one.

    python -m benchmarks.shell [--rounds 60]
    python -m benchmarks.shell --brokers localhost:9092 [--events 20000]

With brokers it measures on them instead, in topics of its own, which it deletes at the end.
"""

import argparse
import asyncio

from benchmarks.shell import compressing, in_process, on_kafka
from benchmarks.shell.events import demo, small


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shell")
    parser.add_argument("--rounds", type=int, default=60, help="of each workload, without a broker")
    parser.add_argument("--brokers", help="a Kafka that is there for this")
    parser.add_argument("--events", type=int, default=20_000, help="of each run on it")
    chosen = parser.parse_args()
    if chosen.brokers:
        asyncio.run(on_kafka.main(chosen.brokers, chosen.events))
        return
    for workload in (small(200, 20), small(200, 200)):
        in_process.main(workload, chosen.rounds)
    in_process.main(demo(40), max(9, chosen.rounds // 4))
    for workload in (small(400, 40), demo(100)):
        compressing.main(workload)


if __name__ == "__main__":
    main()
