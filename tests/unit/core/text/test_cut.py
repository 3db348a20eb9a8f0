"""Cuts in text: bisection, the marker, whole code points."""

from hypothesis import given
from hypothesis import strategies as st

from apportion.core.text.cut import cut, cut_to_fit, largest


@given(st.integers(0, 300), st.integers(-1, 300))
def test_the_largest_number_that_fits_is_found(most: int, bound: int) -> None:
    assert largest(most, lambda number: number <= bound) == max(0, min(most, bound))


@given(st.integers(0, 200), st.sets(st.integers(1, 200)))
def test_the_found_number_fits_and_the_next_does_not(most: int, fitting: set[int]) -> None:
    found = largest(most, fitting.__contains__)
    assert found == 0 or found in fitting
    assert found == most or found + 1 not in fitting


def test_bisection_tries_the_upper_middle_first() -> None:
    tried: list[int] = []
    assert largest(10, lambda number: tried.append(number) or number <= 6) == 6  # type: ignore[func-returns-value] # it records
    assert tried == [5, 8, 6, 7]


def test_a_cut_is_marked_on_a_new_last_line() -> None:
    assert cut("abcdef", 4) == "abcd\n[truncated]"


def test_all_of_a_text_and_nothing_of_it_have_no_marker() -> None:
    assert (cut("abc", 3), cut("abc", 0)) == ("abc", "")


def test_a_text_that_fits_is_not_cut() -> None:
    assert cut_to_fit("abc", lambda text: len(text) <= 3) == "abc"


def test_without_room_for_a_marker_and_one_code_point_the_cut_is_empty() -> None:
    long = "x" * 50
    assert cut_to_fit(long, lambda text: len(text) <= 12) == ""
    assert cut_to_fit(long, lambda text: len(text) <= 13) == "x\n[truncated]"


def test_a_cut_falls_between_code_points_where_the_next_would_not_fit() -> None:
    family = "👩\u200d👩\u200d👧" * 9
    for room in range(16, 60):
        text = cut_to_fit(family, lambda text, room=room: len(text.encode()) <= room)  # type: ignore[misc] # bound at once
        kept = text.removesuffix("\n[truncated]")
        following = family.removeprefix(kept)[0]
        assert family.startswith(kept)
        assert len(text.encode()) <= room < len((text + following).encode())
