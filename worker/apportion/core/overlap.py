"""How much of one content another says: which pairs of candidates overlap, and by how many thousandths.

Decides what counts as said, from sketches alone. What becomes of a candidate that says what another has
said, `core.order` and the strategies decide.

The work is bounded by what is sorted: each entry of a sketch meets at most 15 others, whatever the texts.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apportion.core.order import ALL, Overlap
from apportion.core.sketch import Sketch

PAIRED_MAX = 15
"""How many of the entries of equal key right before it an entry is paired with."""
_FEW_ENTRIES = 1 << 12
_DIGIT_BITS = 16
_DIGITS = (0, 1, 2)
"""Of the 48 bits of a key."""


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
    sizes = np.array([one.size for one in sketches], np.int64)
    keys = np.frombuffer(b"".join([one.keys for one in sketches]), "<u8")
    keys, places = _shared(keys, np.repeat(np.arange(len(sketches)), sizes))
    order = np.argsort(keys, kind="stable")  # of equal keys the earlier place stays first
    met = _met(keys[order], places[order], len(sketches))
    pairs, shared = np.unique(met, return_counts=True)
    one, other = np.divmod(pairs, max(1, len(sketches)))
    counts = ALL * shared >= threshold * np.minimum(sizes[one], sizes[other])
    first = np.array(same, np.int64)
    counts &= first[one] != first[other]
    return list(zip(one[counts].tolist(), other[counts].tolist(), shared[counts].tolist(), strict=True))


def _shared(
    keys: NDArray[np.uint64], places: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the entries without most of those whose key comes once; they meet no other.

    Sorting is what takes time, and counting how often 16 bits of a key come takes a tenth of it.
    """
    for digit in _DIGITS:
        if len(keys) <= _FEW_ENTRIES:
            break
        bits = (keys >> np.uint64(digit * _DIGIT_BITS)).astype(np.uint16)
        again = np.flatnonzero(np.bincount(bits, minlength=1 << _DIGIT_BITS)[bits] > 1)
        keys, places = keys[again], places[again]
    return keys, places


def _met(keys: NDArray[np.uint64], places: NDArray[np.int64], base: int) -> NDArray[np.int64]:
    """Return earlier place · base + later place of each two entries that are paired; keys are sorted."""
    met: list[NDArray[np.int64]] = []
    ends = np.arange(len(keys))
    for back in range(1, PAIRED_MAX + 1):
        ends = ends[ends >= back]
        ends = ends[keys[ends] == keys[ends - back]]
        if not len(ends):
            break
        met.append(places[ends - back] * base + places[ends])
    return np.concatenate(met) if met else np.empty(0, np.int64)
