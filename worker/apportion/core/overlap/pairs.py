"""Overlapping pairs of candidates, found from their sketches, and their overlap in thousandths.

The work is bounded, because each entry of a sketch is paired with at most 15 entries before it.
"""

from collections import defaultdict
from collections.abc import Sequence

from apportion.core.arrays import NDArray, np
from apportion.core.overlap.selection_order import ALL, Overlap
from apportion.core.overlap.sketch import Sketch

PAIRED_MAX = 15
"""The largest number of directly preceding entries of equal key that an entry is paired with."""


def overlap_of(digests: Sequence[str], sketches: Sequence[Sketch], threshold: int) -> Overlap:
    """Return the overlap of contents, from their digests and sketches, both in canonical order.

    A pair counts if it shares at least one key, and at least `threshold` thousandths of the smaller sketch.
    A content covers another one only if it also has all of the other one's words that contain a digit.
    """
    by_digest: defaultdict[str, list[int]] = defaultdict(list)
    for index, digest in enumerate(digests):
        by_digest[digest].append(index)
    same = [by_digest[digest][0] for digest in digests]
    covers_of: list[list[tuple[int, int]]] = [[] for _ in sketches]
    for earlier, later, shared in _pairs(sketches, threshold, same):
        for covered, covering in ((earlier, later), (later, earlier)):
            cover = ALL * shared // sketches[covered].size
            if cover and sketches[covered].words <= sketches[covering].words:
                covers_of[covering].append((covered, cover))
    return Overlap(
        covers_of, same, {indices[0]: indices for indices in by_digest.values() if len(indices) > 1}
    )


def _pairs(sketches: Sequence[Sketch], threshold: int, same: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return each pair that counts, of other contents: the earlier index, the later, their shared keys."""
    if not sketches:
        return []
    sizes = np.array([sketch.size for sketch in sketches], np.int64)
    number = len(sketches)
    codes = _pairs_with_equal_key(
        b"".join([sketch.keys for sketch in sketches]), np.repeat(np.arange(number), sizes), number
    )
    # Most pairs share less than even the smallest sketch requires, so they are dropped first.
    least = max(1, -(-threshold * int(sizes.min()) // ALL))
    pairs, shared = np.unique(codes, return_counts=True)
    pairs, shared = pairs[shared >= least], shared[shared >= least]
    earlier, later = np.divmod(pairs, number)
    first = np.array(same, np.int64)
    counts = ALL * shared >= threshold * np.minimum(sizes[earlier], sizes[later])
    counts &= first[earlier] != first[later]
    return list(zip(earlier[counts].tolist(), later[counts].tolist(), shared[counts].tolist(), strict=True))


def _pairs_with_equal_key(sketched: bytes, indices: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Return `earlier index * number + later index` for each pair of entries with equal keys.

    `sketched` has the keys of all sketches, and `indices` the sketch of each key, ascending. An entry is
    paired with at most `PAIRED_MAX` entries before it. The sort is stable, so earlier indices stay first.
    """
    keys = np.frombuffer(sketched, "<u8")
    order = np.argsort(keys, kind="stable")
    keys, indices = keys[order], indices[order]
    as_before = np.zeros(len(keys), np.bool_)
    np.equal(keys[1:], keys[:-1], out=as_before[1:])
    earlier = indices * number
    pairs = [np.empty(0, np.int64)]
    later = as_before.nonzero()[0]
    for back in range(1, PAIRED_MAX + 1):
        pairs.append(earlier[later - back] + indices[later])
        later = later[as_before[later - back]]
    return np.concatenate(pairs)
