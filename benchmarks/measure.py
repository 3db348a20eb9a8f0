"""Timing: two things in turn, the best of many rounds of each, so that a machine that drifts tells no lie."""

import gc
from collections.abc import Callable
from time import perf_counter


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


def table(title: str, *rows: tuple[str, str]) -> None:
    """Print a block of figures."""
    print(f"\n{title}")
    for name, figure in rows:
        print(f"  {name:<58} {figure:>20}")


_MILLISECONDS_FROM_S = 0.002


def micro(seconds: float) -> str:
    """Return a time as people read it."""
    return f"{seconds * 1e6:,.0f} µs" if seconds < _MILLISECONDS_FROM_S else f"{seconds * 1e3:,.2f} ms"
