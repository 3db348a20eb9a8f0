"""Texts that have much in common are counted in parts, to what counting each would give."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.counting import Counting

from apportion.core.text.tokens import CounterName
from apportion.core.text.variant_counter import Alike
from apportion.engine.counters import COUNTERS

PIECES = ("a ", "\n", "\n\n", "\r\n", ". ", ",", "'s", "/", "- ", "#", "12345", "é", "漢字", "\x1c", "\x85",
          "\u2028", " word" * 300, "\nline" * 500, "x" * 5_000, "one line\n/two\n" * 400)  # fmt: skip
counters = st.sampled_from(list(CounterName))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join),
    st.lists(
        st.tuples(
            st.sampled_from(["", "[... 7 earlier lines omitted]\n", " ", "\n", "/"]),
            st.floats(0, 1),
            st.floats(0, 1),
            st.sampled_from(["", "\n[... 8 later lines omitted]", " ", "\n", "/", "word"]),
        ),
        max_size=8,
    ),
    counters,
)
def test_a_count_does_not_depend_on_earlier_counts(
    text: str, asked: list[tuple[str, float, float, str]], name: CounterName
) -> None:
    alike, counter = Alike(COUNTERS[name]), COUNTERS[name]
    for before, start, end, after in asked:
        form = before + text[int(start * len(text)) : int(end * len(text)) + 1] + after
        assert alike.count(form) == counter.count(form)


@pytest.mark.parametrize("stands", ["beginning", "end"])
def test_a_bisection_counts_little_more_than_the_longest_text_once(stands: str) -> None:
    lines, counting = [f"line {number}\n" for number in range(50_000)], Counting(COUNTERS["o200k_base"])
    alike, low, high = Alike(counting), 0, len(lines)
    while low < high:
        middle = (low + high + 1) // 2
        marker = f"[... {middle} lines stand]\n"
        form = marker + "".join(lines[-middle:]) if stands == "end" else "".join(lines[:middle]) + marker
        if alike.count(form) <= 100_000:
            low = middle
        else:
            high = middle - 1
    assert 15_000 < low < 30_000
    assert sum(map(len, counting.texts)) < 1.2 * len("".join(lines))


def test_a_text_without_a_seam_is_estimated_only_on_request() -> None:
    counter, text = COUNTERS["o200k_base"], "=-0" * 30_000
    exact, reckoning = Alike(counter), Alike(counter, reckons=True)
    for start in (50_000, 20_000, 0, 70_000, 70_001):
        tokens = counter.count(text[start:])
        assert exact.count(text[start:]) == tokens
        assert tokens <= reckoning.count(text[start:]) <= tokens + 20


@pytest.mark.parametrize("text", ["word " * 20_000, "/usr/bin\n" * 10_000, "x" * 16_000 + " word" * 9_000])
def test_the_estimate_of_a_text_with_seams_equals_its_count(text: str) -> None:
    counter = COUNTERS["o200k_base"]
    alike = Alike(counter, reckons=True)
    for start in (40_000, 10_001, 0, 50_007):
        assert alike.count(text[start:]) == counter.count(text[start:])
