"""The correction of reckoned counts: when an attempt is taken, repeated, or counted step by step."""

from collections.abc import Iterable, Iterator

import pytest

from apportion.core.text.reckoning import Attempt, Correction


class Attempts:
    """Attempts one after another, with the correction at each of them."""

    def __init__(self, correction: Correction, made: Iterable[Attempt | None]) -> None:
        self.missing = list[int]()
        self._correction = correction
        self._made: Iterator[Attempt | None] = iter(made)

    def __call__(self) -> Attempt | None:
        self.missing.append(self._correction.missing_tokens)
        return next(self._made)


def test_the_correction_grows_by_the_excess_and_at_least_doubles() -> None:
    correction = Correction(on_grid=True)
    attempts = Attempts(correction, [Attempt(10, 13), Attempt(10, 11), Attempt(10, 20), Attempt(9, 10)])
    assert correction.settle(attempts, 10)
    assert attempts.missing == [0, 3, 6, 16]


def test_a_correction_starts_from_zero_for_each_search() -> None:
    correction = Correction(on_grid=True)
    correction.settle(Attempts(correction, [Attempt(1, 2), None]), 1)
    attempts = Attempts(correction, [Attempt(1, 1)])
    assert correction.settle(attempts, 1)
    assert attempts.missing == [0]


def test_an_attempt_that_makes_nothing_ends_the_search() -> None:
    correction = Correction()
    assert not correction.settle(Attempts(correction, [Attempt(10, 13), None]), 10)


def test_a_text_above_the_limit_always_raises_the_correction() -> None:
    correction = Correction()
    attempts = Attempts(correction, [Attempt(11, 11), Attempt(10, 10)])
    assert correction.settle(attempts, 10)
    assert attempts.missing == [0, 1]


@pytest.mark.parametrize(
    ("on_grid", "counted_tokens", "is_counted"), [(False, 10, False), (False, 8, True), (True, 8, False)]
)
def test_steps_are_counted_only_where_a_reckoning_without_a_grid_was_not_the_count(
    *, on_grid: bool, counted_tokens: int, is_counted: bool
) -> None:
    correction, counted = Correction(on_grid=on_grid), list[bool]()
    attempts = Attempts(correction, [Attempt(10, counted_tokens)])
    assert correction.settle(attempts, 10, lambda: counted.append(True))
    assert bool(counted) == is_counted
