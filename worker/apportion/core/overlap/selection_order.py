"""In which order candidates are considered: as they rank, or with what was said once worth less afterwards.

Decides the discounted score, s · (1000 - c) // 1000, c being the greatest cover of a candidate by those
chosen so far, and who comes next: the candidate of the greatest one, ties in canonical order. Scores only
fall, so a candidate is looked at again only when its turn comes. Never measures a cover, as
`core.overlap.pairs` does, and never selects.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush, heapreplace
from typing import ClassVar, Protocol

from msgspec import Struct

ALL = 1_000
"""The cover of a content of which another says all, in thousandths."""
_AFTER_ALL = (1, 0)


class Order(Protocol):
    """In which order a selection considers candidates, by place in canonical order; for one selection."""

    @property
    def redundant(self) -> Collection[int]:
        """Those worth something by themselves, of which a chosen one says all, as it stands now."""
        ...

    @property
    def covered(self) -> Mapping[int, tuple[int, int]]:
        """Of each that was partly said when taken or considered last: by whom, and how many thousandths."""
        ...

    def over(self, places: Sequence[int]) -> Iterable[int]:
        """Return these places, given in canonical order, in the order in which they are considered.

        What is taken meanwhile may change what comes next. Among them scores do not rise.
        """
        ...

    def taken(self, place: int) -> int:
        """Take notice that the candidate at a place is selected; return its score at this moment."""
        ...


class Canonical:
    """Canonical order, and the scores as they are."""

    __slots__ = ("taken",)

    redundant: ClassVar[Collection[int]] = ()
    covered: ClassVar[Mapping[int, tuple[int, int]]] = {}

    def __init__(self, scores: Sequence[int]) -> None:
        """`scores` are those of the candidates, by place."""
        self.taken = scores.__getitem__

    def over(self, places: Sequence[int]) -> Sequence[int]:
        """Return the places as they are given."""
        return places


class Overlap(Struct, frozen=True):
    """Who says what of whom, by place in canonical order.

    `said_by` holds, for each place, those of which it says something, and how many thousandths of them.
    Contents that are equal are not among these: `same` is, for each place, the first one with its content,
    and `copies` holds, by that first one, all with a content that comes several times.
    """

    said_by: Sequence[Sequence[tuple[int, int]]]
    same: Sequence[int]
    copies: Mapping[int, Sequence[int]]


class Discounted:
    """Candidates by discounted score. Of several that say as much of one, it is covered by the first."""

    def __init__(self, overlap: Overlap, scores: Sequence[int], exempt: Collection[int] = ()) -> None:
        """Begin with nothing chosen; those `exempt` are never discounted, and discount others."""
        self.redundant: set[int] = set()
        self.covered: dict[int, tuple[int, int]] = {}
        self._overlap = overlap
        self._scores = scores
        self._exempt = frozenset(exempt)
        self._taken = bytearray(len(scores))
        self._cover = [0] * len(scores)
        self._by = [0] * len(scores)
        self._first_copy: dict[int, int] = {}

    def over(self, places: Sequence[int]) -> Iterator[int]:
        """Yield those that are not taken, by discounted score."""
        scores, cover, taken = self._scores, self._cover, self._taken
        waiting: list[tuple[int, int]] = []
        for place in places:
            while not (taken[place] or cover[place]):
                own = (-scores[place], place)
                # what waits has a worth that was looked at before, and worths only fall
                ahead = self._ahead(waiting, own) if waiting and waiting[0] < own else None
                if ahead is None:
                    yield place
                    break
                yield ahead
            else:
                if not taken[place]:
                    heappush(waiting, (-self._worth(place), place))
        while (ahead := self._ahead(waiting, _AFTER_ALL)) is not None:
            yield ahead

    def taken(self, place: int) -> int:
        """Take notice that a candidate is chosen; return what it is worth at this moment."""
        worth = self._scores[place] if place in self._exempt else self._worth(place)
        if place not in self._exempt:
            self._consider(place)
        self._taken[place] = 1
        for said, cover in self._overlap.said_by[place]:
            self._say(said, cover, place)
        first = self._overlap.same[place]
        if first in self._first_copy:
            self._first_copy[first] = min(self._first_copy[first], place)
        elif first in self._overlap.copies:
            self._first_copy[first] = place
            for copy in self._overlap.copies[first]:
                self._say(copy, ALL, place)
        return worth

    def _worth(self, place: int) -> int:
        return self._scores[place] * (ALL - self._cover[place]) // ALL

    def _ahead(self, waiting: list[tuple[int, int]], before: tuple[int, int]) -> int | None:
        """Take out of those that wait, a heap, the one that comes next, if it does so before another."""
        while waiting:
            worth, place = waiting[0]
            now = -self._worth(place)
            if self._taken[place]:
                heappop(waiting)
            elif now != worth:
                heapreplace(waiting, (now, place))
            elif (worth, place) < before:
                heappop(waiting)
                self._consider(place)
                return place
            else:
                break
        return None

    def _consider(self, place: int) -> None:
        cover, by = self._cover[place], self._by[place]
        if cover:
            first_copy = self._first_copy.get(self._overlap.same[place], by)
            self.covered[place] = (min(by, first_copy) if cover == ALL else by, cover)

    def _say(self, said: int, cover: int, by: int) -> None:
        """Take notice that one who was chosen covers another."""
        if cover > self._cover[said]:
            self._cover[said], self._by[said] = cover, by
            if cover == ALL and self._scores[said]:
                self.redundant.add(said)
        elif cover == self._cover[said]:
            self._by[said] = min(self._by[said], by)
