"""Linear work in executed lines of Python: an event four times as large costs four times as much.

`test_bounded_work.py` measures the counted characters. This module also sees ranking, grouping and rendering.
"""

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from support.composing import NOW, answer

from apportion.core.bounds import Bounds
from apportion.core.events import ContextRequest
from apportion.core.strategies import STRATEGIES, parse_policy
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.codec import decode

FEW, MANY = 400, 1_600
TIMES = 1.25 * MANY / FEW
"""As n log n grows, and a little."""
PLENTY = 1_000_000
Fields = dict[str, Any]


def policy_of(strategy: str, **tables: Any) -> Policy:
    return parse_policy({"name": "t", "version": "1", "strategy": strategy, "counter": "chars4", **tables})


def ones(number: int, **fields: Callable[[int], Any]) -> list[Fields]:
    said = [{"id": f"c{at}", "content": f"word {at} and more of it"} for at in range(number)]
    return [one | {name: make(at) for name, make in fields.items()} for at, one in enumerate(said)]


def scattered(at: int) -> float:
    return at * 7_919 % 1_000 / 1_000


def lanes(number: int, share: float) -> tuple[Policy, Fields]:
    tables = {name: {"priority": at, "min_tokens": 0, "max_tokens": PLENTY} for at, name in enumerate("ab")}
    candidates = ones(
        number,
        kind=lambda _: "rule_doc",
        lane=lambda at: "ab"[at % 2],
        recency_bucket=lambda _: 3,
        relevance=scattered,
        specificity=lambda _: 1,
        risk_alignment=lambda _: 1,
    )
    fields = {"candidates": candidates, "budget_tokens": int(6 * number * share)}
    return policy_of("lanes", lanes=tables, budget_tokens=PLENTY), fields


def categories(number: int, share: float) -> tuple[Policy, Fields]:
    budget = int(6 * number * share)
    tables = {"a": {"priority": 0, "budget_tokens": budget}}
    candidates = ones(number, category=lambda _: "a", priority=lambda at: 1 + at % 7)
    return policy_of("categories", categories=tables, budget_tokens=budget), {"candidates": candidates}


def tiers(number: int, share: float) -> tuple[Policy, Fields]:
    kinds = ("directive", "preference", "procedure")
    candidates = ones(number, kind=lambda at: kinds[at % 3], summary=lambda _: "word", activation=scattered)
    fields = {"candidates": candidates, "budget_tokens": int(6 * number * share)}
    return policy_of("tiers", budget_tokens=PLENTY), fields


def layers(number: int, share: float) -> tuple[Policy, Fields]:
    shares = {"a": {"priority": 0, "share_percent": 60}, "b": {"priority": 1, "share_percent": 40}}
    sections = [{"title": f"title {at}", "entries": [f"word {at} and more"] * 2} for at in range(number)]
    given = {"a": {"sections": sections}, "b": "line\n" * number}
    fields = {"layers": given, "budget_tokens": int(20 * number * share)}
    return policy_of("layers", layers=shares, budget_tokens=PLENTY), fields


def conversation(number: int, share: float) -> tuple[Policy, Fields]:
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[Fields] = []
    for at in range(number):
        calls = [{"id": f"{(at + more) % 7}", **call} for more in range(3)]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"{at % 5}", "content": "said so"})
    budget = int(40 * number * share)
    parts = {"system_tokens": budget // 3, "messages_tokens": budget // 3, "response_tokens": 0, "gaps": True}
    talk = {"system_prompt": "x", "messages": messages, "new_message": "y"}
    return policy_of("conversation", budget_tokens=budget, conversation=parts), {"conversation": talk}


def request(number: int, share: float) -> tuple[Policy, Fields]:
    tables, material = lanes(number, share)
    _, chat = conversation(number, share)
    tools = [{"name": f"find_{at}", "description": f"Find word {at % 9}."} for at in range(number)]
    fields = {
        "tools": tools,
        **material,
        **chat,
        "query": "word 7",
        "budget_tokens": int(40 * number * share),
    }
    own = {"lanes": tables.model_dump(include={"lanes"})["lanes"]}
    policy = policy_of(
        "request", response_tokens=0, material=own, trust={"untrusted_share": 500, "default": 0}
    )
    return policy, fields


REQUESTS = (lanes, categories, tiers, layers, conversation, request)


def lines_run(policy: Policy, fields: Fields) -> int:
    """Return how many lines of Python it takes to answer a request."""
    event = {"type": "context-request", "request_id": "r", "session_id": "s", "requested_at": NOW, **fields}
    asked = decode(json.dumps(event).encode(), Bounds())
    assert isinstance(asked, ContextRequest)
    count = 0

    def counting(_: FrameType, what: str, __: Any) -> Any:
        nonlocal count
        count += what == "line"
        return counting

    before = sys.gettrace()
    sys.settrace(counting)
    try:
        answer(asked, policy)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95, 2])
@pytest.mark.parametrize("request_of", REQUESTS, ids=lambda made: made.__name__)
def test_four_times_the_event_is_four_times_the_work(
    request_of: Callable[[int, float], tuple[Policy, Fields]], share: float
) -> None:
    few, many = (lines_run(*request_of(number, share)) for number in (FEW, MANY))
    assert many <= TIMES * few


def test_every_strategy_is_covered() -> None:
    assert {made.__name__ for made in REQUESTS} == set(STRATEGIES)
