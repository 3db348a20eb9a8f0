"""All rows in turn, round by round, with the figures written after each run."""

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import msgspec
from msgspec import Struct

from benchmarks.shell import demo
from benchmarks.shell.on_kafka import Measured, Plan, measure
from benchmarks.shell.rows import OURS, ROWS, Row

_EVENTS_MIN = 2_000
_FAR_SHARE = 0.5
"""Timeout for a backlog when the broker is far away, because some peers wait for the broker repeatedly."""


class Asked(Struct, frozen=True):
    """The rows to measure (none: all), the loads, and the options."""

    rows: tuple[str, ...]
    rates: tuple[int, ...]
    workers: int
    delay_ms: float


class Size(Struct, frozen=True):
    """The amount of work: a share of each row's events, rounds, and the seconds of each rate."""

    share: float
    rounds: int
    seconds: float


class Figures(Struct):
    """All figures, and the machine."""

    when: str
    machine: str
    load_before: float
    asked: Asked
    size: Size
    runs: list[Measured]
    demo: list[demo.Round]
    left_out: int = 0
    """Runs for which there was no time."""


def main(brokers: str, asked: Asked, size: Size, minutes: float, out: Path) -> None:
    """Measure, and write the figures."""
    figures = Figures(
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=f"{_processor()}, {os.cpu_count()} cores, CPython {platform.python_version()}",
        load_before=os.getloadavg()[0],
        asked=asked,
        size=size,
        runs=[],
        demo=[],
    )
    end_s = monotonic() + minutes * 60
    runs = list(_runs(asked, size))
    for number, run in enumerate(runs, 1):
        if monotonic() > end_s:
            figures.left_out += 1
            continue
        if run is None:
            figures.demo.append(demo.measure(brokers, size.share))
            told = str(figures.demo[-1])
        else:
            figures.runs.append(measure(brokers, *run))
            told = _told(figures.runs[-1])
        print(f"{number}/{len(runs)} {told}", file=sys.stderr, flush=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")


def _runs(asked: Asked, size: Size) -> Iterator[tuple[Row, Plan] | None]:
    """Yield the runs, the most important first; None is the demo workload.

    Every round has all rows as one worker near the broker. Several workers, and a distant worker, are
    measured for all rows in the first round, and for our rows in the other rounds.
    """
    rows = [row for row in ROWS if not asked.rows or row.name in asked.rows]
    for number in range(size.rounds):
        again = [row for row in rows if row.command and (number == 0 or row in OURS)]
        yield from ((row, _plan(row, asked, size, 1, 0.0)) for row in rows)
        if asked.workers > 1:
            yield from ((row, _plan(row, asked, size, asked.workers, 0.0)) for row in again)
        if asked.delay_ms:
            yield from ((row, _plan(row, asked, size, 1, asked.delay_ms)) for row in again)
        if OURS[0] in rows:
            yield None


def _plan(row: Row, asked: Asked, size: Size, workers: int, delay_ms: float) -> Plan:
    share = size.share * (_FAR_SHARE if delay_ms else 1.0)
    events = max(_EVENTS_MIN, int(row.events * share))
    return Plan(row.name, workers, delay_ms, asked.rates, size.seconds, events)


def _told(measured: Measured) -> str:
    latencies = " ".join(
        f"{latency.per_second}/s: {latency.p50:.1f}/{latency.p95:.1f}/{latency.p99:.1f} ms"
        for latency in measured.latencies
    )
    how = f"{measured.workers} of {measured.row}" + (
        f", {measured.delay_ms:g} ms away" if measured.delay_ms else ""
    )
    caught_up = f"{measured.events_per_second:,.0f} events/s, {measured.cpu_us:.1f} µs"
    took = f"({measured.took_s:.0f} s)"
    return " ".join(part for part in (f"{how}:", caught_up, latencies, measured.failure, took) if part)


def _processor() -> str:
    names: Sequence[str] = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    return names[0] if names else platform.machine()
