"""The plot of a worker and its peers, as SVG: the cost of an event, and the latency of an answer."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

from benchmarks.drawing import BLUE, GREY
from benchmarks.shell.on_kafka import Measured
from benchmarks.shell.rows import OURS, ROWS


def write_plot(runs: Sequence[Measured], file: Path) -> None:
    """Write it: one worker near the broker, a row each; a dot a round, and latencies from p50 to p99."""
    near = [run for run in runs if run.workers == 1 and not run.delay_ms]
    names = [row.name for row in ROWS if any(run.row == row.name for run in near)]
    titles = [row.title.replace("`", "") for row in ROWS if row.name in names]
    rates = sorted({latency.per_second for run in near for latency in run.latencies})
    _, panels = plt.subplots(
        1,
        1 + len(rates),
        figsize=(3.2 + 2.6 * (1 + len(rates)), 0.6 + 0.3 * len(names)),
        sharey=True,
        squeeze=False,
    )
    for panel in panels[0]:
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.grid(axis="x", lw=0.4, color=GREY)
    cost, *waits = panels[0]
    cost.set(title="catching up", xlabel="µs of CPU an event")
    cost.set_yticks(range(len(names)), titles)
    for place, name in enumerate(names):
        colour = BLUE if any(row.name == name for row in OURS) else GREY
        costs = [run.cpu_us for run in near if run.row == name and run.cpu_us]
        cost.plot(costs, [place] * len(costs), "o", ms=4, color=colour)
        for panel, rate in zip(waits, rates, strict=True):
            panel.set(title=f"{rate:,}/s", xlabel="ms: p50 to p99")
            each = [
                latency
                for run in near
                if run.row == name
                for latency in run.latencies
                if latency.per_second == rate
            ]
            if each:
                low, high = median(one.p50 for one in each), median(one.p99 for one in each)
                panel.plot([low, high], [place, place], "-", lw=2, color=colour)
                panel.plot([low], [place], "o", ms=4, color=colour)
    cost.invert_yaxis()
    plt.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    plt.savefig(file, metadata={"Date": None})
    plt.close()
