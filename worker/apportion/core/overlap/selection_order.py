"""Order in which a selection considers candidates: canonical, or by a score that is discounted for overlap.

The discounted score is s · (1000 - c) // 1000. c is the greatest cover of the candidate by a candidate that
is already selected, in thousandths. The candidate with the highest discounted score comes next; ties are in
canonical order. Scores only fall, so a candidate's score is computed again only when its turn comes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush, heapreplace
from typing import ClassVar, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

ALL = 1_000
"""The cover of a content that another content covers completely, in thousandths."""
_AFTER_ALL = (1, 0)


class Canonical:
    """Canonical order, with undiscounted scores."""

    redundant: ClassVar[Collection[int]] = ()
    covered: ClassVar[Mapping[int, tuple[int, int]]] = {}

    def __init__(self, scores: Sequence[int]) -> None:
        self.taken = scores.__getitem__

    def arrange(self, indices: Sequence[int]) -> Sequence[int]:
        """Return the indices unchanged."""
        return indices


class Overlap(Struct, frozen=True):
    """The overlaps between candidates, by their indices in canonical order.

    `covers_of` holds, for each index, the indices that it covers and their cover in thousandths. Pairs of
    equal contents are left out. `same` holds, for each index, the first index with the same content. `copies`
    holds, by that first index, all indices of a content that occurs several times.
    """

    covers_of: Sequence[Sequence[tuple[int, int]]]
    same: Sequence[int]
    copies: Mapping[int, Sequence[int]]


class Discounted:
    """Order by discounted score. Of equal covers, the first covering candidate in canonical order counts."""

    def __init__(self, overlap: Overlap, scores: Sequence[int], exempt: Collection[int] = ()) -> None:
        """Begin with nothing selected; `exempt` candidates discount others and are never discounted."""
        self.redundant: set[int] = set()
        """The candidates with a score above 0 that a selected candidate covers completely."""
        self.covered: dict[int, tuple[int, int]] = {}
        """The covering index and the thousandths of each candidate that was covered when last considered."""
        self._overlap = overlap
        self._scores = scores
        self._exempt = frozenset(exempt)
        self._taken = bytearray(len(scores))
        self._cover = [0] * len(scores)
        self._by = [0] * len(scores)
        self._first_copy: dict[int, int] = {}

    def arrange(self, indices: Sequence[int]) -> Iterator[int]:
        """Yield the indices that are not taken, by discounted score; they are given in canonical order.

        Candidates that are taken meanwhile may change the rest of the order. Scores never rise within it.
        """
        scores, cover, taken = self._scores, self._cover, self._taken
        waiting: list[tuple[int, int]] = []
        for index in indices:
            while not (taken[index] or cover[index]):
                own = (-scores[index], index)
                # The scores in the heap may be outdated, but they only fall.
                ahead = self._ahead(waiting, own) if waiting and waiting[0] < own else None
                if ahead is None:
                    yield index
                    break
                yield ahead
            else:
                if not taken[index]:
                    heappush(waiting, (-self._worth(index), index))
        while (ahead := self._ahead(waiting, _AFTER_ALL)) is not None:
            yield ahead

    def taken(self, index: int) -> int:
        """Record that a candidate is selected; return its current score."""
        worth = self._scores[index] if index in self._exempt else self._worth(index)
        if index not in self._exempt:
            self._consider(index)
        self._taken[index] = 1
        for covered, cover in self._overlap.covers_of[index]:
            self._raise_cover(covered, cover, index)
        first = self._overlap.same[index]
        if first in self._overlap.copies:
            self._take_copy(first, index)
        return worth

    def _take_copy(self, first: int, index: int) -> None:
        """Record that a copy is selected, by the first index of its content: it covers the other copies."""
        if first in self._first_copy:
            self._first_copy[first] = min(self._first_copy[first], index)
        else:
            self._first_copy[first] = index
            for copy in self._overlap.copies[first]:
                self._raise_cover(copy, ALL, index)

    def _first_selected_copy(self, index: int) -> int | None:
        return self._first_copy.get(self._overlap.same[index])

    def _worth(self, index: int) -> int:
        return self._scores[index] * (ALL - self._cover[index]) // ALL

    def _ahead(self, waiting: list[tuple[int, int]], before: tuple[int, int]) -> int | None:
        """Take the next candidate out of the heap and return it, if it comes before `before`; else None."""
        while waiting:
            worth, index = waiting[0]
            now = -self._worth(index)
            if self._taken[index]:
                heappop(waiting)
            elif now != worth:
                heapreplace(waiting, (now, index))
            elif (worth, index) < before:
                heappop(waiting)
                self._consider(index)
                return index
            else:
                break
        return None

    def _consider(self, index: int) -> None:
        cover, by = self._cover[index], self._by[index]
        if cover:
            first_copy = self._first_selected_copy(index) if cover == ALL else None
            self.covered[index] = (by if first_copy is None else min(by, first_copy), cover)

    def _raise_cover(self, covered: int, cover: int, by: int) -> None:
        if cover > self._cover[covered]:
            self._cover[covered], self._by[covered] = cover, by
            if cover == ALL and self._scores[covered]:
                self.redundant.add(covered)
        elif cover == self._cover[covered]:
            self._by[covered] = min(self._by[covered], by)


class DiscountedParts(Discounted):
    """Order by discounted score among parts; parts of one of the `owners` do not overlap each other."""

    def __init__(
        self, owners: Sequence[str], overlap: Overlap, scores: Sequence[int], exempt: Collection[int] = ()
    ) -> None:
        covers_of = [
            [(covered, cover) for covered, cover in pairs if owners[covered] != owners[index]]
            for index, pairs in enumerate(overlap.covers_of)
        ]
        super().__init__(replace(overlap, covers_of=covers_of), scores, exempt)
        self._owners = owners
        self._first_copies: dict[int, list[int]] = {}

    def _take_copy(self, first: int, index: int) -> None:
        """Record that a copy is selected; remember the first, and the first of any other candidate."""
        owners, known = self._owners, self._first_copies.setdefault(first, [])
        if len({owners[copy] for copy in (*known, index)}) > len(known):
            for copy in self._overlap.copies[first]:
                is_covered = not known or owners[copy] == owners[known[0]]
                if is_covered and owners[copy] != owners[index]:
                    self._raise_cover(copy, ALL, index)
        of_owner: dict[str, int] = {}
        for copy in sorted([*known, index]):
            of_owner.setdefault(owners[copy], copy)
        self._first_copies[first] = list(of_owner.values())[:2]

    def _first_selected_copy(self, index: int) -> int | None:
        copies = self._first_copies.get(self._overlap.same[index], ())
        return next((copy for copy in copies if self._owners[copy] != self._owners[index]), None)


Order: TypeAlias = Canonical | Discounted
"""The order in which a single selection considers candidates, by their indices in canonical order."""
