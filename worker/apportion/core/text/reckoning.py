"""Seams of a text, the grid, and the correction of reckoned counts.

To *reckon* a text is to add up the counts of its parts. So a search need not count the whole at each step.

A *seam* is a position that no token of any counter spans:

- before a space that follows a character other than white space;
- at the start of a line whose first character is neither white space nor `/`;
- at the start of a line with `/`, if the last character before the line ends is an ASCII letter or digit.

The patterns of the encodings (`apportion.engine.counters.bpe`) have no match across a seam, and the matches
on one side do not depend on the other side: only punctuation includes the line ends and the `/` after it. So
the sum of the counts between seams is the count of the whole. The same holds for the vocabularies of open
models, except Gemma's, which has pieces across seams (`> </` and `▁`). A user's file may have others. Their
reckoned counts may differ from the count of the whole, as on the grid below.

A stretch of more than 16,384 code points without a seam is cut on a *grid*: every 6,144 code points from its
last seam on. The sum of these counts is near the count of the whole, and may differ. `Correction` counts the
result, and repeats the search if it is too long.
"""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from apportion.core.text.characters import SPACE_OR_SEPARATOR

SEAM_REACH = 512
"""The code points on each side of a joint that are searched for a seam.

If there is no seam, as in one endless word, the effect of the joint is reckoned on these code points. That is
exact unless a single match of an encoding's pattern is longer.
"""

SEAMLESS_LENGTH = 16_384
"""The longest stretch without a seam that is counted as a whole, in code points."""
GRID_LENGTH = 6_144
"""The code points of a part: a multiple of the tokens of repeated signs (2, 4 … 128) and of digits (3)."""
_SPACE = SPACE_OR_SEPARATOR
"""Unicode's white space and more: every seam found is safe, and a few are missed."""
_LAST_SEAM = re.compile(
    rf"(?s:.*)(?:(?<=[^{_SPACE}])(?= )|(?<=\n)(?=[^{_SPACE}/])|[0-9A-Za-z][\r\n]*\n(?=/))"
)
_FIRST_SEAM = re.compile(rf"(?<=[^{_SPACE}])(?= )|(?<=\n)(?=[^{_SPACE}/])")
_APART = re.compile(f"[^{_SPACE}/]")
_WORD_END = re.compile(r"[0-9A-Za-z]\Z")


def last_seam(text: str) -> int:
    """Return the index of the last seam; 0 if there is none."""
    found = _LAST_SEAM.match(text)
    return found.end() if found else 0


def first_seam(text: str, start: int, end: int) -> int:
    """Return the index of the first seam from `start` on that is recognized before `end`; else 0."""
    found = _FIRST_SEAM.search(text, start, end)
    return found.start() if found else 0


def begins_at_seam(before: str, line: str) -> bool:
    """Return whether there is a seam at the start of `line`, which line ends separate from `before`."""
    if line.startswith("/"):
        return _WORD_END.search(before, max(0, len(before) - 1)) is not None
    return _APART.match(line) is not None


def end_of(text: str) -> str:
    """Return the part after the last seam: its count may depend on the text that follows."""
    near = text[-SEAM_REACH:]
    return near[last_seam(near) :]


def beginning_of(text: str) -> str:
    """Return the part up to the first seam: its count may depend on the text before it."""
    near = text[:SEAM_REACH]
    found = _FIRST_SEAM.search(near)
    return near[: found.start()] if found else near


def part_starts(text: str, start: int, end: int) -> Iterator[tuple[int, bool]]:
    """Yield the start of each part of a stretch except the first, and whether the start is on the grid.

    A part ends at the last seam within `SEAMLESS_LENGTH`, else after `GRID_LENGTH`. The last part is no
    longer than `SEAMLESS_LENGTH` after a seam, or `GRID_LENGTH` after a start on the grid.
    """
    index = searched = start
    longest = SEAMLESS_LENGTH
    while end - index > longest:
        begin = max(index, searched - SEAM_REACH)
        searched = min(index + SEAMLESS_LENGTH, end)
        found = last_seam(text[begin:searched])
        index = begin + found if found else index + GRID_LENGTH
        longest = SEAMLESS_LENGTH if found else GRID_LENGTH
        yield index, not found


def needs_grid(text: str) -> bool:
    """Return whether a text has a stretch without a seam that is cut on the grid."""
    return any(on_grid for _, on_grid in part_starts(text, 0, len(text)))


class Attempt(Struct, frozen=True):
    """The reckoned and the real count of a text that a search found."""

    reckoned_tokens: int
    counted_tokens: int


class Correction:
    """The correction of a search with reckoned counts.

    `on_grid` is true if a part was cut on the grid, so that a reckoned count may be too low. An attempt adds
    `missing_tokens` to each reckoned count.
    """

    def __init__(self, *, on_grid: bool = False) -> None:
        self.on_grid = on_grid
        self.missing_tokens = 0

    def settle(
        self,
        attempt: Callable[[], Attempt | None],
        limit_tokens: int,
        count_each: Callable[[], None] | None = None,
    ) -> bool:
        """Repeat an attempt until the count of its text is within the limit; return whether one succeeded.

        After each failure, `missing_tokens` grows by the reckoned count's error, and at least doubles. An
        attempt that returns None ends the search. `count_each` searches with a count at every step. It is
        called if no grid was used and the reckoned count is wrong; the search then ends. Without it, or with
        a grid, every text within the limit is accepted.
        """
        self.missing_tokens = 0
        while (made := attempt()) is not None:
            further = made.counted_tokens - made.reckoned_tokens
            if count_each is not None and not self.on_grid:
                if further:
                    count_each()
                return True
            if made.counted_tokens <= limit_tokens:
                return True
            self.missing_tokens += max(self.missing_tokens, further, 1)
        return False
