"""Additivity: a text cut at a seam costs the sum of its parts, with every counter."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.counting import ADDITIVE

from apportion.core.text.reckoning import last_seam
from apportion.core.text.tokens import CounterName, units_of
from apportion.engine.counters import COUNTERS

PIECES = ("a", "B", " ", "   ", "\t", "\n", "\n\n", "\r\n", ".", ",", "'s", "/", "- ", "#", "12345", "é",
          "e\u0301", "\u0301", "👩\u200d👧", "漢字", "\x00", "\x1c", "\x85", "\u2028", "\u3000", "\ufeff",
          "x" * 20, "=" * 33, "─" * 80, "<|endoftext|>")  # fmt: skip
SETTINGS = settings(max_examples=300, deadline=None)

texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text()
counters = st.sampled_from(ADDITIVE)


@SETTINGS
@given(texts, counters)
def test_the_units_of_a_text_give_its_count(text: str, name: CounterName) -> None:
    units = units_of(COUNTERS[name])
    assert units.tokens(units.of(text)) == COUNTERS[name].count(text)


@SETTINGS
@given(texts, st.sampled_from([" ", "\n", "\n\n"]), texts, counters)
def test_a_text_is_worth_its_parts_at_its_last_seam(
    before: str, between: str, after: str, name: CounterName
) -> None:
    text, units = before + between + after, units_of(COUNTERS[name])
    seam = last_seam(text)
    assert units.of(text[:seam]) + units.of(text[seam:]) == units.of(text)


@SETTINGS
@given(texts, st.sampled_from(["- ", "## Directives"]), texts, counters)
def test_a_line_with_a_mark_or_a_heading_is_worth_the_same_after_any_other(
    before: str, mark: str, line: str, name: CounterName
) -> None:
    units = units_of(COUNTERS[name])
    assert units.of(f"{before}\n") + units.of(mark + line) == units.of(f"{before}\n{mark}{line}")


@pytest.mark.parametrize(
    ("text", "seam"),
    [
        ("", 0),
        ("one", 0),
        (" one", 0),
        ("one two three", 7),
        ("one  two", 3),
        ("one two\nthree", 8),
        ("one two\n\nthree", 9),
        ("one two\n three", 3),
        ("one two\n/three", 8),
        ("one two\r\n\r\n/three", 11),
        ("one two.\n/three", 3),
        ("one two ", 7),
        ("one two\n", 3),
    ],
)
def test_seams_are_before_a_space_after_text_and_where_a_line_of_text_starts(text: str, seam: int) -> None:
    assert last_seam(text) == seam
