"""The invariants of strategy categories, for any input; and the same choice as by reading the rules."""

import random
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.asking import Jumpy, engine_with
from support.composing import ENGINE, answer, omitted, request, selected
from support.drawn_lanes import labels
from support.expectations import assert_accounted
from support.lanes_model import labelled

from apportion.core.engine import Engine
from apportion.core.results import Outcome as Fate
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy
from apportion.core.text.tokens import CounterName
from apportion.core.wire.codec import encode
from apportion.engine.counters import COUNTERS

PRIORITIES = {"first": 1, "second": 2, "third": 3, "fourth": 4}
PIECES = ("a", " ", "\n", "\n\n", "\r\n", ".", "/", "é", "e\u0301", "👩\u200d👧", "漢字", "word ", "x" * 20,
          "=" * 33)  # fmt: skip
SETTINGS = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])

shares = st.floats(0, 1).map(lambda number: round(number, 4))
contents = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
reckoned = st.fixed_dictionaries(
    {
        "relevance": shares,
        "weighted_agreement": st.floats(0, 9),
        "created_at": st.sampled_from(
            ["2026-03-01T11:59:00Z", "2026-02-28T11:59:00Z", "2025-01-01T00:00:00Z"]
        ),
    }
)
ranking = reckoned | st.fixed_dictionaries({"priority": st.floats(0, 1e300) | st.sampled_from([0, 1, 1])})
counters = st.sampled_from(list(CounterName))
engines = st.sampled_from([ENGINE, engine_with(Jumpy())])


@st.composite
def candidates(draw: st.DrawFn) -> list[dict[str, Any]]:
    known: dict[int, dict[str, Any]] = {}
    drawn = []
    for name in draw(st.lists(st.integers(0, 20), max_size=20)):
        one = known.setdefault(
            name,
            {"category": draw(st.sampled_from(list(PRIORITIES))), "content": draw(contents), **draw(labels)},
        )
        drawn.append({"id": f"id-{name}", **one, **draw(ranking)})
        if draw(st.booleans()):
            drawn[-1]["token_estimate"] = draw(st.sampled_from([1, 3, 30]))
    return drawn


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Return a policy of 100 tokens, shared out at random."""
    edges = sorted(draw(st.lists(st.integers(0, 100), min_size=5, max_size=5)))
    budgets = [high - low for low, high in pairwise(edges)]
    categories = {
        name: {"priority": priority, "budget_tokens": budget, "may_overflow": priority <= 2}
        for (name, priority), budget in zip(PRIORITIES.items(), budgets, strict=True)
    }
    return parse_policy(
        {
            "name": "test",
            "version": "1",
            "strategy": "categories",
            "counter": draw(counters),
            "budget_tokens": 100,
            "categories": categories,
            "reserve": {"tokens": 100 - sum(budgets), "overflow": draw(st.sampled_from(["reserve", "any"]))},
            "session": {"max_tokens_per_request": draw(st.integers(0, 100))},
        }
    )


def text_of(one: dict[str, Any]) -> str:
    return labelled(one, one["content"])


def one_by_one(ones: list[dict[str, Any]], policy: Any) -> tuple[list[str], dict[str, str]]:
    """Choose as the rules read: each candidate in its turn, the whole text counted with it. Ids differ."""
    count = COUNTERS[policy.counter].count
    limit = policy.session.max_tokens_per_request or policy.budget_tokens
    left, reserve, spent = dict(policy.parts(100)[0]), policy.parts(100)[1], 0
    taken: list[dict[str, Any]] = []
    out: dict[str, str] = {}
    for one in sorted(ones, key=lambda one: (PRIORITIES[one["category"]], -one["priority"], one["id"])):
        category, cost = one["category"], one.get("token_estimate") or count(text_of(one))
        above = max(0, cost - left[category])
        overflows = policy.categories[category].may_overflow
        drawing = overflows and policy.reserve.overflow == "reserve"
        whole = "\n\n".join(map(text_of, [*taken, one]))
        if above and not (overflows and (not drawing or above <= reserve)):
            out[one["id"]] = "category_budget_reached"
        elif spent + cost > limit or count(whole) > limit:
            out[one["id"]] = "budget_exceeded"
        else:
            taken.append(one)
            left[category] -= cost - above
            reserve -= above if drawing else 0
            spent += cost
    return [one["id"] for one in taken], out


@SETTINGS
@given(candidates(), policies(), engines)
def test_the_ceiling_holds_and_every_candidate_is_accounted_for_once(
    ones: list[dict[str, Any]], policy: Policy, engine: Engine
) -> None:
    outcome = answer(request(ones), policy, engine=engine)
    tokens = outcome.composed.tokens
    assert (
        engine.counters[policy.counter].count(outcome.composed.text or "")
        == tokens.used
        <= tokens.limit
        <= 100
    )
    assert_accounted(outcome, len(ones))
    entries = outcome.decision.candidates
    assert selected(outcome) == [entry.id for entry in entries if entry.outcome is Fate.SELECTED]


@SETTINGS
@given(candidates(), policies(), engines, st.randoms(use_true_random=False))
def test_the_order_of_candidates_changes_nothing(
    ones: list[dict[str, Any]], policy: Policy, engine: Engine, shuffler: random.Random
) -> None:
    shuffled = list(ones)
    shuffler.shuffle(shuffled)
    first, second = (
        answer(request(each, request_id="same"), policy, engine=engine) for each in (ones, shuffled)
    )
    assert encode(first.composed) == encode(second.composed)
    assert encode(first.decision) == encode(second.decision)


@SETTINGS
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "category": st.sampled_from(list(PRIORITIES)),
                "content": contents.filter(bool),
                "priority": st.integers(0, 3),
                "token_estimate": st.sampled_from([None, 1, 5, 10, 15, 20]),
                "source_label": st.sampled_from([None, None, "a.md", "é " * 9]),
            }
        ),
        max_size=25,
    ),
    policies(),
)
def test_reckoning_by_parts_chooses_as_counting_every_text_does(
    ones: list[dict[str, Any]], policy: Policy
) -> None:
    named = [
        {key: value for key, value in one.items() if value is not None} | {"id": f"{number:02}"}
        for number, one in enumerate(ones)
    ]
    outcome = answer(request(named), policy)
    assert (selected(outcome), omitted(outcome)) == one_by_one(named, policy)


@SETTINGS
@given(contents, st.integers(0, 10_000), policies())
@example("", 0, parse_policy({"name": "n", "version": "1", "strategy": "categories"}))
def test_a_decision_has_neither_content_nor_path(content: str, number: int, policy: Policy) -> None:
    private = (f"content-{number}-of-it", f"file-{number}.py", f"name-{number}", f"reason-{number}")
    one = {
        "path": f"src/{private[1]}",
        "content": private[0] + content,
        "category": "first",
        "name": private[2],
    }
    first = next(iter(policy.categories))  # type: ignore[attr-defined]  # every policy here is of categories
    pattern = {"match": {"type": "pattern", "value": f"src/{private[1]}"}, "reason": private[3]}
    for constraints in (None, {"must_exclude": [pattern]}):
        asked = request([one | {"category": first, "priority": 1}], constraints=constraints)
        record = encode(answer(asked, policy).decision).decode()
        assert not any(each in record for each in private)
