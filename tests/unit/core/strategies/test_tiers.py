"""Strategy tiers: what its conformance files cannot say: policies, other counters, work done."""

from collections.abc import Sequence
from typing import Any

import pytest
from support.composing import ENGINE, answer, entry_of, omitted, request, selected
from support.counting import Counting

from apportion.core.engine import Engine
from apportion.core.results import Margin
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy, PolicyError
from apportion.core.text.tokens import TokenCounter
from apportion.engine.counters import COUNTERS
from apportion.engine.policies import builtin_policies


def tiers_policy(**changes: Any) -> Policy:
    raw = {"name": "test", "version": "1", "strategy": "tiers", "counter": "chars4", **changes}
    return parse_policy(raw)


def behavior(name: str, activation: float = 0.9, **changes: Any) -> dict[str, Any]:
    fields = {"id": name, "kind": "directive", "activation": activation, "content": name * 20}
    return fields | changes


class Contrary:
    """A counter that counts more tokens for a shorter text."""

    name = "chars4"
    digest = "sha256:" + "0" * 64

    def count(self, text: str) -> int:
        return max(1, 10_000 - len(text)) if text else 0

    def count_many(self, texts: Sequence[str]) -> list[int]:
        return [self.count(text) for text in texts]


def with_counter(counter: TokenCounter) -> Engine:
    return Engine(ENGINE.version, {"chars4": counter})


def test_the_built_in_policy_limits_the_session_and_the_strategy_alone_does_not() -> None:
    builtin = next(policy for policy in builtin_policies() if policy.name == "tiers")
    limits = builtin.session
    assert (limits.max_tokens, limits.max_tokens_per_request, limits.backoff_prompts) == (3000, 500, 5)
    assert answer(request([]), tiers_policy()).decision.tokens.limit == 2000


def test_all_errors_of_a_policy_are_reported_at_once() -> None:
    with pytest.raises(PolicyError) as caught:
        tiers_policy(
            budget_tokens=-1,
            color="red",
            tiers={"full": 1.1, "summary": "high", "demotion": "never", "summary_characters": 0, "size": 1},
        )
    assert [problem.key for problem in caught.value.problems] == [
        "budget_tokens",
        "tiers.full",
        "tiers.summary",
        "tiers.demotion",
        "tiers.summary_characters",
        "tiers.size",
        "color",
    ]


@pytest.mark.parametrize("table", [{"summary": 0.71}, {"name": 0.31}, {"full": 0.2}])
def test_thresholds_fall_from_full_to_name(table: dict[str, float]) -> None:
    with pytest.raises(PolicyError) as caught:
        tiers_policy(tiers=table)
    assert [problem.key for problem in caught.value.problems] == ["tiers"]


def test_equal_thresholds_leave_a_tier_out() -> None:
    policy = tiers_policy(tiers={"full": 0.5, "summary": 0.5, "name": 0})
    outcome = answer(request([behavior("a", 0.5), behavior("b", 0.499), behavior("c", 0)]), policy)
    assert [(item.id, item.fidelity) for item in outcome.composed.items] == [
        ("a", "full"),
        ("b", "name"),
        ("c", "name"),
    ]


def test_a_behavior_with_only_a_path_gets_an_id_that_hides_the_path() -> None:
    one = {"path": "rules/tabs.md", "kind": "directive", "activation": 0.2, "content": "Use tabs."}
    outcome = answer(request([one]), tiers_policy())
    name = selected(outcome)[0]
    assert outcome.composed.text == f"## Directives\n- `{name}` [directive]"
    assert "tabs" not in name


def test_without_constraints_the_answer_is_empty_not_infeasible() -> None:
    outcome = answer(request([behavior("a"), behavior("b")], budget_tokens=1), tiers_policy())
    assert (outcome.composed.status, outcome.composed.text) == ("empty", "")
    assert omitted(outcome) == {"a": "budget_exceeded", "b": "budget_exceeded"}


def test_an_earlier_demoted_behavior_had_no_tokens_left() -> None:
    candidates = [behavior("a", 0.9), behavior("b", 0.8), behavior("c", 0.7)]
    # a in full is 13 + 3 + 20 = 36 characters: 9 tokens; b as a name adds 1 + 2 + 15 and makes 14
    outcome = answer(request(candidates, budget_tokens=12), tiers_policy())
    assert selected(outcome) == ["a"]
    assert entry_of(outcome, "b").margin == Margin(5, 3)
    assert entry_of(outcome, "c").margin == Margin(4, 0)


@pytest.mark.parametrize("demotion", ["lowest_first", "round_robin"])
def test_even_a_counter_that_grows_as_the_text_shrinks_is_held_to_the_limit(demotion: str) -> None:
    candidates = [behavior(f"b{n}", n / 10) for n in range(1, 10)]
    policy = tiers_policy(tiers={"demotion": demotion})
    outcome = answer(request(candidates, budget_tokens=500), policy, engine=with_counter(Contrary()))
    assert (outcome.composed.status, outcome.composed.tokens.used) == ("empty", 0)
    bound = [behavior("c", kind="constraint"), *candidates]
    outcome = answer(request(bound, budget_tokens=500), policy, engine=with_counter(Contrary()))
    assert outcome.composed.status == "infeasible"


def test_a_text_that_fits_at_once_is_counted_once() -> None:
    counter = Counting(ENGINE.counters["chars4"])
    outcome = answer(
        request([behavior("a"), behavior("b", 0.2)]), tiers_policy(), engine=with_counter(counter)
    )
    assert counter.texts == [outcome.composed.text]


@pytest.mark.parametrize("demotion", ["lowest_first", "round_robin"])
@pytest.mark.parametrize("limit", [100, 1500, 2300])
def test_each_of_300_similar_items_is_counted_a_few_times(demotion: str, limit: int) -> None:
    counter = Counting(COUNTERS["o200k_base"])
    candidates = [
        behavior(f"b{n:03}", 0.7 + n / 1000, content=f"Use {n} tabs a line.", summary=f"Use {n} tabs, or so.")
        for n in range(300)
    ]
    policy = tiers_policy(counter="o200k_base", tiers={"demotion": demotion})
    engine = Engine(ENGINE.version, {"o200k_base": counter})
    outcome = answer(request(candidates, budget_tokens=limit), policy, engine=engine)
    assert limit - 20 < outcome.composed.tokens.used <= limit
    texts = sum(
        len(f"{candidate['content']}{candidate['summary']}`{candidate['id']}` [directive]")
        for candidate in candidates
    )
    assert sum(map(len, counter.texts)) < 8 * texts


def test_the_cost_of_a_text_in_its_place_decides_not_its_cost_alone() -> None:
    # alone, the ruler has 5 tokens and its summary 10; in a line of the text, 12 and 11
    ruler = behavior("ruler", 0.9, kind="constraint", content="─" * 80)
    ruler["summary"] = "Rule a line of dashes between two parts."
    main = behavior("main", 0.8, kind="constraint", content="Never push to main.")
    policy = tiers_policy(counter="o200k_base")
    outcome = answer(request([ruler, main], budget_tokens=21), policy)
    assert [(item.id, item.fidelity) for item in outcome.composed.items] == [
        ("ruler", "full"),
        ("main", "full"),
    ]
    outcome = answer(request([ruler, main], budget_tokens=20), policy)
    assert (outcome.composed.status, outcome.composed.tokens.used) == ("composed", 20)
    assert [(item.id, item.fidelity) for item in outcome.composed.items] == [
        ("main", "full"),
        ("ruler", "summary"),
    ]
