"""Composed contexts as providers take them: their published types accept them, and no word is changed."""

import json
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, get_args

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter
from support.asking import composed
from support.commands import apportion
from support.composing import ENGINE, answer, candidate, lanes_policy, request

from apportion import (
    ContextComposed,
    FormatError,
    anthropic_body,
    openai_body,
    text_body,
)
from apportion.cli.compose.compose import ComposeFormat
from apportion.core.events import ContextRequest
from apportion.core.models import CacheRules, Model, Models
from apportion.core.results import Breakpoint
from apportion.core.session.row import EMPTY
from apportion.doors.formats import BODIES
from apportion.doors.formats.text import Part, cut
from apportion.engine.policies import builtin_policies

_OPENAI = TypeAdapter(CompletionCreateParamsNonStreaming)
_ANTHROPIC = TypeAdapter(MessageCreateParamsNonStreaming)
_CONVERSATION = next(policy for policy in builtin_policies() if policy.name == "conversation")
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
OTHER = {"id": "c2", "type": "function", "function": {"name": "list", "arguments": ""}}


def drained(value: Any) -> Any:
    """Return a validated value as plain values: pydantic checks an iterable only as it is read."""
    if isinstance(value, dict):
        return {key: drained(each) for key, each in value.items()}
    return (
        [drained(each) for each in value]
        if isinstance(value, Iterable) and not isinstance(value, str)
        else value
    )


def accepted(adapter: TypeAdapter[Any], body: Any, **rest: Any) -> Any:
    """Return a body that its provider's types accept, with no key that they do not know."""
    whole = {**body, "model": "any", **rest}
    assert drained(adapter.validate_python(whole, strict=True)) == whole
    return body


def for_openai(made: ContextComposed) -> Any:
    return accepted(_OPENAI, openai_body(made))


def for_anthropic(made: ContextComposed) -> Any:
    return accepted(_ANTHROPIC, anthropic_body(made), max_tokens=1)


def text(*names: str, **changes: Any) -> ContextComposed:
    return answer(request([candidate(name) for name in names]), lanes_policy(**changes)).composed


def conversation(*messages: dict[str, Any], system_prompt: str = "") -> ContextComposed:
    said = {"system_prompt": system_prompt, "messages": messages, "new_message": "Go on."}
    return composed(_CONVERSATION, conversation=said).composed


def called(*calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **fields}


def result(name: str, content: Any = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": content}


def test_a_key_that_a_provider_does_not_know_is_not_accepted() -> None:
    part = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    with pytest.raises(AssertionError):
        accepted(_OPENAI, {"messages": [{"role": "user", "content": [part]}]})


def test_a_text_is_one_part_of_the_users_for_openai() -> None:
    made = text("a", "b")
    assert for_openai(made)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": made.text}]}
    ]


def test_a_text_without_breakpoints_has_no_cache_control() -> None:
    made = text("a", "b")
    assert for_anthropic(made)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": made.text}]}
    ]


def test_a_text_that_is_held_is_cut_and_marked_at_its_breakpoints_for_anthropic() -> None:
    policy = next(policy for policy in builtin_policies() if policy.name == "agent")
    told = [candidate(f"a{number}", 30, relevance=1 - number / 20) for number in range(12)]
    first = answer(request(told), policy)
    second = answer(request([*told[:9], candidate("new", 30)]), policy, first.session).composed
    [message] = for_anthropic(second)["messages"]
    marked = [part for part in message["content"] if "cache_control" in part]
    assert all(part["cache_control"] == {"type": "ephemeral"} for part in marked)
    assert second.breakpoints
    assert len(marked) == len(second.breakpoints) <= 4
    ends = list(accumulate(len(part["text"]) for part in message["content"]))
    assert ends[: len(marked)] == [each.characters for each in second.breakpoints]
    assert "".join(part["text"] for part in message["content"]) == second.text
    assert text_body(second)["parts"] == [part["text"] for part in message["content"]]
    assert [len(message["content"]) for message in for_openai(second)["messages"]] == [1]


def for_model(model: str, marks: CacheRules, *requests: ContextRequest, **keys: Any) -> ContextComposed:
    """Return the last of a session's contexts, under a policy that counts by a model with these rules."""
    row = Model(name=model, names=(model,), provider="test", counter="chars4", cache=marks)
    engine, session = replace(ENGINE, models=Models((row,))), EMPTY
    for asked_for in requests:
        answered = answer(
            replace(asked_for, model=model), lanes_policy(counter="model", **keys), session, engine
        )
        session = answered.session
    return answered.composed


def turns() -> list[ContextRequest]:
    offered = [candidate(f"a{number}", 30, relevance=1 - number / 20) for number in range(12)]
    return [request(offered), request([*offered[:9], candidate("new", 30)])]


