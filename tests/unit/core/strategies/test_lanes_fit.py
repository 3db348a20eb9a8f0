"""Fitting of a lanes text under its limit: the order of shrinking, its extent, and dropped candidates."""

from typing import Any

import pytest
from support.asking import Jumpy, engine_with
from support.composing import answer, candidate, entry_of, lanes_policy, omitted, request, selected

from apportion.core.compose import Answered
from apportion.core.errors import EventError
from apportion.core.shrink import ShrinkStrategy, ladder
from apportion.core.strategies.lanes.render import LEAST_FORM_TOKENS
from apportion.core.strategy_api.policy import Policy, PolicyError
from apportion.core.text.tokens import CounterName
from apportion.engine.counters import COUNTERS

LINE = "x" * 39 + "\n"
"""Ten chars4 tokens."""


def wide(**changes: Any) -> Policy:
    lanes = {
        "local": {"priority": 1, "min_tokens": 0, "max_tokens": 10_000},
        "history": {"priority": 2, "min_tokens": 0, "max_tokens": 10_000},
    }
    return lanes_policy(lanes=lanes, **changes)


def lines(name: str, count: int, **changes: Any) -> dict[str, Any]:
    """Return a candidate of so many ten-token lines, which says that it costs nothing."""
    return candidate(name, content=LINE * count, token_estimate=1, **changes)


def pinned(*names: str) -> dict[str, Any]:
    return {"pinned": [{"match": {"type": "id", "value": name}, "reason": "r"} for name in names]}


def fidelities(outcome: Answered) -> dict[str, str]:
    return {item.id: str(item.fidelity) for item in outcome.composed.items}


def test_the_last_lane_shrinks_first_and_only_as_much_as_needed() -> None:
    candidates = [lines("a", 40), lines("b", 40, lane="history")]
    outcome = answer(request(candidates, budget_tokens=700), wide())
    assert fidelities(outcome) == {"a": "full", "b": "shrunk"}
    # one more line of ten tokens would not have fitted
    assert 690 < outcome.composed.tokens.used <= 700


def test_within_a_lane_the_lowest_score_shrinks_first() -> None:
    candidates = [lines("good", 40, relevance=0.9), lines("bad", 40, relevance=0.1)]
    assert fidelities(answer(request(candidates, budget_tokens=700), wide())) == {
        "good": "full",
        "bad": "shrunk",
    }


def test_below_the_floor_the_next_candidate_shrinks_instead() -> None:
    candidates = [lines("a", 40), lines("b", 40, lane="history")]
    outcome = answer(request(candidates, budget_tokens=350), wide())
    tokens = {item.id: item.tokens for item in outcome.composed.items}
    assert 90 < tokens["b"] <= 100
    assert tokens["a"] > 200
    assert outcome.composed.tokens.used <= 350


def test_if_floors_do_not_fit_the_fewest_drop_and_the_rest_shrink_again() -> None:
    candidates = [lines(f"c{n}", 20, relevance=1 - n / 10) for n in range(5)]
    outcome = answer(request(candidates, budget_tokens=450), wide())
    assert omitted(outcome) == {"c4": "dropped_after_render"}
    tokens = [item.tokens for item in outcome.composed.items]
    assert tokens[0] > 130
    assert all(90 < each <= 100 for each in tokens[1:])
    assert outcome.composed.tokens.used <= 450
    # four at their floor of 100 and three separators fit, five do not
    assert len(selected(outcome)) == 4


def test_the_count_of_the_whole_text_decides_the_number_of_drops() -> None:
    # 100 and five times 1 characters with their separators are 115, 29 tokens: 3 too many. Each of the
    # five costs a token, but takes only 3 characters along: without three of them there are 27 tokens still
    candidates = [candidate("big", 25, kind="rule_doc", relevance=1)]
    candidates += [candidate(f"c{n}", content="x", kind="rule_doc", relevance=0.5 - n / 10) for n in range(5)]
    outcome = answer(
        request([entry | {"token_estimate": 1} for entry in candidates], budget_tokens=26), wide()
    )
    assert selected(outcome) == ["big", "c0"]
    assert outcome.composed.tokens.used == 26


def test_dropping_a_lanes_last_candidate_also_frees_its_heading() -> None:
    # history's heading goes along with its only artifact: 40 and 40 characters, and their separators
    lanes = {
        "local": {"priority": 1, "min_tokens": 0, "max_tokens": 1_000},
        "history": {"priority": 2, "min_tokens": 0, "max_tokens": 1_000, "heading": "#" * 40},
    }
    candidates = [
        candidate("a", 100, kind="rule_doc", relevance=1, token_estimate=1),
        candidate("b", 10, kind="rule_doc", relevance=0, token_estimate=1),
        candidate("h", 10, kind="rule_doc", lane="history", token_estimate=1),
    ]
    outcome = answer(request(candidates, budget_tokens=117), lanes_policy(lanes=lanes))
    # 526 characters are 132 tokens: 15 too many, and h alone counts 10
    assert omitted(outcome) == {"h": "dropped_after_render"}
    assert outcome.composed.tokens.used == 111


