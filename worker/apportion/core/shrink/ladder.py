"""Ladders: the smaller forms of a text, and the search for the largest form within a target.

A ladder is a whole text and its rungs, the largest forms first. A rung has `size` forms of one sort: form k
keeps k lines, entries, bodies, nodes or code points, 1 ≤ k ≤ size. Strategies build the rungs.

The search works exactly as follows. If the whole costs no more than the target, it is the answer. Otherwise
the rungs are searched in order, each by bisection: lo = 0 and hi = size. While lo < hi, let
mid = (lo + hi + 1) // 2. If form mid costs no more than the target, lo = mid, else hi = mid - 1. If lo > 0 at
the end, form lo is the answer. If no rung has an answer, there is none.

Each step counts a form with its marker. So the found form fits and costs less than the whole, if `count` is
exact and does not reckon (see `core.text.reckoning`). BPE counts are not monotone, so "largest" holds only
along this path. Each step halves the form until one fits. So the search of a rung for a small target costs
about one count of the whole. For a large target, that holds if `count` counts the common parts of forms only
once (see `core.text.variant_counter`).
"""

from collections.abc import Callable

from msgspec import Struct

from apportion.core.text.cut import largest


class Shrunk(Struct, frozen=True):
    """A form of a text and its tokens; they are exact if the ladder's `count` is exact."""

    text: str
    tokens: int


class Rung(Struct, frozen=True):
    """Forms of one sort; `render(kept)` returns the text of a form, for 1 ≤ kept ≤ size."""

    size: int
    render: Callable[[int], str]


class Ladder(Struct, frozen=True):
    """A whole text and the rungs below it; `count` returns the tokens of a form.

    `known` has the tokens of the counted forms, by rung and number kept. Searches for close targets take
    almost the same path, so they reuse these counts.
    """

    whole: Shrunk
    rungs: tuple[Rung, ...]
    count: Callable[[str], int]
    known: dict[tuple[int, int], int] = {}

    def within(self, target_tokens: int) -> Shrunk | None:
        """Return the largest form that costs no more than the target; None if the search finds none."""
        if self.whole.tokens <= target_tokens:
            return self.whole
        for index in range(len(self.rungs)):
            form = self._largest(index, target_tokens)
            if form is not None:
                return form
        return None

    def smallest(self) -> Shrunk:
        """Return the largest form that costs no more than the cheapest of the whole and all forms 1."""
        first = [self._tokens(index, 1) for index, rung in enumerate(self.rungs) if rung.size]
        form = self.within(min([self.whole.tokens, *first]))
        assert form is not None  # the search of a rung ends at its form 1
        return form

    def _largest(self, index: int, target_tokens: int) -> Shrunk | None:
        rung = self.rungs[index]
        kept = largest(rung.size, lambda kept: self._tokens(index, kept) <= target_tokens)
        return Shrunk(rung.render(kept), self._tokens(index, kept)) if kept else None

    def _tokens(self, index: int, kept: int) -> int:
        tokens = self.known.get((index, kept))
        if tokens is None:
            tokens = self.known[index, kept] = self.count(self.rungs[index].render(kept))
        return tokens
