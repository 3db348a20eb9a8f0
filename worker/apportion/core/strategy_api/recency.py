"""Age classes and recency buckets; they are coarse, so that a few seconds rarely change a score."""

AGE_EDGES_S = (60, 300, 1_800, 7_200, 86_400)
"""Exclusive upper edges of the age classes 0 to 4; class 5 has all higher ages. Source: the Composer."""


def recency_bucket(age: int) -> int:
    """Return the bucket of an age class: 5 for class 0 (the most recent) to 0 for class 5."""
    return len(AGE_EDGES_S) - age


def age_of(recency_bucket: int) -> int:
    """Return the age class of a bucket."""
    return len(AGE_EDGES_S) - recency_bucket
