"""Token counter for variants of a text, which share most of their beginning or end.

Decides nothing: it is what counting each would give. A text is counted in parts, from seam to seam (see
`core.text.reckoning`); a part that it has in common with the text that is remembered is not counted
again. So all that a bisection asks for costs about one count of the longest. Where there is no seam in
sight, it is one count each, or, if that is asked for and the counter dear, a reckoning on a grid (see
`core.text.reckoning`), which is near what counting each would give.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain, pairwise

from apportion.core.text.reckoning import REACH, first_seam, places
from apportion.core.text.tokens import TokenCounter, units_of

_SHORT = 4_096
"""The longest text that is counted directly, in code points."""
_PARTS = 64
"""The approximate number of parts of a text's new section; no part is shorter than twice REACH."""


class Alike:
    """A counter that remembers one text: its seams, including its end, and its units up to each seam.

    The starts of chunks are among the seams, so that the next text reuses the estimates of common chunks.
    """

    def __init__(self, counter: TokenCounter, *, reckons: bool = False) -> None:
        """Start without a text; with `reckons`, long texts without a seam are estimated by chunks."""
        self.name, self.digest = counter.name, counter.digest
        self._counter = counter
        self._units = units_of(counter)
        self._reckons = reckons and self._units.dear
        self._text = ""
        self._seams = [0]
        self._up_to = [0]

    def count(self, text: str) -> int:
        """Return the tokens of a text, exact unless it is estimated by chunks."""
        if len(text) <= _SHORT:
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
        """Return the seams, with further seams or starts of chunks between distant ones."""
        between = ([*(place for place, _ in places(text, start, end)), end] for start, end in pairwise(seams))
        return [seams[0], *chain.from_iterable(between)]

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""
        short = iter(self._counter.count_many([text for text in texts if len(text) <= _SHORT]))
        return [next(short) if len(text) <= _SHORT else self.count(text) for text in texts]


def _seams_between(text: str, start: int, end: int) -> list[int]:
    """Return some seams of a text, at a distance from one another."""
    step = max(2 * REACH, (end - start) // _PARTS)
    near = (first_seam(text, place, min(place + REACH, end)) for place in range(start + step, end, step))
    return [seam for seam in near if seam]


def _beginning_in_common(first: str, second: str) -> int:
    """Return the length of the common prefix of two texts, in code points."""
    same, most = 0, min(len(first), len(second))
    while same < most:
        middle = (same + most + 1) // 2
        if first[same:middle] == second[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same


def _end_in_common(first: str, second: str) -> int:
    """Return the length of the common suffix of two texts, in code points."""
    return _beginning_in_common(first[::-1], second[::-1])
