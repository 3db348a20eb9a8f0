"""Decisions of strategy `request` in their readers: verify, replay, explain, tables, report and metrics."""

import json
from typing import Any

import msgspec
from msgspec import UNSET
from prometheus_client import CollectorRegistry
from support.composing import ENGINE, candidate, entry_of
from support.recording import Recording, as_lines, asked, of_files, recorded, verified
from support.reported import page

from apportion.core.bounds import Bounds
from apportion.core.compose import compose
from apportion.core.events import ContextRequest
from apportion.core.policies.catalogue import Catalogue
from apportion.core.results import ContextDecision, Reason
from apportion.core.session.row import EMPTY
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.levers import Lever
from apportion.core.wire.codec import decode
from apportion.decisions.analytics.restored import restore_decisions
from apportion.decisions.analytics.source import LogSource, open_tables
from apportion.decisions.explain.decision import TOOLS_SHOWN, explanation
from apportion.decisions.mcp.explaining import text_of
from apportion.decisions.replay.origin import Origin
from apportion.decisions.replay.reading import FileReading
from apportion.decisions.replay.recomposing import Recomposer
from apportion.decisions.replay.replaying import Replay, WhatIf
from apportion.decisions.replay.verify import Verification
from apportion.decisions.replay.whatif import Change, DecisionDifference
from apportion.decisions.replay.why import AdmittingChange, Searched, why
from apportion.shell.operations.numbers import Numbers
from apportion.shell.operations.tally import BatchTally

POLICY = parse_policy(
    {
        "name": "whole",
        "version": "1",
        "strategy": "request",
        "counter": "chars4",
        "budget_tokens": 2_000,
        "response_tokens": 200,
        "tools": {"max_tokens": 72},
        "material": {"lanes": {"local": {"priority": 0, "min_tokens": 0, "max_tokens": 1_000}}},
    }
)
CATALOGUE = Catalogue([POLICY])
PARTS = ["system", "tools", "history", "material", "response"]


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "description": f"{name.replace('_', ' ')} {'x' * 60}", "input_schema": {}}


TOOLS = [tool("search_orders"), tool("refund_payment"), *[tool(f"other_{number}") for number in range(30)]]


def turn(number: int, **changes: Any) -> dict[str, Any]:
    """Return a request with more tools than their maximum allows."""
    messages = [{"role": role, "content": f"{role} {number} " * 20} for role in ("user", "assistant")]
    new = "Please search the orders and refund the payment"
    chat = {"system_prompt": "Be brief.", "messages": messages * number, "new_message": new}
    whole = {"conversation": chat, "tools": TOOLS, "candidates": [candidate("a", 20), candidate("b", 30)]}
    return asked(f"r{number}", policy="whole", **(whole | changes))


def recording(**changes: Any) -> Recording:
    return recorded([turn(1, **changes), turn(2, **changes)], catalogue=CATALOGUE)


def decision_of(line: bytes) -> ContextDecision:
    return msgspec.json.decode(line, type=ContextDecision)


def differences(change: Change, **changes: Any) -> list[DecisionDifference]:
    """Return the differences that a change makes to the recorded turns."""
    made = recording(**changes)
    verification = Verification(
        Recomposer(ENGINE, of_files(CATALOGUE), "whole"), FileReading(Bounds()), as_lines(made.decisions)
    )
    told = [*Replay(verification, WhatIf(change)).run(as_lines(made.events))]
    found = [each for each in told if isinstance(each, DecisionDifference)]
    assert len(found) == len(told) == len(made.events)
    return found


def test_decisions_of_requests_are_verified_without_a_difference() -> None:
    made = recording()
    summary = verified(made, catalogue=CATALOGUE).summary
    assert (summary.verified, summary.differences) == (2, 0)
    forged = made.decisions[0].replace(b'"name":"tools","room":72', b'"name":"tools","room":73')
    found = verified(made, catalogue=CATALOGUE, decisions=(forged, made.decisions[1]))
    assert (found.summary.differences, found.findings[0].place) == (1, "$.parts[1].room")


def test_a_replay_without_tools_loses_exactly_the_tools_that_were_sent() -> None:
    sent = [
        [
            entry.id
            for entry in decision_of(line).candidates
            if entry.group == "tools" and entry.reason is UNSET
        ]
        for line in recording().decisions
    ]
    found = differences(Change(without_tools=True))
    assert [[item.id for item in each.lost] for each in found] == sent
    assert sent[0] == ["tools/search_orders", "tools/refund_payment"]
    assert all(each.after.used < each.before.used for each in found)


def test_a_replay_without_tools_gives_their_tokens_to_the_chat() -> None:
    [_, after] = differences(Change(without_tools=True), budget_tokens=400)
    assert "history" in {item.group for item in after.gained}
    assert after.after.used <= after.after.limit == 400


