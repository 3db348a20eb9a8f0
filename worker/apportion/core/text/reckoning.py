"""Token boundaries, the fixed grid, and the correction of reckoned counts.

To *reckon* a text is to add up the counts of its parts, so that a search need not count the whole each time.

A text may be cut at a *seam*. There are three: before a space that follows what is no white space; where a
line starts with what is neither white space nor `/`; where a line starts with `/` and has an ASCII letter or
digit. By the patterns of the encodings (`apportion.engine.counters.bpe`) a piece never reaches across a
seam, and where pieces end on one side does not depend on the other: only punctuation takes the line ends and
the `/` after it along. So what is reckoned by seams is what counting the whole would give.

A stretch of more than 16,384 code points without a seam is cut on a *grid*: every 6,144 code points from its
last seam on. Their counts are added up as if seams parted them. The sum is near the count of the whole, and
may differ from it. `Correction` has the loop that counts what comes out, and begins again if it is too long.
"""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from apportion.core.text.characters import SPACE_OR_SEPARATOR

REACH = 512
"""In how many code points beside a joint its seam is sought.

Where there is none, as in one endless word, what two texts add to each other is reckoned on that many code
points of each. That is exact, too, unless a single piece of an encoding's pattern is longer.
"""

SIGHT = 16_384
"""In how many code points a seam is in sight; a stretch without one that is no longer is counted whole."""
MESH = 6_144
"""How long a part is: a multiple of what encodings make of repeated signs (2, 4 … 128) and of digits (3)."""
_SPACE = SPACE_OR_SEPARATOR
"""A little more than Unicode's white space: the seams are safe, and a few are not seen."""
_LAST_SEAM = re.compile(
    rf"(?s:.*)(?:(?<=[^{_SPACE}])(?= )|(?<=\n)(?=[^{_SPACE}/])|[0-9A-Za-z][\r\n]*\n(?=/))"
)
_FIRST_SEAM = re.compile(rf"(?<=[^{_SPACE}])(?= )|(?<=\n)(?=[^{_SPACE}/])")
_APART = re.compile(f"[^{_SPACE}/]")
_WORD_END = re.compile(r"[0-9A-Za-z]\Z")


def last_seam(text: str) -> int:
    """Return the place of the last seam; 0 where there is none."""
    found = _LAST_SEAM.match(text)
    return found.end() if found else 0


def first_seam(text: str, start: int, end: int) -> int:
    """Return the place of the first seam from `start` on, of which all is seen before `end`; 0 for none."""
    found = _FIRST_SEAM.search(text, start, end)
    return found.start() if found else 0


def stands_apart(before: str, line: str) -> bool:
    """Tell whether there is a seam where that line starts, a blank line or a line end after `before`."""
    if line.startswith("/"):
        return _WORD_END.search(before, max(0, len(before) - 1)) is not None
    return _APART.match(line) is not None


def end_of(text: str) -> str:
    """Return what of a text, from its last seam on, may count otherwise with what follows."""
    near = text[-REACH:]
    return near[last_seam(near) :]


def beginning_of(text: str) -> str:
    """Return what of a text, up to its first seam, may count otherwise with what stands before."""
    near = text[:REACH]
    found = _FIRST_SEAM.search(near)
    return near[: found.start()] if found else near


def places(text: str, start: int, end: int) -> Iterator[tuple[int, bool]]:
    """Yield where parts of a stretch begin, its start aside, and whether there is no seam, but the grid.

    That is at the last seam in sight from the place before, else a part further. What is left at the end is
    in sight, and no longer than a part where it follows the grid.
    """
    place = bare = start
    left = SIGHT
    while end - place > left:
        begin = max(place, bare - REACH)
        bare = min(place + SIGHT, end)
        found = last_seam(text[begin:bare])
        place = begin + found if found else place + MESH
        left = SIGHT if found else MESH
        yield place, not found


def needs_grid(text: str) -> bool:
    """Tell whether a text has a stretch without a seam in sight."""
    return any(on_grid for _, on_grid in places(text, 0, len(text)))


class Attempt(Struct, frozen=True):
    """A text made by reckoning: what it was reckoned at, and what it counts."""

    reckoned_tokens: int
    counted_tokens: int


class Correction:
    """The correction of one search by reckoning.

    `on_grid` says that something was reckoned on the grid, so that a reckoning may be too low. An attempt
    adds `missing_tokens` to each of its reckonings.
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
        """Repeat an attempt until what it makes counts no more than the limit; tell whether one did.

        Each time, every reckoning is higher by what was missing, and by at least twice as much as the last
        time. An attempt that returns None ends the search. `count_each` searches by counting every step. It
        is called if no grid was used, and yet the count is not what was reckoned. If it is not given, every
        text within the limit is taken.
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
