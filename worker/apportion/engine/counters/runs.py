"""Exact and fast counting of long runs of one character, such as rulers (`------`).

For some characters, the vocabularies have tokens of up to 112 repetitions. In a run, the tokenizer tries all
these tokens at each place: up to 0.35 µs per character, forty times as long as for other text. Its result
mostly repeats the token of 64 characters.

The method relies on a property of BPE that the tokenizer itself uses: the encoding of a text is the only
sequence of tokens in which the joined text of each pair of neighbours is encoded as this pair. A run is cut,
and repeated tokens of 64 are left out between the parts. The encoded parts with these tokens between them are
the encoding of the whole, if each pair of neighbours at the cut has this property. This is checked for every
run. A run that fails is counted undivided.

The property holds within a piece of the encoding's pattern, and no piece begins or ends within a run of
punctuation. The end of a run's piece does not depend on the text before the run, with one exception. After a
line end, `/` can belong to the punctuation before it, and then its piece continues only with line ends and
`/`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, Protocol

_CHARACTERS = "-=/*#"
"""The characters of slow runs, in both encodings."""
_REPEATED = 64
"""Length of the token that a long run repeats."""
_SHORTEST = 2 * _REPEATED
_LONG_RUN = re.compile(
    "|".join(rf"(?<!{escaped}){escaped}{{{_SHORTEST},}}" for escaped in map(re.escape, _CHARACTERS))
)
_DASHES, _EQUALS, _SLASHES, _STARS, _HASHES = (character * _SHORTEST for character in _CHARACTERS)
_LINE_ENDS = ("\r", "\n")
_ENDS_PUNCTUATION = re.compile(r"[ \t\r\n0-9A-Za-z]|\Z")
_TRIES = 2
"""Number of times that a text is encoded in parts: the second time without the cuts that failed."""


class Tokenizer(Protocol):
    """The methods of a BPE tokenizer that counting needs."""

    def count(self, text: str, /) -> int:
        """Return the number of tokens of a text."""

    def encode_ordinary(self, text: str, /) -> list[int]:
        """Return the tokens of a text, in which no special token is recognised."""

    def decode_bytes(self, tokens: list[int], /) -> bytes:
        """Return the text of tokens in UTF-8; it may end within a character."""


def has_long_run(text: str) -> bool:
    """Return whether a text has a run of at least 128 of one of the characters."""
    # no loop: this runs for each text, and a generator takes longer than the search
    return len(text) >= _SHORTEST and (
        _DASHES in text or _EQUALS in text or _SLASHES in text or _STARS in text or _HASHES in text
    )


class _Cut(NamedTuple):
    """A cut in a run: the end of a part, the start of the next, the token between them, and how often."""

    end: int
    start: int
    repeated: int
    times: int


class RunCounter:
    """Counts tokens with a tokenizer, and long runs by the token that they repeat."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._count = tokenizer.count
        self._tokenizer = tokenizer
        # few distinct arguments occur, because they only depend on the text around cuts
        self._first_repeat: Callable[[str, str], tuple[int, int]] = lru_cache(1_024)(self._repeats_after)
        self._is_pair: Callable[[int, int], bool] = lru_cache(4_096)(self._are_neighbours)

    def count(self, text: str) -> int:
        """Return the tokens of a text, exactly."""
        if not has_long_run(text):
            return self._count(text)
        cuts = list(self._cuts(text))
        for _ in range(_TRIES):
            tokens, passed = self._parted(text, cuts)
            if len(passed) == len(cuts):
                return tokens
            cuts = passed
        return self._count(text)

    def _cuts(self, text: str) -> Iterator[_Cut]:
        """Yield a cut for each long run; at least 64 and at most 127 characters are left after it."""
        for run in _LONG_RUN.finditer(text):
            start, end = run.span()
            character, before = text[start], text[max(0, start - 1) : start]
            if character == "/" and before in _LINE_ENDS and not _ENDS_PUNCTUATION.match(text, end):
                continue  # the pattern does not split both sides of a cut as it splits the whole text
            lead, repeated = self._first_repeat(before, character)
            times = (end - start - lead) // _REPEATED - 1
            if times >= 0:
                yield _Cut(start + lead, start + lead + times * _REPEATED, repeated, times)

    def _repeats_after(self, before: str, character: str) -> tuple[int, int]:
        """Return the number of characters of a run before a cut, and the repeated token.

        The cut is at the first repeated token. If the run begins with that token or does not have it, the cut
        is after 64 characters.
        """
        (repeated, *_) = self._tokenizer.encode_ordinary(character * _REPEATED)
        tokens = self._tokenizer.encode_ordinary(before + character * 4 * _REPEATED)
        if repeated not in tokens:
            return _REPEATED, repeated
        lead = self._tokenizer.decode_bytes(tokens[: tokens.index(repeated)]).decode()
        return (len(lead) - len(before)) or _REPEATED, repeated

    def _parted(self, text: str, cuts: Sequence[_Cut]) -> tuple[int, list[_Cut]]:
        """Return the number of tokens of a text by its parts, and the cuts at which it is exact."""
        ends = [*(cut.end for cut in cuts), len(text)]
        starts = [0, *(cut.start for cut in cuts)]
        tokens, outer = 0, []
        for start, end in zip(starts, ends, strict=True):
            encoded = self._tokenizer.encode_ordinary(text[start:end])
            tokens += len(encoded)
            outer.append((encoded[0], encoded[-1]))
        passed = []
        for cut, ((_, last), (first, _)) in zip(cuts, pairwise(outer), strict=True):
            tokens += cut.times
            between = (cut.repeated,) * min(cut.times, 2)
            if all(self._is_pair(*pair) for pair in pairwise((last, *between, first))):
                passed.append(cut)
        return tokens, passed

    def _are_neighbours(self, left: int, right: int) -> bool:
        """Return whether the joined text of two tokens is encoded as these two tokens."""
        try:
            text = self._tokenizer.decode_bytes([left, right]).decode()
        except UnicodeDecodeError:
            return False
        return self._tokenizer.encode_ordinary(text) == [left, right]
