"""Fixed chunks of a long text without token boundaries, by which its tokens are estimated.

A stretch of a text without a seam (see `core.text.token_boundaries`) is *bare*. A bare stretch of more than
16,384 code points is split into chunks of 6,144 code points, from its last seam on. Their counts are added up
as if there were seams between them, so a bisection counts each chunk once. The sum is close to the count of
the whole, but not equal to it. So the caller counts the result. If the result exceeds the target, the caller
adds the missing tokens to every estimate, at least twice as many as in the last round, and starts again.
"""

from collections.abc import Iterator

from apportion.core.text.token_boundaries import REACH, last_seam

SIGHT = 16_384
"""The longest stretch without a seam that is counted whole, in code points."""
MESH = 6_144
"""The length of a chunk in code points.

It is a multiple of the tokens for repeated signs (2, 4 … 128 characters) and for digits (3 characters)."""


def places(text: str, start: int, end: int) -> Iterator[tuple[int, bool]]:
    """Yield the start of each part of a stretch after the first, and whether it is a chunk without a seam.

    The next part starts at the last seam within SIGHT of the previous start, or else a chunk further. The
    rest at the end is no longer than SIGHT, or than a chunk if it follows a chunk.
    """
    place = bare = start
    left = SIGHT
    while end - place > left:
        begin = max(place, bare - REACH)
        bare = min(place + SIGHT, end)
        seam = last_seam(text[begin:bare])
        place = begin + seam if seam else place + MESH
        left = SIGHT if seam else MESH
        yield place, not seam


def needs_grid(text: str) -> bool:
    """Return whether a text has a stretch that must be split into chunks."""
    return any(on_grid for _, on_grid in places(text, 0, len(text)))
