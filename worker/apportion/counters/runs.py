"""Counting long runs of one sign, as rulers are, by what their encoding repeats.

Decides how the counts of a text's parts add up to the count of the whole, and only where that is certain.
Never decides what a token is: every token is the engine's own.

For some signs the vocabularies have tokens of up to 112. In a run of them the engine tries each of these
after each other: 0.8 µs a sign, twenty times what other text takes. What comes out repeats the token of 64.

A text's encoding is the only sequence of its tokens of which each two neighbours, taken alone, are encoded as
themselves; the engine itself goes by that. So a run is parted, and tokens of 64 are taken out between the
parts. What the parts are encoded as, with these tokens back between them, is the encoding of the whole if
each two that meet there are right. That is looked at for every run; one that fails is counted undivided.

This holds within a piece of the encoding's pattern, and no piece begins or ends within a run of punctuation.
Where its piece ends does not depend on what stands before the run, but for one exception: after a line end
`/` may belong to the punctuation before that, and then its piece goes on with line ends and `/` alone. Of
white space there are runs of tabs; where more white space stands before them, they are not parted.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, Protocol

_REPEATED: Mapping[str, int] = {"-": 64, "=": 64, "/": 64, "*": 64, "#": 64, "\t": 16}
"""How many signs the token has that a long run repeats, in both encodings; of other signs no run is dear."""
_LONG_RUN = re.compile(
    "|".join(
        rf"(?<!{sign}){sign}{{{2 * size},}}"
        for sign, size in ((re.escape(sign), size) for sign, size in _REPEATED.items())
    )
)
_RULERS = tuple(sign * 2 * size for sign, size in _REPEATED.items())
_SHORTEST = min(map(len, _RULERS))
_LINE_ENDS = ("\r", "\n")
_ENDS_PUNCTUATION = re.compile(r"[ \t\r\n0-9A-Za-z]|\Z")
_TRIES = 2
"""How often a text is encoded in parts: a second time without the cuts that did not pass."""


class Tokenizer(Protocol):
    """What is asked of the engine."""

    def count(self, text: str, /) -> int:
        """Return how many tokens a text is encoded as."""
        ...

    def encode(self, text: str, /) -> list[int]:
        """Return the tokens that a text is encoded as."""
        ...

    def decode(self, tokens: list[int], /) -> str:
        """Return the text of tokens; ValueError where it ends within a character."""
        ...


class _Cut(NamedTuple):
    """Where a part ends and the next one begins, which token is repeated between them, and how often."""

    end: int
    start: int
    repeated: int
    times: int


class RunCounter:
    """Counts with an engine, long runs by what is repeated in them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Count with that engine."""
        self._count = tokenizer.count
        self._tokenizer = tokenizer
        # both answer for what a text is made of at its cuts, and that is of few sorts
        self._before: Callable[[str, str], tuple[int, int]] = lru_cache(1_024)(self._repeats_after)
        self._stand: Callable[[int, int], bool] = lru_cache(4_096)(self._are_neighbours)

    def count(self, text: str) -> int:
        """Return the tokens of a text, exactly."""
        if len(text) < _SHORTEST or not any(ruler in text for ruler in _RULERS):
            return self._count(text)
        cuts = list(self._cuts(text))
        for _ in range(_TRIES):
            tokens, passed = self._parted(text, cuts)
            if len(passed) == len(cuts):
                return tokens
            cuts = passed
        return self._count(text)

    def _cuts(self, text: str) -> Iterator[_Cut]:
        """Yield a cut for each long run: from behind its first repeated token to the last one or two."""
        for run in _LONG_RUN.finditer(text):
            start, end = run.span()
            sign, before = text[start], text[max(0, start - 1) : start]
            if _may_be_parted(sign, before, text, end):
                aside, repeated = self._before(before, sign)
                size = _REPEATED[sign]
                times = (end - start - aside) // size - 1
                if times >= 0:
                    yield _Cut(start + aside, start + aside + times * size, repeated, times)

    def _repeats_after(self, before: str, sign: str) -> tuple[int, int]:
        """Return after how many signs of a run a token ends before repeated ones, and which these are."""
        size = _REPEATED[sign]
        (repeated, *_) = self._tokenizer.encode(sign * size)
        tokens = self._tokenizer.encode(before + sign * 4 * size)
        if repeated not in tokens:
            return size, repeated
        aside = self._tokenizer.decode(tokens[: tokens.index(repeated)])
        return (len(aside) - len(before)) or size, repeated

    def _parted(self, text: str, cuts: Sequence[_Cut]) -> tuple[int, list[_Cut]]:
        """Return the tokens of a text by its parts, and the cuts at which that is certain."""
        ends = [*(cut.end for cut in cuts), len(text)]
        starts = [0, *(cut.start for cut in cuts)]
        tokens, outer = 0, []
        for start, end in zip(starts, ends, strict=True):
            encoded = self._tokenizer.encode(text[start:end])
            tokens += len(encoded)
            outer.append((encoded[0], encoded[-1]))
        passed = []
        for cut, ((_, last), (first, _)) in zip(cuts, pairwise(outer), strict=True):
            tokens += cut.times
            between = (cut.repeated,) * min(cut.times, 2)
            if all(self._stand(*pair) for pair in pairwise((last, *between, first))):
                passed.append(cut)
        return tokens, passed

    def _are_neighbours(self, one: int, other: int) -> bool:
        """Tell whether two tokens, taken alone, are encoded as themselves."""
        try:
            text = self._tokenizer.decode([one]) + self._tokenizer.decode([other])
        except ValueError:
            return False
        return self._tokenizer.encode(text) == [one, other]


def _may_be_parted(sign: str, before: str, text: str, end: int) -> bool:
    """Tell whether the pieces on both sides of a cut in a run are those of the whole text."""
    if sign == "\t":  # white space before it may be parted from it by a line end that comes later
        return not before.isspace()
    if sign == "/" and before in _LINE_ENDS:
        return _ENDS_PUNCTUATION.match(text, end) is not None
    return True
