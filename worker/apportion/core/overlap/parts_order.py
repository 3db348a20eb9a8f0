"""Order by discounted score where several parts of one candidate compete: they do not overlap each other."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from apportion.core.overlap.selection_order import ALL, Discounted, Overlap


class DiscountedParts(Discounted):
    """Order by discounted score among parts of candidates; `owners` has the candidate of each index."""

    def __init__(
        self, owners: Sequence[str], overlap: Overlap, scores: Sequence[int], exempt: Collection[int] = ()
    ) -> None:
        said_by = [
            [(covered, cover) for covered, cover in pairs if owners[covered] != owners[index]]
            for index, pairs in enumerate(overlap.said_by)
        ]
        super().__init__(replace(overlap, said_by=said_by), scores, exempt)
        self._owners = owners
        self._first_copies: dict[int, list[int]] = {}

    def _take_copy(self, first: int, index: int) -> None:
        """Record that a copy is selected: the copies of other candidates are covered.

        Of the selected copies, the first is remembered, and the first of any other candidate.
        """
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

    def _first_copy_beside(self, index: int) -> int | None:
        """Return the first selected copy of a candidate's content, of another candidate."""
        copies = self._first_copies.get(self._overlap.same[index], ())
        return next((copy for copy in copies if self._owners[copy] != self._owners[index]), None)
