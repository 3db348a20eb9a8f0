"""Timing of several runs in turn, in many rounds, so that slow changes of the machine affect all of them."""

import gc
from collections.abc import Callable, Sequence
from statistics import quantiles
from time import perf_counter, process_time
from typing import TypeVar

T = TypeVar("T")


def best_s(*runs: Callable[[], object], rounds: int = 30) -> list[float]:
    """Return the best time of each run in seconds; the runs take turns."""
    least = [float("inf")] * len(runs)
    gc.collect()
    for _ in range(rounds):
        for place, run in enumerate(runs):
            begun_s = perf_counter()
            run()
            least[place] = min(least[place], perf_counter() - begun_s)
    return least


def seconds_in_turn(
    runs: Sequence[Callable[[T], object]], rounds: Sequence[Sequence[T]]
) -> list[list[float]]:
    """Return the CPU seconds of each run in each round. Each run has its own input in each round.

    The first run changes from round to round. The first round is a warm-up, and is left out.
    """
    took_s: list[list[float]] = [[] for _ in runs]
    gc.collect()
    gc.freeze()  # earlier objects are not garbage of the runs
    for number, inputs in enumerate(rounds):
        for turn in range(len(runs)):
            place = (number + turn) % len(runs)
            run, given = runs[place], inputs[place]
            begun_s = process_time()
            run(given)
            took_s[place].append(process_time() - begun_s)
    gc.unfreeze()
    return [each[1:] for each in took_s]


def spread(figures: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    low, middle, high = quantiles(figures, n=4)
    return low, middle, high


def table(title: str, *rows: tuple[str, str]) -> None:
    """Print a block of figures."""
    print(f"\n{title}")
    for name, figure in rows:
        print(f"  {name:<58} {figure:>20}")


_MILLISECONDS_FROM_S = 0.002


def micro(seconds: float) -> str:
    """Return a time as people read it."""
    return f"{seconds * 1e6:,.0f} µs" if seconds < _MILLISECONDS_FROM_S else f"{seconds * 1e3:,.2f} ms"
