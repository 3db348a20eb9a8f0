"""Order by discounted score for parts of candidates; parts of one candidate never cover each other."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from apportion.core.overlap.selection_order import ALL, Discounted, Overlap


class DiscountedParts(Discounted):
    """Order by discounted score among parts of candidates; `owners` has the candidate of each index."""

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
        """Record that a copy is selected: it covers the copies that belong to other candidates.

        The first selected copy is remembered, and the first selected copy that belongs to another candidate.
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

    def _first_selected_copy(self, index: int) -> int | None:
        """Return the first selected copy that belongs to another candidate, or None."""
        copies = self._first_copies.get(self._overlap.same[index], ())
        return next((copy for copy in copies if self._owners[copy] != self._owners[index]), None)
