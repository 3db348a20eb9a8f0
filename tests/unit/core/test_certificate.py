"""The upper bound on the value of any selection, and the prices of its constraints."""

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.optimum import by_solving, by_trying

from apportion.core.results import Certificate, GroupPrice
from apportion.core.strategy_api.certificate import BoundedChoice, Cap, certify


def drawn_choice(rng: Random, number: int, groups: int, most: int) -> BoundedChoice:
    """Return a selection that keeps to its bounds: candidates taken as they come, while they fit."""
    costs = [rng.randint(0 if rng.random() < 0.1 else 1, most) for _ in range(number)]
    group_of = [rng.randrange(groups) for _ in range(number)]
    total = sum(costs)
    scores = [rng.choice([0, 1, 300, rng.randint(0, 1_000), 10**12]) for _ in range(number)]
    protected = [n for n in range(number) if rng.random() < 0.1]
    limit = sum(costs[n] for n in protected) + rng.randint(0, total)
    caps = [Cap(f"g{n}", rng.randint(0, total // 3), rng.randint(0, total)) for n in range(groups)]
    taken, used, left = [0] * number, [0] * groups, limit
    for n in sorted(range(number), key=lambda n: (n not in protected, rng.random())):
        fits = costs[n] <= left and costs[n] <= caps[group_of[n]].ceiling - used[group_of[n]]
        if n in protected or (fits and rng.random() < 0.9):
            taken[n] = 1
            used[group_of[n]] += costs[n]
            left -= costs[n]
    return BoundedChoice(
        scores=scores,
        costs=costs,
        group_of=group_of,
        taken=taken,
        protected=protected,
        caps=caps,
        limit_tokens=limit,
    )


def certified(choice: BoundedChoice) -> Certificate:
    found = certify(choice)
    assert found is not None
    return found


@settings(max_examples=400)
@given(st.integers(0, 10), st.integers(1, 3), st.sampled_from([3, 30]), st.randoms(use_true_random=False))
def test_no_selection_is_worth_more_than_the_bound(number: int, groups: int, most: int, rng: Random) -> None:
    choice = drawn_choice(rng, number, groups, most)
    found, best = certified(choice), by_trying(choice)
    assert int(found.value) <= best <= int(found.bound)
    missing = 1_000 * (int(found.bound) - int(found.value))
    assert missing == 0 if not found.gap else found.gap - 1 < Fraction(missing, int(found.bound)) <= found.gap


@settings(max_examples=25, deadline=None)
@given(st.integers(30, 100), st.integers(1, 6), st.randoms(use_true_random=False))
def test_no_solver_finds_more_than_the_bound(number: int, groups: int, rng: Random) -> None:
    choice = drawn_choice(rng, number, groups, 900)
    found, best = certified(choice), by_solving(choice, 0.2)
    assert int(found.value) <= best <= int(found.bound)


def worked(**changes: object) -> BoundedChoice:
    """Three lanes' candidates by score: 900·40 (a), 800·30 (b), 700·50 (a), 500·60 (c), 100·20 (b)."""
    given: dict[str, object] = {
        "scores": [900, 800, 700, 500, 100],
        "costs": [40, 30, 50, 60, 20],
        "group_of": [0, 1, 0, 2, 1],
        "taken": [1, 1, 0, 1, 0],
        "protected": [],
        "caps": [Cap("a", 0, 1_000), Cap("b", 0, 1_000), Cap("c", 0, 1_000)],
        "limit_tokens": 150,
    }
    return BoundedChoice(**given | changes)  # type: ignore[arg-type] # parametrized values


def test_the_price_is_the_score_at_which_the_limit_is_passed() -> None:
    # 40 + 30 + 50 fit into 150, with 60 more they do not: 500. Above it (400·40 + 300·30 + 200·50) = 35,000
    assert certify(worked()) == Certificate(
        value=900 * 40 + 800 * 30 + 500 * 60, bound=500 * 150 + 35_000, gap=182, price=500, groups=()
    )


def test_without_a_binding_limit_all_prices_are_zero() -> None:
    found = certified(worked(limit_tokens=200, taken=[1, 1, 1, 1, 1]))
    assert (found.value, found.bound, found.gap, found.price) == (127_000, 127_000, 0, 0)


def test_a_ceiling_has_a_price_where_it_is_passed_sooner_than_the_limit() -> None:
    # 700 passes a's 60; the limit of 170 is not passed by 30 + 60 + 60 + 20, so its price is 0
    found = certified(
        worked(
            limit_tokens=170, caps=[Cap("a", 0, 60), Cap("b", 0, 99), Cap("c", 0, 99)], taken=[1, 1, 0, 1, 1]
        )
    )
    assert (found.price, found.groups) == (0, (GroupPrice(name="a", ceiling=700),))
    assert found.bound == 700 * 60 + 200 * 40 + 800 * 30 + 500 * 60 + 100 * 20


def test_a_floor_has_a_price_if_it_admits_lower_scores() -> None:
    # 40 + b's 50 + 50 = 140 of 150, 60 more pass: 500. b itself reaches its 50 with the last, at 100
    found = certified(
        worked(caps=[Cap("a", 0, 99), Cap("b", 50, 99), Cap("c", 0, 99)], taken=[1, 1, 0, 1, 1])
    )
    assert (found.price, found.groups) == (500, (GroupPrice(name="b", floor=400),))
    assert found.bound == 500 * 150 - 400 * 50 + 400 * 40 + 700 * 30 + 200 * 50


def test_protected_candidates_reduce_the_rest_and_count_in_value_and_bound() -> None:
    # 500·60 of c is taken: 90 remain, including b's floor of 40; 40 + 30 fit, 50 more pass: 700
    found = certified(worked(protected=[3], caps=[Cap("a", 0, 99), Cap("b", 40, 99), Cap("c", 99, 99)]))
    assert (found.price, found.groups) == (700, ())
    assert found.bound == 500 * 60 + 700 * 90 + 200 * 40 + 100 * 30


def test_protected_candidates_that_fill_a_lane_close_it() -> None:
    found = certified(worked(protected=[3], caps=[Cap("a", 0, 99), Cap("b", 0, 99), Cap("c", 0, 50)]))
    assert found.groups == (GroupPrice(name="c", ceiling=901 - 700),), (
        "above all scores, less the limit's price"
    )


def test_without_room_for_protected_candidates_there_is_no_certificate() -> None:
    assert certify(worked(protected=[3], limit_tokens=59)) is None
    assert certify(worked(protected=[3], limit_tokens=60, taken=[0, 0, 0, 1, 0])) is not None


def test_an_empty_choice_has_a_bound_of_zero() -> None:
    found = certified(worked(scores=[], costs=[], group_of=[], taken=[]))
    assert (found.value, found.bound, found.gap, found.price, found.groups) == (0, 0, 0, 0, ())


def test_inexact_json_numbers_are_written_as_digits() -> None:
    found = certified(worked(scores=[10**30, 1, 1, 1, 1]))
    assert found.value == str(40 * 10**30 + 30 + 60)
    assert isinstance(found.price, int)


@pytest.mark.parametrize("undiscounted", [True, False])
def test_the_certificate_marks_undiscounted_scores(*, undiscounted: bool) -> None:
    found = certify(worked(), undiscounted=undiscounted)
    assert found is not None
    assert found.undiscounted is undiscounted
