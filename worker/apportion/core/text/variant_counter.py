"""Token counter for variants of a text that share most of their beginning or end.

It gives the counts of the texts. A text is counted in parts from seam to seam (see `core.text.reckoning`);
parts in common with the remembered text are not counted again. So a whole bisection costs about one count of
the longest text. A stretch without a seam is counted each time, or approximately on the grid, if the caller
wants that and the counter is exact. A counter whose parts do not add up at seams counts each text whole.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, pairwise

from apportion.core.text.reckoning import SEAM_REACH, first_seam, part_starts
from apportion.core.text.tokens import TokenCounter, units_of

_SHORT = 4_096
"""The longest text that is counted directly, in code points."""
_PARTS = 64
"""The approximate number of parts of the changed text; no part is shorter than twice SEAM_REACH."""


class Alike:
    """A counter that remembers one text: some of its seams, its end, and the units up to each of them.

    The starts of parts on the grid are among the seams, so the next text reuses their counts.
    """

    def __init__(self, counter: TokenCounter, *, reckons: bool = False) -> None:
        """Start without a text; with `reckons`, long stretches without a seam are counted on the grid."""
        self.name, self.digest = counter.name, counter.digest
        self._counter = counter
        self._units = units_of(counter)
        self._reckons = reckons and self._units.dear
        self._text = ""
        self._seams = [0]
        self._up_to = [0]

    def count(self, text: str) -> int:
        """Return the tokens of a text, exact unless a part is on the grid."""
        if len(text) <= _SHORT or not self._units.is_exact:
            return self._counter.count(text)
        if text == self._text:
            return self._units.tokens(self._up_to[-1])
        known, further = self._text, len(text) - len(self._text)
        # A seam depends on the text on both sides of it.
        before = max(0, bisect_left(self._seams, _beginning_in_common(text, known)) - 1)
        start = self._seams[before]
        behind = max(len(known) - _end_in_common(text, known), start - further - 1)
        after = min(bisect_right(self._seams, behind), len(self._seams) - 1)
        end = self._seams[after] + further
        seams = [start, *_seams_between(text, start, end), end]
        if self._reckons:
            seams = self._with_grid(text, seams)
        parts = [self._units.of(text[first:behind]) for first, behind in pairwise(seams)]
        up_to = list(accumulate(parts, initial=self._up_to[before]))
        more = up_to[-1] - self._up_to[after]
        total = self._up_to[-1] + more
        if further >= 0 or end - start > len(text) // 2:
            self._text = text
            self._seams = [
                *self._seams[:before],
                *seams,
                *(seam + further for seam in self._seams[after + 1 :]),
            ]
            self._up_to = [
                *self._up_to[:before],
                *up_to,
                *(units + more for units in self._up_to[after + 1 :]),
            ]
        return self._units.tokens(total)

    def _with_grid(self, text: str, seams: Sequence[int]) -> list[int]:
        """Return the seams, with further seams or starts on the grid between distant ones."""
        between = (
            [*(first for first, _ in part_starts(text, start, end)), end] for start, end in pairwise(seams)
        )
        return [seams[0], *chain.from_iterable(between)]

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""
        if not self._units.is_exact:
            return self._counter.count_many(texts)
        short = iter(self._counter.count_many([text for text in texts if len(text) <= _SHORT]))
        return [next(short) if len(text) <= _SHORT else self.count(text) for text in texts]


def _seams_between(text: str, start: int, end: int) -> list[int]:
    """Return at most one seam for each of about `_PARTS` equal parts of a text."""
    step = max(2 * SEAM_REACH, (end - start) // _PARTS)
    near = (first_seam(text, at, min(at + SEAM_REACH, end)) for at in range(start + step, end, step))
    return [seam for seam in near if seam]


def _beginning_in_common(first: str, second: str) -> int:
    """Return the length of the common prefix of two texts, in code points."""
    most = min(len(first), len(second))
    return _longest(most, lambda same, more: first[same:more] == second[same:more])


def _end_in_common(first: str, second: str) -> int:
    """Return the length of the common suffix of two texts, in code points."""
    one, other, most = len(first), len(second), min(len(first), len(second))
    return _longest(
        most, lambda same, more: first[one - more : one - same] == second[other - more : other - same]
    )


def _longest(most: int, agree: Callable[[int, int], bool]) -> int:
    """Return the length up to which two texts agree, by bisection over the length from `same` to `more`."""
    same = 0
    while same < most:
        middle = (same + most + 1) // 2
        if agree(same, middle):
            same = middle
        else:
            most = middle - 1
    return same
