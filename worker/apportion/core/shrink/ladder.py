"""Ladders: the smaller forms of one text, and the search for the largest that stays within a target.

Decides which form is taken. Never decides what a form leaves out: the rungs come from the strategies.

A ladder is a whole text and its rungs, the largest forms first. A rung has `size` forms of one sort: form k
keeps k of something (lines, entries, bodies, nodes, code points), 1 ≤ k ≤ size.

The search, exactly: if the whole costs no more than the target, it is the answer. Else, rung by rung: lo = 0
and hi = size; while lo < hi, mid = (lo + hi + 1) // 2, and if form mid costs no more than the target,
lo = mid, else hi = mid - 1. If lo > 0, form lo is the answer, else the next rung is searched. After the last
rung there is no answer.

Each step counts a form as it would stand, its marker included: what is found fits, and costs less than the
whole, as far as `count` is exact and does not reckon (see `core.text.reckoning`). BPE counts are not
monotone, so "largest" holds along this path. Forms halve until one fits, so a small target costs about one
count of the whole for each rung that is searched; a large one, too, where `count` adds up what forms have
in common (see `core.text.variant_counter`).
"""

from collections.abc import Callable

from msgspec import Struct

from apportion.core.text.cut import largest


class Shrunk(Struct, frozen=True):
    """A form of a text, and the exact count of it, or what a ladder whose `count` reckons takes for that."""

    text: str
    tokens: int


class Rung(Struct, frozen=True):
    """Forms of one sort; `render(kept)` gives the text of one, for 1 ≤ kept ≤ size."""

    size: int
    render: Callable[[int], str]


class Ladder(Struct, frozen=True):
    """A whole text and the rungs below it; `count` gives the tokens of a form.

    `known` are those of forms that were counted, by the place of the rung and what the form keeps: searches
    for targets that are close take almost the same path.
    """

    whole: Shrunk
    rungs: tuple[Rung, ...]
    count: Callable[[str], int]
    known: dict[tuple[int, int], int] = {}

    def within(self, target_tokens: int) -> Shrunk | None:
        """Return the largest form that costs no more than the target; None if the search finds none."""
        if self.whole.tokens <= target_tokens:
            return self.whole
        for place in range(len(self.rungs)):
            found = self._largest(place, target_tokens)
            if found is not None:
                return found
        return None

    def smallest(self) -> Shrunk:
        """Return the largest form that costs no more than the whole and the form 1 of each rung do."""
        first = [self._tokens(place, 1) for place, rung in enumerate(self.rungs) if rung.size]
        found = self.within(min([self.whole.tokens, *first]))
        assert found is not None  # the search of a rung ends at its form 1
        return found

    def _largest(self, place: int, target_tokens: int) -> Shrunk | None:
        rung = self.rungs[place]
        kept = largest(rung.size, lambda kept: self._tokens(place, kept) <= target_tokens)
        return Shrunk(rung.render(kept), self._tokens(place, kept)) if kept else None

    def _tokens(self, place: int, kept: int) -> int:
        tokens = self.known.get((place, kept))
        if tokens is None:
            tokens = self.known[place, kept] = self.count(self.rungs[place].render(kept))
        return tokens
