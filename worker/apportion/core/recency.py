"""How recent something is, in buckets, so that the passing of a second seldom changes anything."""

AGE_EDGES_US = tuple(s * 1_000_000 for s in (60, 300, 1_800, 7_200, 86_400))
"""An age below the first edge is of class 0, at or above the last one of class 5. Source: the Composer."""


def recency_bucket(age: int) -> int:
    """Return 5 for class 0 (under a minute, or negative) down to 0 for class 5 (a day and more)."""
    return len(AGE_EDGES_US) - age


def age_of(recency_bucket: int) -> int:
    """Return the class of ages that a bucket stands for."""
    return len(AGE_EDGES_US) - recency_bucket
