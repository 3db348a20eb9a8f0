"""Measurement of the shell, without a broker or on a real one together with peers.

    python -m benchmarks.shell [--rounds 60]
    python -m benchmarks.shell --brokers 127.0.0.1:9092 [--out build/shell.json]

With brokers it measures on them, in its own topics, which it deletes. The file is written after each run; at
the end, tables and plot are made from it, as by `benchmarks.shell.report`.
"""

import argparse
from pathlib import Path

from benchmarks.shell import compressing, in_process
from benchmarks.shell.events import demo, small
from benchmarks.shell.rows import ROWS

_ROUNDS, _ROUNDS_ON_KAFKA = 60, 3
_QUICK = 0.1


def main() -> None:
    """Measure."""
    chosen = _parser().parse_args()
    if chosen.brokers:
        _on_kafka(chosen)
        return
    rounds = chosen.rounds or _ROUNDS
    for workload in (small(200, 20), small(200, 200)):
        in_process.main(workload, rounds)
    in_process.main(demo(40), max(9, rounds // 4))
    for workload in (small(400, 40), demo(100)):
        compressing.main(workload)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shell")
    parser.add_argument(
        "--rounds", type=int, help=f"without a broker {_ROUNDS}, with one {_ROUNDS_ON_KAFKA}, by default"
    )
    parser.add_argument("--brokers", help="a Kafka that is there for this")
    on_kafka = parser.add_argument_group("on Kafka")
    on_kafka.add_argument(
        "--out", type=Path, default=Path("build") / "shell.json", help="file of the figures"
    )
    on_kafka.add_argument(
        "--only",
        nargs="+",
        default=(),
        choices=[row.name for row in ROWS],
        metavar="ROW",
        help="rows of benchmarks/shell/rows.py",
    )
    on_kafka.add_argument("--rates", nargs="+", type=int, default=(1_000, 5_000), help="requests a second")
    on_kafka.add_argument("--workers", type=int, default=2, help="beside one alone; 1: no others")
    on_kafka.add_argument("--delay-ms", type=float, default=5.0, help="to the broker, and back; 0: none")
    on_kafka.add_argument("--seconds", type=float, default=3.0, help="of each rate")
    on_kafka.add_argument("--minutes", type=float, default=20.0, help="after which no further run begins")
    on_kafka.add_argument(
        "--quick", action="store_true", help="a round of a tenth: to see that all of it runs"
    )
    return parser


def _on_kafka(chosen: argparse.Namespace) -> None:
    from benchmarks.shell import comparing, report  # noqa: PLC0415 - their libraries are the benchmarks' alone

    share, rounds = (_QUICK, 1) if chosen.quick else (1.0, chosen.rounds or _ROUNDS_ON_KAFKA)
    size = comparing.Size(share=share, rounds=rounds, seconds=chosen.seconds * (0.5 if chosen.quick else 1))
    asked = comparing.Asked(tuple(chosen.only), tuple(chosen.rates), chosen.workers, chosen.delay_ms)
    comparing.main(chosen.brokers, asked, size, chosen.minutes, chosen.out)
    report.main(chosen.out)


if __name__ == "__main__":
    main()
