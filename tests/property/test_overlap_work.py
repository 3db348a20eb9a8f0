"""No texts make overlap dearer than their size: work is counted, not timed."""

from math import log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.core.digests import text_digest
from apportion.core.overlap import pairs as overlap
from apportion.core.overlap.pairs import PAIRED_MAX, overlap_of
from apportion.core.overlap.selection_order import Discounted
from apportion.core.overlap.sketch import sketch

NUMBER = 10_000
PASSAGE = "a passage of ninety letters and some, which each of ten thousand candidates has in common with all"
HOSTILE = {
    "one letter a million times": ["x" * 1_000_000],
    "one letter in all lengths": ["x" * number for number in range(1_400)],
    "all are equal": [PASSAGE] * NUMBER,
    "all overlap pairwise": [f"{PASSAGE} {'abcdefghij'[n % 10]}{'!' * (n // 10)}" for n in range(NUMBER)],
    "all overlap pairwise, and differ by a digit": [f"{PASSAGE} {n}" for n in range(NUMBER)],
    "each says the one before": [PASSAGE[n % 80 :] + PASSAGE[: n % 80] for n in range(NUMBER)],
    "under eight bytes": [f"{n % 100}" for n in range(NUMBER)],
    "nothing but digits": [f"{n} " * 100 for n in range(1_000)],
}


class Looked(list[int]):
    """Scores that count how often one was looked at."""

    looks = 0

    def __getitem__(self, place: Any, /) -> Any:
        self.looks += 1
        return super().__getitem__(place)


def assert_bounded(contents: list[str], scores: list[int], taken_every: int) -> None:
    """Choose among candidates with all that is counted held to n log n of their bytes and their number."""
    sketches = [sketch(content) for content in contents]
    entries = sum(sampled.size for sampled in sketches)
    assert entries <= sum(len(content.encode()) for content in contents)
    paired = overlap._pairs_with_equal_key(
        b"".join([sampled.keys for sampled in sketches]),
        np.repeat(np.arange(len(sketches)), [sampled.size for sampled in sketches]),
        len(sketches),
    )
    assert len(paired) <= PAIRED_MAX * entries
    found = overlap_of([text_digest(content) for content in contents], sketches, 300)
    pairs = sum(map(len, found.covers_of))
    assert pairs <= 2 * len(paired)
    looked = Looked(scores)
    order = Discounted(found, looked)
    for turn, place in enumerate(order.arrange(range(len(contents)))):
        if turn % taken_every == 0:
            order.taken(place)
    number = len(contents)
    assert looked.looks <= 8 * (number * log2(number + 2) + pairs)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("taken_every", [1, 7, 1_000_000])
def test_hostile_texts_cost_no_more_than_their_size(name: str, taken_every: int) -> None:
    contents = HOSTILE[name]
    assert_bounded(contents, [len(contents) - n for n in range(len(contents))], taken_every)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from(["a", "word ", "x1 ", "é", "/"]), min_size=1, max_size=4),
    st.lists(st.integers(0, 60), max_size=120),
    st.integers(1, 5),
)
def test_no_texts_cost_more_than_their_size(pieces: list[str], times: list[int], taken_every: int) -> None:
    contents = [pieces[n % len(pieces)] * number for n, number in enumerate(times)]
    assert_bounded(contents, sorted(times, reverse=True), taken_every)