def test_a_replay_without_tools_keeps_requests_that_have_no_tools() -> None:
    policy = Change(without_tools=True)
    request = decode(json.dumps(turn(1, tools=None)).encode(), Bounds())
    assert isinstance(request, ContextRequest)
    assert policy.request_for(request, POLICY) is request


def changes_for(name: str, **changes: Any) -> dict[Lever, AdmittingChange]:
    request = decode(json.dumps(turn(1, **changes)).encode(), Bounds())
    assert isinstance(request, ContextRequest)
    answered = compose(request, EMPTY, POLICY, ENGINE)
    found = why(Origin(request, EMPTY, POLICY), ENGINE, entry_of(answered, name))
    return {change.lever: change for change in found.changes}


def test_the_smallest_maximum_of_tools_that_admits_a_tool_is_found() -> None:
    tools = [*TOOLS[:2], tool("orders_archive")]
    changes = changes_for("tools/orders_archive", tools=tools)
    assert list(changes) == [Lever.TOTAL, Lever.CEILING]
    ceiling = changes[Lever.CEILING]
    assert (ceiling.key, ceiling.now, ceiling.ended) == ("tools.max_tokens", 72, Searched.ADMITTED)
    assert ceiling.needed is not UNSET
    names: list[list[str]] = []
    for most in (ceiling.needed - 1, ceiling.needed):
        raw = POLICY.model_dump() | {"tools": {"max_tokens": most}}
        request = decode(json.dumps(turn(1, tools=tools)).encode(), Bounds())
        assert isinstance(request, ContextRequest)
        names.append([item.id for item in compose(request, EMPTY, parse_policy(raw), ENGINE).composed.items])
    assert ["tools/orders_archive" in each for each in names] == [False, True]


def test_the_smallest_total_and_lane_that_admit_a_tool_and_material_are_found() -> None:
    total = changes_for("tools/refund_payment", budget_tokens=260)[Lever.TOTAL]
    assert (total.key, total.now, total.ended) == ("budget_tokens", 260, Searched.ADMITTED)
    large = candidate("large", 1_001, shrink="never")
    lane = changes_for("large", budget_tokens=1_800, material_tokens=1_400, candidates=[large])[Lever.CEILING]
    assert (lane.key, lane.now, lane.ended) == ("material.lanes.local.max_tokens", 1_000, Searched.ADMITTED)


def test_an_explanation_begins_with_the_parts_and_names_the_tools() -> None:
    decision = decision_of(recording().decisions[0])
    lines = text_of(explanation(decision)).splitlines()
    parts = {part.name: part for part in decision.parts}
    assert list(parts) == PARTS
    tools = parts["tools"]
    assert f"tools {tools.used} 72 {tools.available:,} 2 of 32" in lines
    [lane] = [group for group in decision.groups if group.name == "local"]
    [at] = [index for index, line in enumerate(lines) if line.startswith("material ")]
    assert lines[at + 1].strip().startswith(f"local {lane.used} 1,000 ")
    assert "response (kept free) 0 200 200 0 0 of 0" in lines
    named = " ".join(lines[lines.index("Tools") :])
    assert "sent (2): search_orders, query " in named
    reason = Reason.TOOL_NOT_RELEVANT
    assert f"left out, {reason} (30): other_0; other_1; " in named
    assert f"other_{TOOLS_SHOWN - 1}, and {30 - TOOLS_SHOWN} more" in named
    assert f"more: {reason}" not in named
    assert "tools/" not in named


def test_the_tables_have_the_parts() -> None:
    lines = recording().decisions
    with open_tables((), [LogSource("log", lines)]) as tables:
        rows = tables.execute(
            "SELECT part.name, part.used FROM (SELECT unnest(parts) AS part FROM decisions)"
        ).fetchall()
        restored = restore_decisions(tables, "", 2)
    decisions = [decision_of(line) for line in lines]
    assert rows == [(part.name, part.used) for decision in decisions for part in decision.parts]
    assert [each.parts for each in restored] == [each.parts for each in decisions]


def test_the_report_has_the_parts_of_an_opened_decision() -> None:
    record = json.loads(recording().decisions[0])
    assert msgspec.json.encode(record["parts"]).decode() in page([record])


def test_the_tokens_of_the_parts_are_counted() -> None:
    request = decode(json.dumps(turn(1)).encode(), Bounds())
    assert isinstance(request, ContextRequest)
    answered = compose(request, EMPTY, POLICY, ENGINE)
    tally, numbers, registry = BatchTally(), Numbers(), CollectorRegistry(auto_describe=False)
    tally.answered(answered, 0.001)
    tally.answered(answered, 0.001)
    numbers.batch(tally, 0, events=2, size_bytes=1, work_s=0, write_s=0)
    registry.register(numbers)
    name = "apportion_part_tokens_used_total"
    counted = {part: registry.get_sample_value(name, {"part": part}) for part in PARTS}
    assert counted == {part.name: 2 * part.used for part in answered.decision.parts}
