"""The results of a replay that people are shown: the largest changes and the first refused requests."""

import heapq
from collections.abc import Iterable, Iterator

from msgspec import Struct

from apportion.decisions.replay.replaying import ReplayResult
from apportion.decisions.replay.whatif import DecisionDifference, Misfit

SHOWN_MAX = 20


class ReplayExtract(Struct, frozen=True):
    """The changes with the largest weight, largest first, and refused requests in the order of the events."""

    largest: list[DecisionDifference]
    misfits: list[Misfit]


def extract(results: Iterable[ReplayResult]) -> ReplayExtract:
    """Read all results, and return at most `SHOWN_MAX` of each kind."""
    misfits: list[Misfit] = []

    def changes() -> Iterator[DecisionDifference]:
        for result in results:
            if isinstance(result, Misfit) and len(misfits) < SHOWN_MAX:
                misfits.append(result)
            elif isinstance(result, DecisionDifference) and result.is_change:
                yield result

    return ReplayExtract(heapq.nlargest(SHOWN_MAX, changes(), key=lambda change: change.weight), misfits)
