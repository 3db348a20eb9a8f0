"""Validators of chats: they find each violation of each shape, and accept the drawn histories."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.chat_rules import ITEMS, RULES, violations
from support.drawn_chats import EVERYTHING, chats

ASK: dict[str, Any] = {"role": "user", "content": "?"}
BLOCKS: dict[str, Any] = {"role": "user", "content": [{"text": "?"}]}
PARTS: dict[str, Any] = {"role": "user", "parts": [{"text": "?"}]}
HUMAN: dict[str, Any] = {"type": "human", "content": "?"}


def says(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def calls(*names: str) -> dict[str, Any]:
    function = {"name": "f", "arguments": "{}"}
    given = [{"id": name, "type": "function", "function": function} for name in names]
    return {**says(None), "tool_calls": given}


def returns(name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": "1"}


def use(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "f", "input": {}, **fields}


def used(*names: str, content: Any = "1") -> dict[str, Any]:
    blocks = [{"type": "tool_result", "tool_use_id": name, "content": content} for name in names]
    return {"role": "user", "content": blocks}


def converse_use(*names: str) -> dict[str, Any]:
    return says([{"toolUse": {"toolUseId": name, "name": "f", "input": {}}} for name in names])


def converse_used(*names: str, text: str = "1") -> dict[str, Any]:
    results = [{"toolResult": {"toolUseId": name, "content": [{"text": text}]}} for name in names]
    return {"role": "user", "content": results}


def gemini_call(*names: str) -> dict[str, Any]:
    return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}} for name in names]}


def gemini_result(*names: str) -> dict[str, Any]:
    results = [{"functionResponse": {"name": name, "response": {}}} for name in names]
    return {"role": "user", "parts": results}


def ai(*names: str) -> dict[str, Any]:
    given = [{"id": name, "type": "tool_call", "name": "f", "args": {}} for name in names]
    return {"type": "ai", "content": "", "tool_calls": given}


def tool(name: str) -> dict[str, Any]:
    return {"type": "tool", "tool_call_id": name, "content": "1"}


CALL: dict[str, Any] = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "a", "output": "1"}
REASONING: dict[str, Any] = {"type": "reasoning", "id": "rs", "summary": []}
APPROVAL: dict[str, Any] = {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True}
THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "hm", "signature": "s"}
SEARCH: dict[str, Any] = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
FOUND: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
TEXT: dict[str, Any] = {"type": "text", "text": "x"}
EMPTY: dict[str, Any] = {"type": "text", "text": ""}

AI_CALL: dict[str, Any] = {"type": "tool-call", "toolCallId": "a", "toolName": "f", "input": {}}
AI_RESULT: dict[str, Any] = {"type": "tool-result", "toolCallId": "a", "toolName": "f"}
AI_BLANK: dict[str, Any] = {"type": "content", "value": [EMPTY]}
AI_APPROVAL: dict[str, Any] = {"type": "tool-approval-response", "approvalId": "r", "approved": True}

INVALID: list[tuple[str, str, list[Any]]] = [
    ("paired", "openai", [ASK, calls("a", "b"), returns("a"), ASK]),
    ("paired", "openai", [ASK, returns("a")]),
    ("paired", "openai", [ASK, calls("a"), ASK, returns("a")]),
    ("paired", "openai", [ASK, calls("a"), returns("a"), returns("a")]),
    ("paired", "responses", [ASK, CALL]),
    ("paired", "responses", [ASK, OUTPUT, CALL]),
    ("paired", "anthropic", [ASK, says([use("a")]), ASK, used("a")]),
    ("paired", "anthropic", [ASK, says([use("a")]), used("a", "a")]),
    ("paired", "anthropic", [used("a")]),
    ("paired", "gemini", [PARTS, gemini_call("f", "g"), gemini_result("f")]),
    ("paired", "converse", [BLOCKS, converse_use("a", "b"), converse_used("a")]),
    ("paired", "langchain", [HUMAN, ai("a")]),
    ("unique", "openai", [ASK, calls("a", "a"), returns("a"), returns("a")]),
    ("unique", "responses", [ASK, {**CALL, "id": "i"}, OUTPUT, {**CALL, "id": "i"}, OUTPUT]),
    ("unique", "anthropic", [ASK, says([use("a")]), used("a"), says([use("a")]), used("a")]),
    ("unique", "converse", [BLOCKS, converse_use("a", "a"), converse_used("a", "a")]),
    ("unique", "langchain", [HUMAN, ai("a", "a"), tool("a"), tool("a")]),
    ("begins", "anthropic", [says("x"), ASK]),
    ("begins", "gemini", [gemini_call("f"), gemini_result("f")]),
    ("begins", "converse", [says([{"text": "x"}]), BLOCKS]),
    ("ends", "gemini", [PARTS, {"role": "model", "parts": [{"text": "x"}]}]),
    ("ends", "converse", [BLOCKS, says([{"text": "x"}])]),
    ("alternates", "converse", [BLOCKS, BLOCKS]),
    ("content", "openai", [ASK, says(None)]),
    ("content", "openai", [ASK, {**says("x"), "tool_calls": []}]),
    ("content", "anthropic", [ASK, says([]), ASK]),
    ("content", "gemini", [{"role": "user", "parts": []}]),
    ("content", "converse", [{"role": "user", "content": []}]),
    ("blank", "anthropic", [ASK, says([TEXT, EMPTY]), ASK]),
    ("blank", "anthropic", [ASK, says([use("a")]), used("a", content=[EMPTY])]),
    ("blank", "gemini", [{"role": "user", "parts": [{"text": "x"}, {"text": ""}]}]),
    ("blank", "converse", [{"role": "user", "content": [{"text": "x"}, {"text": " "}]}]),
    ("blank", "converse", [BLOCKS, converse_use("a"), converse_used("a", text="")]),
    (
        "results_first",
        "anthropic",
        [ASK, says([use("a")]), {**ASK, "content": [TEXT, *used("a")["content"]]}],
    ),
    ("thinking", "anthropic", [ASK, says([{**THOUGHT, "signature": ""}, TEXT]), ASK]),
    ("thinking", "anthropic", [ASK, says([THOUGHT]), ASK]),
    ("thinking", "anthropic", [ASK, says([TEXT, THOUGHT, use("a")]), used("a")]),
    ("reasoning", "responses", [ASK, REASONING, ASK]),
    ("reasoning", "responses", [ASK, REASONING]),
    ("server_tools", "anthropic", [ASK, says([FOUND, TEXT]), ASK]),
    ("server_tools", "anthropic", [ASK, says([SEARCH, TEXT]), ASK, says("x"), ASK]),
    (
        "caller",
        "anthropic",
        [ASK, says([use("a", caller={"type": "code_execution_20250825", "tool_id": "s"})]), used("a")],
    ),
    ("approvals", "responses", [ASK, APPROVAL]),
    ("paired", "ai_sdk", [ASK, says([AI_CALL]), ASK]),
    ("content", "ai_sdk", [ASK, says([]), ASK]),
    (
        "blank",
        "ai_sdk",
        [ASK, says([AI_CALL]), {"role": "tool", "content": [{**AI_RESULT, "output": AI_BLANK}]}],
    ),
    ("approvals", "ai_sdk", [ASK, {"role": "tool", "content": [AI_APPROVAL]}]),
]


@pytest.mark.parametrize(("rule", "shape", "items"), INVALID)
def test_a_violation_is_found_with_its_place(rule: str, shape: str, items: list[Any]) -> None:
    for body in (items, {ITEMS[shape]: items}):
        found = violations(shape, body)
        assert {text.split()[0] for text in found} == {rule}
        assert all("$[" in text or "the end" in text for text in found)


def test_each_rule_of_each_shape_has_an_invalid_body() -> None:
    rules = {(rule, shape) for rule, sources in RULES.items() for shape in sources}
    assert {(rule, shape) for rule, shape, _ in INVALID} == rules


@pytest.mark.parametrize(
    ("shape", "item"),
    [
        ("openai", {"role": "user", "content": [{"type": "text", "text": 3}]}),
        ("responses", {"type": "function_call_output", "call_id": "a"}),
        ("anthropic", {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}),
        ("langchain", {"type": "human", "content": 3}),
    ],
)
def test_published_types_refuse_what_has_another_form(shape: str, item: Any) -> None:
    assert violations(shape, [item])[0].startswith("types at $[0]")


def test_a_lost_reasoning_item_is_found_by_the_body_that_came() -> None:
    came = [ASK, REASONING, {**CALL, "id": "fc"}, OUTPUT]
    assert violations("responses", came, came) == []
    assert violations("responses", [ASK, *came[2:]], came) == ["reasoning at fc: without its reasoning item"]


@pytest.mark.parametrize("shape", ITEMS)
@given(st.data())
@settings(deadline=None, max_examples=40)
def test_drawn_histories_of_every_feature_are_valid(shape: str, data: st.DataObject) -> None:
    drawn = data.draw(chats(shape, EVERYTHING))
    assert violations(shape, drawn.body) == violations(shape, drawn.always) == []