@pytest.mark.parametrize(("ttl_s", "ttl"), [(300, "5m"), (3_600, "1h")])
def test_marks_have_the_time_to_live_of_the_policy_if_it_counts_by_the_model(ttl_s: int, ttl: str) -> None:
    rules = CacheRules("marks", least_tokens=100, write_permille={"5m": 1_250, "1h": 2_000})
    made = for_model("claude", rules, *turns(), prefix={"weight": 1_000, "ttl_s": ttl_s})
    [message] = for_anthropic(made)["messages"]
    marked = [part["cache_control"] for part in message["content"] if "cache_control" in part]
    marks = [point for point in made.breakpoints or () if point.ttl is not UNSET]
    assert marked == [{"type": "ephemeral", "ttl": ttl}] * len(marks)
    assert 1 <= len(marks) <= 4
    assert marks[0].characters >= 400  # type: ignore[operator] # the text is no chat
    assert len(message["content"]) == len(made.items), "each item is a block"
    assert len(for_openai(made)["messages"][0]["content"]) > 1


def test_openai_gets_breakpoints_options_and_a_key_of_the_session_where_only_breakpoints_match() -> None:
    marks = CacheRules("breakpoints", write_permille={"30m": 1_250})
    made = for_model("gpt-6", marks, *turns(), prefix={"weight": 1_000})
    body = for_openai(made)
    [message] = body["messages"]
    marked = [part for part in message["content"] if "prompt_cache_breakpoint" in part]
    assert len(marked) == len([point for point in made.breakpoints or () if point.ttl is not UNSET]) > 0
    assert "".join(part["text"] for part in message["content"]) == made.text
    assert body["prompt_cache_options"] == {"mode": "explicit", "ttl": "30m"}
    other = for_openai(replace(made, session_id="other"))
    assert len(body["prompt_cache_key"]) == 32
    assert body["prompt_cache_key"] != other["prompt_cache_key"]


def test_openai_gets_one_text_and_a_key_where_any_beginning_matches() -> None:
    made = for_model("gpt-4", CacheRules("prefix"), *turns(), prefix={"weight": 1_000})
    body = for_openai(made)
    assert body.keys() == {"messages", "prompt_cache_key"}
    assert [len(message["content"]) for message in body["messages"]] == [1]


def test_a_breakpoint_of_a_chat_is_on_the_last_message_that_openai_lets_have_one() -> None:
    made = conversation(
        {"role": "user", "content": "Hi"}, called(CALL), result("c1"), system_prompt="Be kind."
    )
    assert made.messages
    points = tuple([Breakpoint(items, ttl="30m") for items in (1, 3, 4)])
    body = for_openai(replace(made, breakpoints=points))
    marked = [
        message["role"]
        for message in body["messages"]
        if isinstance(message["content"], list) and "prompt_cache_breakpoint" in message["content"][-1]
    ]
    assert marked == ["system", "user", "tool"]


def test_an_empty_context_is_no_message() -> None:
    made = text()
    assert (made.status, made.text) == ("empty", "")
    assert (for_openai(made), for_anthropic(made)) == ({"messages": []}, {"messages": []})
    assert text_body(made) == {"parts": []}


@pytest.mark.parametrize("body_of", BODIES.values())
def test_an_uncomposed_answer_has_no_body(body_of: Any) -> None:
    with pytest.raises(FormatError, match=r"^nothing was composed \(disabled\), .* \(at \$\.status\)$"):
        body_of(
            text("a", budget_tokens=0, lanes={"local": {"priority": 1, "min_tokens": 0, "max_tokens": 9}})
        )


@given(st.text(alphabet="ab \n", max_size=40), st.sets(st.integers(0, 40), max_size=4))
def test_the_parts_are_the_text_and_none_is_blank(whole: str, places: set[int]) -> None:
    ends = sorted(place for place in places if 0 < place <= len(whole))
    parts = cut(whole, [Breakpoint(1, end) for end in ends])
    assert "".join(part.text for part in parts) == (whole if whole.strip() else "")
    assert all(part.text.strip() for part in parts)
    assert len([part for part in parts if part.end]) <= len(ends)


def test_a_part_ends_where_a_breakpoint_is() -> None:
    first, second = Breakpoint(1, 3), Breakpoint(2, 8)
    assert cut("one\n\ntwo\n\nthree", [first, second]) == [
        Part("one", first),
        Part("\n\ntwo", second),
        Part("\n\nthree"),
    ]
    assert cut("one", [first]) == [Part("one", first)]


def test_a_blank_part_is_joined_to_its_neighbour() -> None:
    assert [part.text for part in cut("a\n\n\n\nb", [Breakpoint(1, 1), Breakpoint(2, 5)])] == [
        "a",
        "\n\n\n\nb",
    ]
    assert [part.text for part in cut("a\n\n  ", [Breakpoint(1, 1)])] == ["a\n\n  "]


