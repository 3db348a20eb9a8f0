"""Coverage between texts, and the selection order after repeated content is discounted."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.naive_overlap import Said, covers, keys

from apportion.core.digests import text_digest
from apportion.core.overlap.pairs import overlap_of
from apportion.core.overlap.selection_order import Discounted, Overlap
from apportion.core.overlap.sketch import sketch

WORDS = (
    "the retry swallows timeouts yet runbook says they must page on call within minutes of v2 v3 E17 E18 2024"
)
sentences = st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=12).map(" ".join)


@st.composite
def contents(draw: st.DrawFn) -> list[str]:
    """Return texts that share sentences, some of them equal, some of no window."""
    pool = draw(st.lists(sentences, min_size=1, max_size=6))
    pieces = st.lists(st.sampled_from(pool), min_size=1, max_size=4).map(". ".join)
    return draw(st.lists(pieces | st.sampled_from(["short", "x1", pool[0]]), max_size=24))


def found(given_contents: Sequence[str], threshold: int) -> Overlap:
    digests = [text_digest(content) for content in given_contents]
    return overlap_of(digests, [sketch(content) for content in given_contents], threshold)


def table_of(overlap: Overlap) -> list[list[int]]:
    table = [[0] * len(overlap.same) for _ in overlap.same]
    for covering, pairs in enumerate(overlap.covers_of):
        for covered, cover in pairs:
            table[covered][covering] = cover
    for copies in overlap.copies.values():
        for i in copies:
            for j in copies:
                table[i][j] = 1_000 if i != j else 0
    return table


@settings(max_examples=150)
@given(contents(), st.sampled_from([1, 100, 300, 700, 1_000]))
def test_covers_match_the_definition(drawn: list[str], threshold: int) -> None:
    assert table_of(found(drawn, threshold)) == covers(drawn, threshold)


def test_many_entries_are_paired_as_few_are() -> None:
    # enough for texts without overlap to be left out before sorting
    alone = [" ".join(f"word{n}x{m * 7919 % 10007} and so on" for m in range(60)) for n in range(150)]
    drawn = [*alone, *[alone[n] + " and a tail of its own, number " + "abcdefghij"[n] * 9 for n in range(10)]]
    assert sum(sketch(content).size for content in drawn) > 1 << 12
    assert table_of(found(drawn, 300)) == covers(drawn, 300)


def test_texts_that_differ_by_a_digit_do_not_cover_each_other() -> None:
    page = (
        "Error {} is raised when the upstream service does not answer within the time that the caller allows."
    )
    one, other = page.format("E17"), page.format("E18")
    assert table_of(found([one, other], 300)) == [[0, 0], [0, 0]]
    assert table_of(found([one, one + " See also E18."], 300))[0][1] > 900


def test_a_pair_counts_from_the_threshold_on() -> None:
    begin = (
        "The retry in the payment client now swallows timeouts, yet the runbook says that they must page. "
    )
    one = begin + "Nobody has looked at it since the summer, when the team that owned it was dissolved."
    other = begin + "A comment in the order client asks whether its retries should be idempotent."
    shared, least = len(keys(one) & keys(other)), min(len(keys(one)), len(keys(other)))
    assert 0 < shared < least
    threshold = 1_000 * shared // least
    assert table_of(found([one, other], threshold)) == [
        [0, 1_000 * shared // len(keys(one))],
        [1_000 * shared // len(keys(other)), 0],
    ]
    assert table_of(found([one, other], threshold + 1)) == [[0, 0], [0, 0]]


@settings(max_examples=150)
@given(contents(), st.randoms(use_true_random=False), st.sampled_from([1, 300]))
def test_the_order_equals_a_full_rescan_of_the_scores(drawn: list[str], rng: Random, threshold: int) -> None:
    scores = sorted([rng.choice([0, 1, 500, 600, 999]) for _ in drawn], reverse=True)
    exempt = {n for n in range(len(drawn)) if rng.random() < 0.1}
    order = Discounted(found(drawn, threshold), scores, exempt)
    said = Said(covers(drawn, threshold), scores, exempt)
    for place in exempt:
        assert order.taken(place) == scores[place]
        said.chosen.append(place)
    for share in (0.2, 0.7):
        left = [n for n in range(len(drawn)) if n not in said.chosen]
        for place in order.arrange(list(left)):
            assert place == said.next(left)
            left.remove(place)
            cover, by = said.cover(place)
            assert order.covered.get(place, (0, 0)) == ((by, cover) if cover else (0, 0))
            assert (place in order.redundant) == (cover == 1_000 and scores[place] > 0)
            if rng.random() < share:
                assert order.taken(place) == said.worth(place)
                said.chosen.append(place)
        assert not left, "each is considered once in a round"


@pytest.mark.parametrize("number", [1_000, 10_000])
def test_equal_contents_take_no_longer_than_their_number(number: int) -> None:
    drawn = ["all candidates are equal here, word for word"] * number
    overlap = found(drawn, 300)
    assert sum(map(len, overlap.covers_of)) == 0
    assert [len(copies) for copies in overlap.copies.values()] == [number]
    order = Discounted(overlap, [500] * number)
    taken = list(order.arrange(range(number)))
    assert taken == list(range(number))


def test_nothing_overlaps_nothing() -> None:
    assert found([], 300) == Overlap([], [], {})
    assert list(Discounted(found([], 300), []).arrange([])) == []
