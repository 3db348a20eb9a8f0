"""Goals of the shell, and the measured figures."""

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from benchmarks.shell.comparing import Figures
from benchmarks.shell.on_kafka import Latency, Measured
from benchmarks.shell.rows import OURS

_OURS, _EXACTLY_ONCE = (row.name for row in OURS)


def goals_table(figures: Figures) -> Iterator[str]:
    """Yield the lines of a table: each goal with measured figures."""
    near = _runs(figures.runs, _OURS, 1, 0.0)
    yield "\n| goal | | measured, median |"
    yield "| --- | --- | --- |"
    if near:
        beyond_us = median(run.beyond_us for run in near)
        yield f"| CPU an event beyond decode, compose and encode | ≤ 12 µs | {beyond_us:.0f} µs |"
    for rate in figures.asked.rates:
        yield from _waits(f"at {rate:,}/s", near, rate, (5, 25))
    for rate in figures.asked.rates:
        exact = _runs(figures.runs, _EXACTLY_ONCE, 1, 0.0)
        yield from _waits(f"`exactly_once` at {rate:,}/s", exact, rate, (25, 80))
    if far := _runs(figures.runs, _OURS, 1, figures.asked.delay_ms) if figures.asked.delay_ms else []:
        told = f"{median(run.events_per_second for run in far):,.0f}/s"
        yield f"| {figures.asked.delay_ms:g} ms from the broker each way | ≥ 5,000/s | {told} |"
    several = _runs(figures.runs, _OURS, figures.asked.workers, 0.0) if figures.asked.workers > 1 else []
    if near and several:
        cpu = figures.asked.workers * _by(near, several, lambda run: run.cpu_us)
        by_rate = _by(several, near, lambda run: run.events_per_second)
        goal = 0.9 * figures.asked.workers
        told = f"{cpu:.2f} by CPU an event, {by_rate:.2f} by events/s on these cores"
        yield f"| {figures.asked.workers} workers, as so many times one | ≥ {goal:.1f} | {told} |"
    if rounds := [each for each in figures.demo if not each.failure]:
        by_loop = median(each.loop_cpu_ms / each.worker_cpu_ms for each in rounds)
        by_looks = median(each.composing_share for each in rounds)
        told = f"{by_loop:.2f}; of its own CPU {by_looks:.3f} composing"
        yield f"| demo workload: the bare loop's CPU by the worker's | ≥ 0.85 | {told} |"


def _runs(runs: Sequence[Measured], row: str, workers: int, delay_ms: float) -> list[Measured]:
    """Return the runs that caught up."""
    asked = (row, workers, delay_ms)
    return [run for run in runs if (run.row, run.workers, run.delay_ms) == asked and run.events_per_second]


def _waits(name: str, runs: Sequence[Measured], rate: int, goal_ms: tuple[int, int]) -> Iterator[str]:
    each = [latency for run in runs for latency in run.latencies if latency.per_second == rate]
    p50, p99 = goal_ms
    told = (
        f"{_median(each, lambda one: one.p50)} / {_median(each, lambda one: one.p99)}" if each else "not held"
    )
    if runs:
        yield f"| p50 / p99 {name} | ≤ {p50} / {p99} ms | {told} |"


def _median(each: Sequence[Latency], figure: Callable[[Latency], float]) -> str:
    return f"{median(map(figure, each)):.1f}"


def _by(ones: Sequence[Measured], others: Sequence[Measured], figure: Callable[[Measured], float]) -> float:
    return median(map(figure, ones)) / median(map(figure, others))
