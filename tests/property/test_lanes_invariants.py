"""The invariants of strategy lanes, for any input: ceiling, order-free, accounted, private, remembered."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.composing import ENGINE, SECRET, answer, lanes_policy, request
from support.expectations import assert_accounted

from apportion.core.engine import Engine
from apportion.core.fingerprints import Secrets
from apportion.core.memory import Memory
from apportion.core.shrink import ShrinkStrategy, ladder
from apportion.core.text.tokens import CounterName
from apportion.core.wire.codec import encode
from apportion.engine.counters import COUNTERS

LANES = ("policy", "rules", "local", "structure", "retrieved", "history")
KINDS = ("constraint", "rule_doc", "local_diff", "symbol_context", "dependency_graph", "session_history")
MOMENTS = tuple(f"2026-03-01T12:{moment}Z" for moment in ("00:00", "00:59.5", "01:00", "04:00", "05:00"))
PIECES = (
    "a",
    " ",
    "\n",
    "\n\n",
    "\r\n",
    "\0",
    "é",
    "e\u0301",
    "👩\u200d👩\u200d👧",
    "שלום",
    "漢字",
    "word ",
    "x" * 50,
)

texts = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=60)
recencies = st.fixed_dictionaries({"recency_bucket": st.integers(0, 5)}) | st.fixed_dictionaries(
    {"created_at": st.sampled_from(MOMENTS)}
)
shares = st.floats(0, 1).map(lambda number: round(number, 4))


@st.composite
def candidates(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = draw(st.lists(st.integers(0, 30), max_size=25))
    drawn = []
    for name in names:
        chooser = random.Random(name)  # noqa: S311 - equal ids have equal content, kind and lane
        one = {
            "id": f"id-{name}",
            "content": "".join(chooser.choices(PIECES, k=chooser.randrange(40)))
            if name % 3
            else draw_fixed(name),
            "kind": chooser.choice(KINDS),
            "lane": chooser.choice(LANES),
            "relevance": draw(shares),
            "specificity": draw(shares),
            "risk_alignment": draw(shares),
            **draw(recencies),
        }
        if draw(st.booleans()):
            one["token_estimate"] = draw(st.integers(1, 60))
        drawn.append(one)
    return drawn


def draw_fixed(name: int) -> str:
    return "" if name == 0 else f"line {name}\n" * name


def matches() -> st.SearchStrategy[list[dict[str, Any]]]:
    by_id = st.integers(0, 30).map(
        lambda name: {"match": {"type": "id", "value": f"id-{name}"}, "reason": "r"}
    )
    by_lane = st.sampled_from(LANES).map(
        lambda lane: {"match": {"type": "lane", "value": lane}, "reason": "r"}
    )
    return st.lists(by_id | by_lane, max_size=3)


constraints = st.fixed_dictionaries(
    {"must_exclude": matches(), "pinned": matches(), "must_include": matches()}
)
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SETTINGS
@given(candidates(), constraints, st.integers(1, 400), st.sampled_from(list(CounterName)))
def test_the_ceiling_holds_and_every_candidate_is_accounted_for_once(
    ones: list[dict[str, Any]], limits: dict[str, Any], budget: int, counter: CounterName
) -> None:
    outcome = answer(request(ones, constraints=limits, budget_tokens=budget), lanes_policy(counter=counter))
    text = outcome.composed.text or ""
    assert COUNTERS[counter].count(text) == outcome.composed.tokens.used <= budget
    assert_accounted(outcome, len(ones))


@SETTINGS
@given(candidates(), constraints, st.integers(1, 400), st.randoms(use_true_random=False))
def test_the_order_of_candidates_changes_nothing(
    ones: list[dict[str, Any]], limits: dict[str, Any], budget: int, shuffler: random.Random
) -> None:
    fields = {"constraints": limits, "budget_tokens": budget, "request_id": "same"}
    shuffled = list(ones)
    shuffler.shuffle(shuffled)
    first = answer(request(ones, **fields), lanes_policy())
    second = answer(request(shuffled, **fields), lanes_policy())
    assert encode(first.composed) == encode(second.composed)
    assert encode(first.decision) == encode(second.decision)
    assert first.session == second.session


@SETTINGS
@given(
    candidates(), constraints, st.integers(1, 400), st.lists(st.sampled_from(MOMENTS), min_size=2, max_size=4)
)
def test_the_cache_changes_no_byte(
    ones: list[dict[str, Any]], limits: dict[str, Any], budget: int, moments: list[str]
) -> None:
    memory, session = Memory(), answer(request([], requested_at=moments[0]), lanes_policy()).session
    for moment in moments:
        asked = request(ones, constraints=limits, budget_tokens=budget, requested_at=moment)
        first, second, cold = (
            answer(asked, lanes_policy(), session, memory=one) for one in (memory, memory, None)
        )
        assert second.cache_hit
        assert encode(first.decision) == encode(second.decision) == encode(cold.decision)
        assert encode(first.composed) == encode(second.composed) == encode(cold.composed)


@SETTINGS
@given(
    st.lists(st.integers(0, 30), min_size=2, max_size=30),
    st.integers(0, 40),
    st.integers(1, 120),
    st.sampled_from([CounterName.CHARS4, CounterName.BYTES4, CounterName.WORDS13]),
)
def test_an_artifact_is_shrunk_no_further_than_needed(
    widths: list[int], beside: int, budget: int, counter: CounterName
) -> None:
    fields = {
        "lane": "local",
        "recency_bucket": 0,
        "specificity": 0,
        "risk_alignment": 0,
        "token_estimate": 1,
    }
    content, rule = (
        "\n".join("é word"[: 1 + width % 6] * width for width in widths) + "\n.",
        "r" * beside + "r",
    )
    ones = [
        {"id": "rule", "kind": "rule_doc", "content": rule, "relevance": 1, **fields},
        {"id": "edit", "kind": "recent_edit", "content": content, "relevance": 0, **fields},
    ]
    policy = lanes_policy(counter=counter, shrink={"floor_tokens": 0})
    outcome = answer(request(ones, budget_tokens=budget), policy)
    found = ladder(ShrinkStrategy.TRUNCATE_OLDEST, content, COUNTERS[counter].count)
    assert found is not None
    forms = [content, *(rung.render(kept) for rung in found.rungs for kept in range(rung.size, 0, -1))]
    texts = [f"{rule}\n\n{form}" for form in forms]
    fitting = [text for text in texts if COUNTERS[counter].count(text) <= budget]
    if fitting:
        assert outcome.composed.text == fitting[0]


@SETTINGS
@given(
    st.lists(st.sampled_from(["src", "deep-secret", "nested"]), min_size=1, max_size=4),
    st.integers(0, 10_000),
)
def test_a_decision_has_neither_content_nor_path_nor_workspace(parts: list[str], number: int) -> None:
    path, content = "/".join([*parts, f"file-{number}.py"]), f"the-content-{number}-of-it"
    one = {"path": path, "content": content, "kind": "recent_edit", "lane": "local", "recency_bucket": 1,
           "relevance": 0.1, "specificity": 0.2, "risk_alignment": 0.3, "name": f"name-{number}"}  # fmt: skip
    limits = {"must_exclude": [{"match": {"type": "pattern", "value": path}, "reason": f"reason-{number}"}]}
    for constraint in (None, limits):
        asked = request(
            [one], constraints=constraint, trigger={"workspace": f"/home/{number}", "event": "save"}
        )
        record = encode(answer(asked, lanes_policy()).decision).decode()
        for private in (
            path,
            content,
            f"file-{number}",
            f"name-{number}",
            f"reason-{number}",
            f"/home/{number}",
        ):
            assert private not in record


def test_without_a_secret_the_workspace_does_not_travel_at_all() -> None:
    asked = request([], trigger={"workspace": "/home/me", "event": "save"})
    bare = answer(asked, lanes_policy(), engine=Engine(ENGINE.version, ENGINE.counters))
    assert bare.decision.trigger
    assert not bare.decision.trigger.workspace
    named = answer(
        asked, lanes_policy(), engine=Engine(ENGINE.version, ENGINE.counters, Secrets(default=SECRET))
    )
    assert named.decision.trigger
    assert len(named.decision.trigger.workspace or "") == 12


@pytest.mark.parametrize("counter", list(CounterName))
@pytest.mark.parametrize(
    "content",
    [
        "x" * 200_000,
        "👩\u200d👩\u200d👧\u200d👦" * 2_000,
        "שלום עולם " * 3_000,
        "漢字仮名" * 5_000,
        "\0" * 9_000,
        "line\r\n" * 9_000,
        "e" + "\u0301" * 9_000,
        " " * 100_000,
    ],
)
def test_hostile_text_never_passes_the_ceiling(counter: CounterName, content: str) -> None:
    ones = [
        {
            "id": f"c{n}",
            "content": content[: len(content) // (n + 1)],
            "kind": "local_diff",
            "lane": "local",
            "recency_bucket": 1,
            "relevance": 0.1 * n,
            "specificity": 0,
            "risk_alignment": 0,
            "token_estimate": 1,
        }
        for n in range(4)
    ]
    outcome = answer(request(ones, budget_tokens=1_000), lanes_policy(counter=counter))
    assert COUNTERS[counter].count(outcome.composed.text or "") == outcome.composed.tokens.used <= 1_000
