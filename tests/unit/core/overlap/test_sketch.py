"""The sketch of a content: which windows and which words of it are kept."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.naive_overlap import digit_words, keys

from apportion.core.memory import ContentMemo
from apportion.core.overlap.sketch import Sketch, sketch

SIGNS = st.text(
    st.sampled_from("abcXYZ019 .,-_\n\x00\x7féß漢🙂ǅ²") | st.characters(codec="utf-8"), max_size=60
)
texts = st.lists(SIGNS, max_size=6).map("".join)


def keys_of(found: Sketch) -> list[int]:
    return [int.from_bytes(found.keys[at : at + 8], "little") for at in range(0, len(found.keys), 8)]


@given(texts)
def test_a_sketch_matches_the_definition(content: str) -> None:
    found = sketch(content)
    assert keys_of(found) == sorted(keys(content))
    assert found.size == len(keys(content))
    assert {word.decode() for word in found.words} == digit_words(content)


def test_two_windows_worked_by_hand() -> None:
    # "abglanes" is 0x73656e616c676261; times the multiplier, mod 2**64, that is 0x0ac6cf49872c0df5
    assert keys_of(sketch("ABG: lanes.")) == [0xAC6CF49872C0]
    # "aaaaaaaa" is 0x6161616161616161; times the multiplier that is 0xcd…, and not kept
    assert keys_of(sketch("a" * 8)) == []


def test_capitals_blanks_and_punctuation_make_no_difference() -> None:
    assert sketch("The retry swallows timeouts; the runbook says they must page.") == sketch(
        "the RETRY swallows\n\ttimeouts -- the run-book says: they must page"
    )


@pytest.mark.parametrize("content", ["", "short", "1234567", "......... .........", "é" * 3])
def test_a_content_under_eight_bytes_of_letters_and_digits_has_no_keys(content: str) -> None:
    assert sketch(content).size == 0


def test_a_word_with_a_digit_ends_where_ascii_ends() -> None:
    assert sketch("v2é3 E1x x 10.5%").words == {b"v2", b"3", b"e1x", b"10", b"5"}


def test_one_letter_a_million_times_has_one_key_at_most() -> None:
    assert sketch("a" * 1_000_000).size <= 1
    assert sketch("1" * 1_000_000).words == {b"1" * 1_000_000}


def test_a_remembered_sketch_equals_a_new_one() -> None:
    memo: ContentMemo[Sketch] = ContentMemo(10_000)
    contents = [f"content number {n % 3} of some length" for n in range(6)]
    found = memo.get_all(
        [str(n % 3) for n in range(6)], contents, lambda places: [sketch(contents[place]) for place in places]
    )
    assert found == [sketch(content) for content in contents]
    assert (memo.hits, memo.misses) == (3, 3)


def test_the_least_recently_used_sketches_go_when_they_weigh_too_much() -> None:
    memo: ContentMemo[Sketch] = ContentMemo(2_000)
    made: list[str] = []

    def remember(name: str, content: str) -> None:
        def make(places: Sequence[int]) -> list[Sketch]:
            made.extend(content for _ in places)
            return [sketch(content) for _ in places]

        memo.get_all([name], [content], make)

    for name in ("a", "b", "a", "c", "a", "b"):  # two of some 700 bytes fit
        remember(name, name * 100)
    assert [content[0] for content in made] == ["a", "b", "c", "b"]
    remember("x", "x1 " * 1_000)
    remember("b", "b" * 100)
    assert made[-1][0] == "b", "one that alone weighs too much pushes all out, itself too"
