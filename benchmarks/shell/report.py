"""The figures of the shell and its peers, as tables in Markdown and a plot.

    python -m benchmarks.shell.report build/shell.json [--into docs]

It prints the tables. With a folder, it writes them into its `performance.md`, between two comments, and adds
the plot.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.shell.comparing import Figures
from benchmarks.shell.goals import goals_table
from benchmarks.shell.on_kafka import Measured
from benchmarks.shell.plot import write_plot
from benchmarks.shell.rows import ROWS

PLOT = Path("performance") / "shell.svg"
_PAGE = "performance.md"
_IMAGE = f"![What an event costs catching up, and latencies from p50 to p99, by row]({PLOT})"
_BEGIN, _END = "<!-- benchmarks.shell.report: begin -->", "<!-- benchmarks.shell.report: end -->"
_MILLISECONDS_WHOLE = 100


def main(file: Path, into: Path | None = None) -> None:
    """Print the tables, and write them into the page where that is asked for."""
    figures = msgspec.json.decode(file.read_bytes(), type=Figures)
    told = "\n".join(_told(figures))
    if into is None:
        print(told)
        write_plot(figures.runs, file.with_suffix(".svg"))
        return
    page = into / _PAGE
    before, _, rest = page.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert end, f"{page} has no {_BEGIN} … {_END}"
    page.write_text(f"{before}{_BEGIN}\n\n{told}\n\n{_IMAGE}\n{_END}{after}", encoding="utf-8")
    (into / PLOT).parent.mkdir(exist_ok=True)
    write_plot(figures.runs, into / PLOT)


def _told(figures: Figures) -> Iterator[str]:
    """Yield the lines of all tables."""
    asked, alone = figures.asked, _by_row(figures.runs, 1, 0.0)
    rounds = max((len(runs) for runs in alone.values()), default=0)
    yield (
        f"Measured {figures.when}: {figures.machine}; load before {figures.load_before:.1f}; up to "
        f"{rounds} rounds in turn, {figures.size.seconds:g} s a rate: medians (least to greatest)."
    )
    if figures.left_out:
        yield f"The time had no room for {figures.left_out} further runs."
    yield from goals_table(figures)
    yield from _table("One worker", alone, asked.rates)
    several = _by_row(figures.runs, asked.workers, 0.0) if asked.workers > 1 else {}
    if several:
        yield from _table(f"{asked.workers} workers", several, asked.rates)
        yield from _scaling(alone, several, asked.workers)
    far = _by_row(figures.runs, 1, asked.delay_ms) if asked.delay_ms else {}
    if far:
        yield from _table(f"One worker, {asked.delay_ms:g} ms from the broker each way", far, asked.rates)
    if figures.demo:
        yield from _demo(figures)
    failures = [run for run in figures.runs if run.failure]
    if failures:
        yield "\nRuns that failed, in full or in part:\n"
        for run in failures:
            yield f"- {run.workers} of {_title(run.row)}, {run.delay_ms:g} ms: `{run.failure}`"


def _by_row(runs: Sequence[Measured], workers: int, delay_ms: float) -> dict[str, list[Measured]]:
    order = [row.name for row in ROWS]
    chosen = [run for run in runs if run.workers == workers and run.delay_ms == delay_ms]
    chosen.sort(key=lambda run: order.index(run.row))
    return {name: list(those) for name, those in groupby(chosen, key=lambda run: run.row)}


def _title(name: str) -> str:
    return next(row.title for row in ROWS if row.name == name)


def _table(title: str, rows: dict[str, list[Measured]], rates: Sequence[int]) -> Iterator[str]:
    heads = [f"ms at {rate:,}/s: p50 / p95 / p99" for rate in rates]
    yield f"\n| {title} | state | events/s | µs of CPU an event | {' | '.join(heads)} |"
    yield f"| --- | --- | --- | --- |{' --- |' * len(rates)}"
    for name, runs in rows.items():
        state = next(row.state for row in ROWS if row.name == name)
        caught_up = [run for run in runs if run.events_per_second]
        rate = _spread([run.events_per_second for run in caught_up], 0)
        cpu = _spread([run.cpu_us for run in caught_up], 1)
        waits = " | ".join(_waits(runs, each) for each in rates)
        yield f"| {_title(name)} | {state} | {rate} | {cpu} | {waits} |"


def _waits(runs: Sequence[Measured], rate: int) -> str:
    """Return the percentiles' medians, with the spread of the last one; empty above the throughput."""
    each = [latency for run in runs for latency in run.latencies if latency.per_second == rate]
    if not each:
        return ""
    p50, p95 = (
        _milliseconds(median(figures)) for figures in zip(*[(one.p50, one.p95) for one in each], strict=True)
    )
    p99s = [one.p99 for one in each]
    spread = f" ({_milliseconds(min(p99s))}-{_milliseconds(max(p99s))})" if len(p99s) > 1 else ""
    note = "" if all(one.held for one in each) else ", sent more slowly"
    return f"{p50} / {p95} / {_milliseconds(median(p99s))}{spread}{note}"


def _milliseconds(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= _MILLISECONDS_WHOLE else f"{figure:.1f}"


def _spread(figures: Sequence[float], digits: int) -> str:
    if not figures:
        return ""
    middle = f"{median(figures):,.{digits}f}"
    return (
        middle if len(figures) == 1 else f"{middle} ({min(figures):,.{digits}f}-{max(figures):,.{digits}f})"
    )


def _scaling(
    alone: dict[str, list[Measured]], several: dict[str, list[Measured]], workers: int
) -> Iterator[str]:
    yield f"\n| {workers} workers, as so many times one | by CPU an event | by events/s on these cores |"
    yield "| --- | --- | --- |"
    for name, runs in several.items():
        ones, others = (
            [run for run in those if run.events_per_second] for those in (alone.get(name, []), runs)
        )
        if ones and others:
            by_cpu = workers * median(run.cpu_us for run in ones) / median(run.cpu_us for run in others)
            by_rate = median(run.events_per_second for run in others) / median(
                run.events_per_second for run in ones
            )
            yield f"| {_title(name)} | {by_cpu:.2f} | {by_rate:.2f} |"


def _demo(figures: Figures) -> Iterator[str]:
    rounds = [each for each in figures.demo if not each.failure]
    if not rounds:
        yield f"\nThe demo workload failed: `{figures.demo[-1].failure}`"
        return
    yield f"\n| demo workload, {rounds[0].events} events, {len(rounds)} rounds | ms an event |"
    yield "| --- | --- |"
    yield f"| `compose` in a bare loop, CPU | {_spread([each.loop_cpu_ms for each in rounds], 2)} |"
    yield f"| the worker on Kafka, CPU | {_spread([each.worker_cpu_ms for each in rounds], 2)} |"
    yield f"| the worker on Kafka, passed | {_spread([each.worker_ms for each in rounds], 2)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shell.report")
    parser.add_argument("file", type=Path)
    parser.add_argument("--into", type=Path, help="a folder with performance.md")
    given = parser.parse_args()
    main(given.file, given.into)
