"""Strategy categories: what its conformance files cannot say: policies, bounds of numbers, work done."""

import json
from typing import Any

import pytest
from support.asking import Jumpy, engine_with
from support.composing import ENGINE, answer, entry_of, omitted, request, selected
from support.counting import Counting

from apportion.core.engine import Engine
from apportion.core.results import Margin
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy, PolicyError
from apportion.core.wire.codec import encode
from apportion.engine.counters import COUNTERS


def categories_policy(**changes: Any) -> Policy:
    raw = {"name": "test", "version": "1", "strategy": "categories", "counter": "chars4", **changes}
    return parse_policy(raw)


def shares(**budgets: int) -> dict[str, Any]:
    return {
        name: {"priority": priority, "budget_tokens": budget}
        for priority, (name, budget) in enumerate(budgets.items())
    }


def candidate(name: str, category: str = "recent_session", **changes: Any) -> dict[str, Any]:
    return {"id": name, "category": category, "content": name, "priority": 1} | changes


def keys_of(error: pytest.ExceptionInfo[PolicyError]) -> list[str]:
    return [problem.key for problem in error.value.problems]


def test_the_strategy_without_tables_is_the_built_in_share_out() -> None:
    outcome = answer(request([]), categories_policy())
    assert [(group.name, group.max) for group in outcome.decision.groups] == [
        ("divergence_alert", 200),
        ("high_relevance_cluster", 400),
        ("single_space_match", 300),
        ("recent_session", 200),
    ]
    assert (outcome.decision.tokens.limit, outcome.decision.tokens.reserved) == (1200, 100)


def test_all_errors_of_a_policy_are_reported_at_once() -> None:
    with pytest.raises(PolicyError) as caught:
        categories_policy(
            budget_tokens=150,
            budget_tokens_max=99,
            color="red",
            categories={
                "a": {"priority": 1, "budget_tokens": 100, "may_overflow": "yes"},
                "b": {"priority": 1, "budget_tokens": 41},
                "c": {"priority": 2, "budget_tokens": -1},
            },
            reserve={"tokens": 10, "overflow": "some"},
        )
    assert keys_of(caught) == [
        "categories.a.may_overflow",
        "categories.c.budget_tokens",
        "reserve.overflow",
        "color",
        "budget_tokens_max",
        "categories.b.priority",
        "budget_tokens",
    ]


def test_parts_may_add_up_to_the_total_and_not_to_more() -> None:
    categories_policy(budget_tokens=100, categories=shares(a=60, b=30), reserve={"tokens": 10})
    with pytest.raises(PolicyError) as caught:
        categories_policy(budget_tokens=100, categories=shares(a=60, b=30), reserve={"tokens": 11})
    assert keys_of(caught) == ["budget_tokens"]


def test_a_total_below_the_sum_of_the_budgets_is_refused() -> None:
    with pytest.raises(PolicyError) as caught:
        categories_policy(budget_tokens=600)
    assert "add up to 1100" in str(caught.value)


@pytest.mark.parametrize("total", [1, 99])
def test_a_policy_shares_out_100_tokens_or_more(total: int) -> None:
    with pytest.raises(PolicyError) as caught:
        categories_policy(budget_tokens=total, categories=shares(a=0))
    assert keys_of(caught) == ["budget_tokens"]


def test_a_policy_needs_a_category() -> None:
    with pytest.raises(PolicyError) as caught:
        categories_policy(categories={})
    assert keys_of(caught) == ["categories"]


def test_the_default_reserve_is_the_remainder_of_the_categories() -> None:
    outcome = answer(request([]), categories_policy(budget_tokens=100, categories=shares(a=60, b=15)))
    assert outcome.decision.tokens.reserved == 25


def test_unassigned_tokens_of_a_policy_stay_unused() -> None:
    alert = {"a": {"priority": 0, "budget_tokens": 50, "may_overflow": True}}
    policy = categories_policy(budget_tokens=100, categories=alert, reserve={"tokens": 10})
    candidates = [candidate("x", "a", token_estimate=60), candidate("y", "a", token_estimate=1, priority=0)]
    outcome = answer(request(candidates), policy)
    assert selected(outcome) == ["x"]
    assert entry_of(outcome, "y").margin == Margin(1, 0)


