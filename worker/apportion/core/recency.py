"""How recent something is, in buckets, so that the passing of a second seldom changes anything."""

from bisect import bisect_right

_EDGES_US = tuple(s * 1_000_000 for s in (60, 300, 1_800, 7_200, 86_400))
"""An age below the first edge is bucket 5, at or above the last one bucket 0. Source: the Composer."""


def recency_bucket(age_us: int) -> int:
    """Return 5 (under a minute, or negative) down to 0 (a day and more)."""
    return 5 - bisect_right(_EDGES_US, age_us)
