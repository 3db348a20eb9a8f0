"""How much of one content another says: which pairs of candidates overlap, and by how many thousandths.

Decides what counts as said, from sketches alone. What becomes of a candidate that says what another has
said, `core.overlap.selection_order` and the strategies decide.

The work is bounded by what is sorted: each entry of a sketch meets at most 15 others, whatever the texts.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apportion.core.overlap.selection_order import ALL, Overlap
from apportion.core.overlap.sketch import Sketch

PAIRED_MAX = 15
"""How many of the entries of equal key right before it an entry is paired with."""
_DIGITS_IN_EIGHT_BYTES = 4
_DIGITS_IN_A_KEY = 3
"""Of 16 bits each: numpy sorts by these in linear time."""
_FEW_PAIRS = 1 << 20
"""So many are counted in a table."""


def overlap_of(digests: Sequence[str], sketches: Sequence[Sketch], threshold: int) -> Overlap:
    """Return the overlap of contents in canonical order, told by their digests and sketches.

    A pair counts where it shares at least `threshold` thousandths of the smaller sketch, and a key.
    """
    by_digest: defaultdict[str, list[int]] = defaultdict(list)
    for place, digest in enumerate(digests):
        by_digest[digest].append(place)
    same = [by_digest[digest][0] for digest in digests]
    said_by: list[list[tuple[int, int]]] = [[] for _ in sketches]
    for one, other, shared in _pairs(sketches, threshold, same):
        for said, sayer in ((one, other), (other, one)):
            cover = ALL * shared // sketches[said].size
            if cover and sketches[said].words <= sketches[sayer].words:
                said_by[sayer].append((said, cover))
    return Overlap(said_by, same, {places[0]: places for places in by_digest.values() if len(places) > 1})


def _pairs(sketches: Sequence[Sketch], threshold: int, same: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return each pair that counts, the earlier place first, and how many keys it shares; no copies."""
    if not sketches:
        return []
    sizes = np.array([one.size for one in sketches], np.int64)
    number = len(sketches)
    met = _met(b"".join([one.keys for one in sketches]), np.repeat(np.arange(number), sizes), number)
    # Most pairs share less than the smallest sketch would ask for, and go before anything is looked up.
    least = max(1, -(-threshold * int(sizes.min()) // ALL))
    pairs, shared = _counted(met, number * number, least)
    one, other = np.divmod(pairs, number)
    first = np.array(same, np.int64)
    counts = ALL * shared >= threshold * np.minimum(sizes[one], sizes[other])
    counts &= first[one] != first[other]
    return list(zip(one[counts].tolist(), other[counts].tolist(), shared[counts].tolist(), strict=True))


def _met(sketched: bytes, places: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Return earlier place · number + later place of each two entries that are paired.

    The keys stand as their places do, so that of equal ones the earlier place stays first.
    """
    keys = np.frombuffer(sketched, "<u8")
    order = np.lexsort(keys.view("<u2").reshape(len(keys), _DIGITS_IN_EIGHT_BYTES).T[:_DIGITS_IN_A_KEY])
    keys, places = keys[order], places[order]
    as_before = np.zeros(len(keys), np.bool_)
    np.equal(keys[1:], keys[:-1], out=as_before[1:])
    earlier = places * number
    met = [np.empty(0, np.int64)]
    later = as_before.nonzero()[0]
    for back in range(1, PAIRED_MAX + 1):
        met.append(earlier[later - back] + places[later])
        later = later[as_before[later - back]]
    return np.concatenate(met)


def _counted(pairs: NDArray[np.int64], most: int, least: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each pair that comes at least so often once, rising, and how often; all are below `most`."""
    if most > _FEW_PAIRS:
        there, often = np.unique(pairs, return_counts=True)
        return there[often >= least], often[often >= least]
    often = np.bincount(pairs)
    there = (often >= least).nonzero()[0]
    return there, often[there]
