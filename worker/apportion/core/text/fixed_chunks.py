"""Where a text is parted in which no seam is in sight: on a grid.

Decides where the parts begin of a text, or a stretch of it, that has more than 16,384 code points and no
seam (see `core.text.token_boundaries`): every 6,144 code points from its last seam on. Their counts are
added up as if seams parted them, so that a bisection counts each part once. The sum is near what counting
the whole would give, and is not that: whoever reckons so counts what comes out, and where that passes the
target, goes on with every reckoning higher by what was missing, and by at least twice as much as the last
time.
"""

from collections.abc import Iterator

from apportion.core.text.token_boundaries import REACH, last_seam

SIGHT = 16_384
"""In how many code points a seam is in sight; a stretch without one that is no longer is counted whole."""
MESH = 6_144
"""How long a part is: a multiple of what encodings make of repeated signs (2, 4 … 128) and of digits (3)."""


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
