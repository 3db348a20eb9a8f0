"""The plots of results, as SVG."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import pyplot as plt

from benchmarks.drawing import BLUE, GREY, ORANGE
from benchmarks.retrieval.intervals import estimated
from benchmarks.retrieval.results import Result
from benchmarks.retrieval.tables import limits_of, methods_of, values

_SPACING = 0.12


def write_shares(file: Path, results: Sequence[Result], measure: str) -> None:
    """Write the mean of a measure with its interval, by method; a row a method, a panel a limit."""
    limits, methods = limits_of(results), methods_of(results)
    size = (2.4 + 2.6 * len(limits), 0.7 + 0.28 * len(methods))
    _, panels = plt.subplots(1, len(limits), figsize=size, sharey=True, squeeze=False)
    for panel, limit in zip(panels[0], limits, strict=True):
        for place, method in enumerate(methods):
            found = estimated(values(results, measure, method, limit))
            bounds = [[found.mean - found.low], [found.high - found.mean]]
            panel.errorbar(
                [found.mean], [place], xerr=bounds, fmt="o", ms=4, lw=1, color=BLUE if place == 0 else GREY
            )
        panel.axvline(estimated(values(results, measure, methods[0], limit)).mean, color=ORANGE, lw=0.8)
        panel.set(title=f"{limit:,} tokens", xlabel=measure, xlim=(0, 1))
    panels[0][0].set_yticks(range(len(methods)), methods)
    panels[0][0].invert_yaxis()
    _save(file)


def write_measures(file: Path, results: Sequence[Result]) -> None:
    """Write all measures at the least limit; a row a method, a colour a measure."""
    limit, methods = limits_of(results)[0], methods_of(results)
    _, panel = plt.subplots(figsize=(6.4, 0.7 + 0.34 * len(methods)))
    for number, (measure, color) in enumerate(zip(results[0].measures, (BLUE, ORANGE, GREY), strict=False)):
        for place, method in enumerate(methods):
            found = estimated(values(results, measure, method, limit))
            bounds = [[found.mean - found.low], [found.high - found.mean]]
            row = place + (number - 1) * 2 * _SPACING
            label = measure if place == 0 else None
            panel.errorbar([found.mean], [row], xerr=bounds, fmt="o", ms=4, lw=1, color=color, label=label)
    panel.set(xlabel=f"all evidence present, {limit:,} tokens", xlim=(0, 1))
    panel.set_yticks(range(len(methods)), methods)
    panel.invert_yaxis()
    panel.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    _save(file)


def _save(file: Path) -> None:
    plt.tight_layout()
    plt.savefig(file, metadata={"Date": None})
    plt.close()