def test_under_a_disabled_policy_a_request_scales_by_the_sum_of_the_parts() -> None:
    policy = categories_policy(budget_tokens=0, categories=shares(a=30, b=10), reserve={"tokens": 10})
    assert answer(request([candidate("x", "a")]), policy).composed.status == "disabled"
    outcome = answer(request([], budget_tokens=200), policy)
    assert [group.max for group in outcome.decision.groups] == [120, 40]
    assert outcome.decision.tokens.reserved == 40


def test_categories_are_ordered_by_priority_not_by_their_place() -> None:
    categories = {
        "late": {"priority": 9, "budget_tokens": 50},
        "early": {"priority": 0, "budget_tokens": 50},
    }
    candidates = [candidate("x", "late"), candidate("y", "early")]
    outcome = answer(request(candidates), categories_policy(budget_tokens=100, categories=categories))
    assert selected(outcome) == ["y", "x"]
    assert [group.name for group in outcome.decision.groups] == ["early", "late"]


@pytest.mark.parametrize(
    ("priority", "score"),
    [
        (9007199254740.99, 2**53 - 2),
        (9007199254740.992, "9007199254740992"),
        (9092624259849.807, "9092624259849807"),
        (2e300, "2" + 303 * "0"),
    ],
)
def test_a_score_is_exact_past_every_exact_integer(priority: float, score: int | str) -> None:
    candidates = [candidate("a", priority=priority / 2), candidate("b", priority=priority)]
    outcome = answer(request(candidates), categories_policy(certificate={"enabled": True}))
    assert selected(outcome) == ["b", "a"]
    assert entry_of(outcome, "b").score == score
    record = json.loads(encode(outcome.decision))
    assert record["candidates"][0]["score"] == score
    value = sum(int(entry["score"]) * entry["tokens"] for entry in record["candidates"])
    assert int(record["certificate"]["value"]) == value


def test_a_given_priority_wins_over_a_derived_priority() -> None:
    made_from: dict[str, Any] = {
        "relevance": 1,
        "created_at": "2026-03-01T12:00:00Z",
        "weighted_agreement": 9,
    }
    entry = entry_of(answer(request([candidate("a", priority=0.25, **made_from)]), categories_policy()), "a")
    assert entry.score == 250
    assert not entry.parts


def test_even_a_counter_that_does_not_add_up_is_held_to_the_limit() -> None:
    category = {"a": {"priority": 0, "budget_tokens": 100}}
    candidates = [candidate(f"c{n:02}", "a", content="x" * 30, token_estimate=1) for n in range(60)]
    policy = categories_policy(budget_tokens=100, categories=category)
    outcome = answer(request(candidates), policy, engine=engine_with(Jumpy()))
    chosen = selected(outcome)
    assert chosen == [entry["id"] for entry in candidates[: len(chosen)]]
    assert 80 < Jumpy().count(outcome.composed.text or "") == outcome.composed.tokens.used <= 100
    assert set(omitted(outcome).values()) == {"budget_exceeded"}
    assert len(omitted(outcome)) == 60 - len(chosen)


def test_a_text_that_fits_at_once_is_counted_once() -> None:
    counter = Counting(ENGINE.counters["chars4"])
    candidates = [candidate(f"c{n:03}", token_estimate=1) for n in range(200)]
    engine = Engine(ENGINE.version, {"chars4": counter})
    outcome = answer(request(candidates), categories_policy(), engine=engine)
    assert counter.texts == [outcome.composed.text]


@pytest.mark.parametrize("lead", ["", "  ", "/", "\n"])
def test_checking_a_candidates_fit_does_not_recount_the_others(lead: str) -> None:
    counter = Counting(COUNTERS["o200k_base"])
    category = {"a": {"priority": 0, "budget_tokens": 1_000}}
    policy = categories_policy(counter="o200k_base", budget_tokens=1_000, categories=category)
    candidates = [
        candidate(f"c{n:03}", "a", content=f"{lead}Tell {n} of it", token_estimate=1) for n in range(600)
    ]
    outcome = answer(request(candidates), policy, engine=Engine(ENGINE.version, {"o200k_base": counter}))
    assert 990 < outcome.composed.tokens.used <= 1_000
    assert set(omitted(outcome).values()) == {"budget_exceeded"}
    assert len(omitted(outcome)) > 400
    assert sum(map(len, counter.texts)) < 4 * sum(len(entry["content"]) for entry in candidates)
