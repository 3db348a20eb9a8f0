"""The most expensive known or found requests of up to 1 MiB; the goal is that none takes over 0.3 s.

The known requests come first. Then a search of the given time draws requests of many shapes at random, and
changes the most expensive ones so far. Each is tried in its own process, which is ended if it takes too long.
The search prints a request as its parameters, from which it can be made again.

    python -m benchmarks.worst --seconds 60
    python -m benchmarks.worst --seconds 0 --only query
    python -m benchmarks.worst --again '{"strategy":"lanes", …}'
"""

import time
from typing import Annotated

import msgspec
import typer

from apportion.cli._progress import progress
from benchmarks import hostile, hostile_queries, shapes
from benchmarks.search import Search
from benchmarks.trial import Bench, Case, Trial

SHOWN = 3
"""Number of results of the search that are printed for each strategy."""
_SEARCH_TIMEOUT_S = 2.0


def main(
    seconds: Annotated[float, typer.Option(min=0, help="How long to search.")] = 60,
    seed: Annotated[int, typer.Option(help="Of the search.")] = 1,
    timeout: Annotated[float, typer.Option(min=0.1, help="Of a known request, in seconds.")] = 20,
    only: Annotated[str, typer.Option(help="Known cases whose name holds this.")] = "",
    again: Annotated[str, typer.Option(help="Try one shape that a search printed, and nothing else.")] = "",
) -> None:
    """Print the cost of the known cases, then the most expensive cases that a search finds, by strategy."""
    with Bench() as bench:
        if again:
            case = shapes.case(msgspec.json.decode(again, type=shapes.Shape))
            _print(case, bench.tried(case, timeout))
            return
        print("\nthe dearest known requests of up to 1 MiB: one core, cold, from bytes to bytes")
        _known(
            [case for case in (*hostile_queries.cases(), *hostile.cases()) if only in case.name],
            bench,
            timeout,
        )
        if seconds:
            print(f"\nthe dearest of each strategy that {seconds:g} s of searching found, seed {seed}")
            _search(bench, seconds, seed, min(timeout, _SEARCH_TIMEOUT_S))


def _known(known: list[Case], bench: Bench, timeout_s: float) -> None:
    with progress("known requests", len(known), beside_output=True) as show:
        for done, case in enumerate(known, start=1):
            _print(case, bench.tried(case, timeout_s))
            show(done)


def _search(bench: Bench, seconds: float, seed: int, timeout_s: float) -> None:
    search = Search(seed)
    begun_s = time.monotonic()
    with progress("searching, in seconds", int(seconds)) as show:
        while (since_s := time.monotonic() - begun_s) < seconds:
            show(int(since_s))
            shape = search.next()
            search.trials[shape] = bench.tried(shapes.case(shape), timeout_s)
    print(f"  {len(search.trials)} requests tried")
    for shape, trial in search.dearest(SHOWN):
        _print(shapes.case(shape), trial)


def _print(case: Case, trial: Trial) -> None:
    took = f"{trial.seconds:.3f} s" if trial.event_bytes else trial.ended
    ended = trial.ended if trial.event_bytes else ""
    over = "" if trial.seconds <= case.goal_s else "over"
    print(f"  {took:>9} of {case.goal_s:<5g} {over:<5} {ended:<13} {case.name}", flush=True)


if __name__ == "__main__":
    typer.run(main)