def test_constraints_and_rules_are_never_shrunk_but_dropped() -> None:
    candidates = [lines("rule", 40, kind="rule_doc", relevance=0), lines("edit", 40)]
    roomy = answer(request(candidates, budget_tokens=550), wide())
    assert fidelities(roomy) == {"edit": "shrunk", "rule": "full"}
    tight = answer(request(candidates, budget_tokens=450), wide())
    assert fidelities(tight) == {"edit": "full"}
    assert omitted(tight) == {"rule": "dropped_after_render"}


def test_protected_candidates_shrink_below_the_floor_only_as_a_last_resort() -> None:
    candidates = [lines("p", 40), lines("q", 40, lane="history")]
    outcome = answer(request(candidates, budget_tokens=50, constraints=pinned("p")), wide())
    assert fidelities(outcome) == {"p": "shrunk"}
    assert omitted(outcome) == {"q": "dropped_after_render"}
    assert outcome.composed.tokens.used <= 50


def test_a_protected_artifact_that_never_shrinks_is_infeasible() -> None:
    outcome = answer(
        request([lines("p", 40, kind="constraint")], budget_tokens=50, constraints=pinned("p")), wide()
    )
    assert outcome.composed.status == "infeasible"
    assert entry_of(outcome, "p").tokens == 400


def test_a_candidates_own_shrink_wins_over_its_kinds() -> None:
    candidates = [lines("rule", 40, kind="rule_doc", shrink="truncate_oldest")]
    assert fidelities(answer(request(candidates, budget_tokens=200), wide())) == {"rule": "shrunk"}
    with pytest.raises(EventError) as caught:
        answer(request([lines("a", 4, shrink="nope")]), wide())
    assert (caught.value.code, caught.value.pointer) == ("unknown_shrink", "$.candidates[0].shrink")


@pytest.mark.parametrize("told", [{"language": "python", "path": "notes.txt"}, {"path": "src/a.py"}])
def test_code_keeps_signatures_by_its_given_language_or_its_path(
    told: dict[str, Any],
) -> None:
    code = "def f():\n" + "    call_it()\n" * 30
    one = candidate("a", content=code, kind="symbol_context", token_estimate=1, **told)
    outcome = answer(request([one], budget_tokens=20), wide(shrink={"floor_tokens": 0}))
    assert outcome.composed.text == "def f(): [... 30 lines omitted]\n"


def test_a_policy_may_set_the_shrink_strategy_and_floor_of_a_kind() -> None:
    policy = wide(kinds={"recent_edit": {"shrink": "never"}}, shrink={"floor_tokens": 30})
    outcome = answer(request([lines("a", 40), lines("b", 40, kind="local_diff")], budget_tokens=440), policy)
    assert fidelities(outcome) == {"a": "full", "b": "shrunk"}


def test_a_new_kind_needs_a_place_in_the_order() -> None:
    with pytest.raises(PolicyError, match=r"kinds\.memo\.order"):
        wide(kinds={"memo": {"shrink": "never"}})
    outcome = answer(request([candidate("a", kind="memo")]), wide(kinds={"memo": {"order": 99}}))
    assert selected(outcome) == ["a"]


def test_the_template_is_counted_with_every_form() -> None:
    policy = wide(render={"template": "<artifact kind={kind}>\n{content}\n</artifact>"})
    outcome = answer(request([lines("a", 40), lines("b", 40)], budget_tokens=500), policy)
    text = outcome.composed.text or ""
    assert (len(text) + 3) // 4 == outcome.composed.tokens.used <= 500
    assert text.count("</artifact>") == len(selected(outcome))


@pytest.mark.parametrize("counter", list(CounterName))
@pytest.mark.parametrize("strategy", [one for one in ShrinkStrategy if one is not ShrinkStrategy.NEVER])
def test_no_shortened_form_is_below_the_smallest_form_size(
    strategy: ShrinkStrategy, counter: CounterName
) -> None:
    contents = ["ab", "a\nb", "a -> b\nb -> c", "a\n\nb\n\nc", "def f():\n    g()\n    h()\n" * 3]
    count = COUNTERS[counter].count
    for content in contents:
        found = ladder(strategy, content, count, "python", None)
        assert found is not None
        forms = [rung.render(kept) for rung in found.rungs for kept in range(1, rung.size + 1)]
        assert all(count(form) >= LEAST_FORM_TOKENS for form in forms)


def test_an_unknown_counter_never_passes_the_limit() -> None:
    for budget in range(1, 120):
        candidates = [lines("p", 4), lines("q", 2, lane="history"), candidate("r", content="/\n")]
        outcome = answer(request(candidates, budget_tokens=budget), wide(), engine=engine_with(Jumpy()))
        assert Jumpy().count(outcome.composed.text or "") == outcome.composed.tokens.used <= budget
