"""Near misses: with the recorded number of extra tokens, or more, a candidate is selected."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace
from support import drawn_query
from support.composing import answer, candidate, entry_of, lanes_policy, request
from support.drawn_lanes import candidates, constraints, tables, vitals

from apportion.core.compose import Answered
from apportion.core.events import ContextRequest
from apportion.core.results import Entry, Outcome, Reason
from apportion.core.strategy_api.policy import Policy

LANES = ("policy", "local", "history")
sizes = st.integers(1, 40)
crowds = st.lists(st.tuples(sizes, st.sampled_from(LANES), st.integers(0, 9)), min_size=6, max_size=14).map(
    lambda drawn: [
        candidate(f"c{number}", tokens, lane=lane, relevance=relevance / 10)
        for number, (tokens, lane, relevance) in enumerate(drawn)
    ]
)
"""More candidates than fit, in few lanes; none is protected, and estimates are exact."""
surplus = st.sampled_from([0, 0, 1, 25])
narrow = st.tuples(*[st.tuples(st.integers(0, 30), st.integers(0, 60)) for _ in LANES]).map(
    lambda bounds: {
        name: {"priority": priority, "min_tokens": low, "max_tokens": low + above}
        for priority, (name, (low, above)) in enumerate(zip(LANES, bounds, strict=True))
    }
)


def with_more(one: Entry, asked: ContextRequest, policy: Policy, beyond: int) -> Answered:
    """Compose with the recorded number of extra tokens in the refusing bound, and `beyond` more."""
    more = (one.more or 0) + beyond
    if one.reason is Reason.BUDGET_EXCEEDED:
        return answer(replace(asked, budget_tokens=(asked.budget_tokens or 0) + more), policy)
    assert one.reason is Reason.LANE_MAX_REACHED
    raw: dict[str, Any] = policy.model_dump(mode="json", exclude_none=True)
    raw["lanes"][one.group]["max_tokens"] += more
    return answer(asked, lanes_policy(**raw))


def assert_all_hold(asked: ContextRequest, policy: Policy, beyond: int) -> None:
    """Pass if every candidate is selected with its recorded tokens; fitting may drop it later."""
    for entry in answer(asked, policy).decision.candidates:
        if entry.more is not UNSET:
            [then] = (
                other
                for other in with_more(entry, asked, policy, beyond).decision.candidates
                if other.id == entry.id and other.reason is not Reason.DUPLICATE
            )
            is_selected = then.outcome is Outcome.SELECTED
            assert is_selected or then.reason is Reason.DROPPED_AFTER_RENDER


@settings(max_examples=200, deadline=None)
@given(crowds, narrow, st.integers(1, 150), surplus)
def test_near_misses_hold_in_a_crowd(
    crowd: list[dict[str, Any]], lanes: dict[str, Any], limit: int, beyond: int
) -> None:
    asked = request(crowd, budget_tokens=limit)
    assert_all_hold(asked, lanes_policy(budget_tokens=1_000, lanes=lanes), beyond)


@settings(max_examples=100, deadline=None)
@given(candidates(), constraints, vitals, tables(), st.integers(1, 200), surplus)
@example(  # the newest of one id and one subject is not the best-ranked
    [
        candidate("x", 5, subject="s", relevance=relevance, recency_bucket=None, created_at=f"2026-03-{day}")
        for relevance, day in ((0.9, "01T10:00:00Z"), (0.1, "01T11:00:00Z"))
    ],
    {},
    {},
    {"lanes": {"local": {"priority": 0, "min_tokens": 0, "max_tokens": 10}}},
    1,
    0,
)
def test_near_misses_hold_with_pins_estimates_templates_and_repeats(
    drawn: list[dict[str, Any]],
    constrained: dict[str, Any],
    state: dict[str, Any],
    table: dict[str, Any],
    limit: int,
    beyond: int,
) -> None:
    asked = request(drawn, constraints=constrained, vitals=state, budget_tokens=limit)
    assert_all_hold(asked, lanes_policy(budget_tokens=1_000, **table), beyond)


@settings(max_examples=100, deadline=None)
@given(crowds, narrow, st.integers(1, 150))
def test_candidates_without_more_are_refused_under_any_limit(
    crowd: list[dict[str, Any]], lanes: dict[str, Any], limit: int
) -> None:
    policy = lanes_policy(budget_tokens=1_000, lanes=lanes)
    asked = request(crowd, budget_tokens=limit)
    unbounded = answer(replace(asked, budget_tokens=100_000), policy)
    for entry in answer(asked, policy).decision.candidates:
        if entry.reason is Reason.BUDGET_EXCEEDED:
            is_told = entry.more is not UNSET
            assert is_told == (entry_of(unbounded, entry.id).outcome is Outcome.SELECTED)


@settings(max_examples=150, deadline=None)
@given(drawn_query.candidates(), drawn_query.queries, tables(), st.integers(1, 250), surplus)
def test_near_misses_hold_for_the_best_passage_of_a_query(
    drawn: list[dict[str, Any]], query: str, table: dict[str, Any], limit: int, beyond: int
) -> None:
    asked = request(drawn, query=query, budget_tokens=limit)
    policy = lanes_policy(budget_tokens=1_000, query={"passage_characters": 100}, **table)
    assert_all_hold(asked, policy, beyond)