def test_a_conversation_is_unchanged_for_openai() -> None:
    messages = [{"role": "user", "content": "Hi", "name": "Grace"}, called(CALL), result("c1")]
    made = conversation(*messages, system_prompt="Be kind.")
    assert for_openai(made)["messages"] == [
        {"role": "system", "content": "Be kind."},
        *messages,
        {"role": "user", "content": "Go on."},
    ]
    assert for_openai(conversation())["messages"] == [{"role": "user", "content": "Go on."}]


def test_calls_and_results_are_blocks_for_anthropic_and_results_one_message() -> None:
    made = conversation(
        {"role": "user", "content": "Hi", "name": "Grace"},
        called(CALL, OTHER, content="I look."),
        result("c1"),
        result("c2", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
    )
    assert for_anthropic(made)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
                {"type": "tool_use", "id": "c2", "name": "list", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "done"}]},
                {
                    "type": "tool_result",
                    "tool_use_id": "c2",
                    "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                },
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
    ]


def test_leading_system_messages_become_the_anthropic_system_field() -> None:
    body = for_anthropic(
        conversation(
            {"role": "developer", "content": "Use UTC."},
            {"role": "user", "content": "Hi"},
            {"role": "system", "content": "Be brief."},
            {"role": "assistant", "content": " "},
            system_prompt="Be kind.",
        )
    )
    assert [block["text"] for block in body["system"]] == ["Be kind.", "Use UTC."]
    assert [message["role"] for message in body["messages"]] == ["user", "system", "user"]
    assert "system" not in for_anthropic(conversation())


@pytest.mark.parametrize("arguments", ["{", "[1]", "null", '{"a": NaN}', "[" * 100_000])
def test_arguments_that_are_no_object_have_no_form_for_anthropic(arguments: str) -> None:
    broken = CALL | {"function": {"name": "read", "arguments": arguments}}
    made = conversation(called(broken), result("c1"))
    for_openai(made)
    with pytest.raises(FormatError) as refused:
        anthropic_body(made)
    assert refused.value.pointer == "$.messages[0].tool_calls[0].function.arguments"
    assert arguments not in refused.value.message


def test_results_that_come_later_have_no_form_for_anthropic() -> None:
    made = conversation(called(CALL), {"role": "user", "content": "Wait."}, result("c1"))
    for_openai(made)
    with pytest.raises(FormatError, match=r"results right after it.* \(at \$\.messages\[0\]\.tool_calls\)$"):
        anthropic_body(made)


def test_a_conversation_has_no_text() -> None:
    with pytest.raises(FormatError, match=r"use openai or anthropic \(at \$\.messages\)$"):
        text_body(conversation())


def line(name: str, **fields: Any) -> bytes:
    when = {"session_id": "s", "requested_at": "2026-03-01T12:00:00Z"}
    return json.dumps({"type": "context-request", "request_id": name, **when, **fields}).encode() + b"\n"


def test_the_command_knows_every_format() -> None:
    assert set(get_args(ComposeFormat)) == set(BODIES)


@pytest.mark.parametrize("name", BODIES)
def test_the_command_writes_one_body_for_each_answer(name: str) -> None:
    events = line("r1", candidates=[candidate("a")]) + line(
        "r2", candidates=[candidate("a")], budget_tokens=0
    )
    plain = [json.loads(each) for each in apportion("compose", stdin=events).out.splitlines()]
    ended = apportion("compose", "--format", name, stdin=events)
    first, second = (json.loads(each) for each in ended.out.splitlines())
    same = ("request_id", "session_id", "tenant", "decision_id", "status")
    assert [{key: each[key] for key in same} for each in plain] == [
        {key: each[key] for key in same} for each in (first, second)
    ]
    assert first["body"] == BODIES[name](text("a"))
    assert (second["status"], "body" in second) == ("disabled", False)
    assert ended.exit_code == 0


def test_the_command_reports_an_answer_without_a_form_and_goes_on() -> None:
    chat = {"policy": "conversation", "conversation": {"new_message": "secret"}}
    ended = apportion("compose", "--format", "text", stdin=line("r1", **chat) + line("r2", candidates=[]))
    first, second = (json.loads(each) for each in ended.out.splitlines())
    assert ("body" in first, second["body"]) == (False, {"parts": []})
    assert ended.exit_code == 1
    told = "a text cannot express a conversation's roles and calls; use openai or anthropic"
    assert ended.err.splitlines() == [
        f"apportion: request r1: {told} (at $.messages)",
        "apportion: forms_missing: answers without a form in text: 1",
    ]
