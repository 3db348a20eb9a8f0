"""Whole bodies of five providers under one limit: tools, system prompt, messages and the answer."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import (
    COUNTERS,
    FitError,
    FitOptions,
    builtin_policies,
    fit,
    fit_request,
    fit_request_async,
    parse_policy,
)
from apportion.core.events import ContextRequest
from apportion.doors.fitting import LocalSessions

O200K = COUNTERS["o200k_base"]
LONG, ASK = "12:00 paid\n" * 60, "Which invoice has the largest total?"
CHOOSE = FitOptions(choose_tools=True)
TOPICS = ("weather", "invoice", "calendar", "music", "route", "recipe")


def functions(parameters: str, number: int) -> list[dict[str, Any]]:
    return [
        {
            "name": f"find_{TOPICS[at % len(TOPICS)]}_{at}",
            "description": f"Finds the {TOPICS[at % len(TOPICS)]} of a user. " * 8,
            parameters: {"type": "object", "properties": {TOPICS[at % len(TOPICS)]: {"type": "string"}}},
        }
        for at in range(number)
    ]


def turns(number: int) -> list[tuple[str, str]]:
    return [*[("user", LONG), ("assistant", LONG)] * number, ("user", ASK)]


def anthropic(number: int, tools: int, answer: int) -> dict[str, Any]:
    messages = [{"role": role, "content": text} for role, text in turns(number)]
    given = [*functions("input_schema", tools)]
    if given:
        given[-1] = {**given[-1], "cache_control": {"type": "ephemeral"}}
    return {"system": "Be brief.", "max_tokens": answer, "tools": given, "messages": messages}


def openai(number: int, tools: int, answer: int) -> dict[str, Any]:
    messages = [{"role": role, "content": text} for role, text in [("system", "Be brief."), *turns(number)]]
    given = [{"type": "function", "function": each} for each in functions("parameters", tools)]
    return {"max_completion_tokens": answer, "tools": given, "messages": messages, "temperature": 0}


def responses(number: int, tools: int, answer: int) -> dict[str, Any]:
    items = [{"role": role, "content": text} for role, text in turns(number)]
    given = [{"type": "function", **each} for each in functions("parameters", tools)]
    return {"instructions": "Be brief.", "max_output_tokens": answer, "tools": given, "input": items}


def gemini(number: int, tools: int, answer: int) -> dict[str, Any]:
    roles = {"user": "user", "assistant": "model"}
    contents = [{"role": roles[role], "parts": [{"text": text}]} for role, text in turns(number)]
    half = functions("parameters", tools)
    given = [{"functionDeclarations": half[: tools // 2]}, {"functionDeclarations": half[tools // 2 :]}]
    body = {"contents": contents, "systemInstruction": {"parts": [{"text": "Be brief."}]}}
    return {
        **body,
        "tools": [each for each in given if each["functionDeclarations"]],
        "generationConfig": {"maxOutputTokens": answer},
    }


def converse(number: int, tools: int, answer: int) -> dict[str, Any]:
    messages = [{"role": role, "content": [{"text": text}]} for role, text in turns(number)]
    given: list[Any] = [{"toolSpec": each} for each in functions("inputSchema", tools)]
    point = {"cachePoint": {"type": "default"}}
    config = {"tools": [*given, point], "toolChoice": {"auto": {}}}
    body = {"system": [{"text": "Be brief."}], "messages": messages, "inferenceConfig": {"maxTokens": answer}}
    return {**body, "toolConfig": config} if given else body


MAKERS = (anthropic, openai, responses, gemini, converse)
Maker = Callable[[int, int, int], dict[str, Any]]
FIELDS = {"messages", "input", "contents", "tools", "toolConfig"}


def names(body: dict[str, Any]) -> list[str]:
    """Return the names of all functions in a body's tools."""
    found, stack = [], [body.get("tools") or body.get("toolConfig", {}).get("tools") or []]
    while stack:
        part = stack.pop(0)
        found += [part["name"]] if isinstance(part, dict) and "name" in part else []
        inner = part if isinstance(part, list) else part.values()
        stack += [] if "name" in part else [each for each in inner if isinstance(each, dict | list)]
    return found


def texts(value: Any) -> str:
    """Return the texts of a message, joined."""
    if isinstance(value, dict):
        return "".join([texts(value[name]) for name in ("content", "parts", "text") if name in value])
    return "".join(map(texts, value)) if isinstance(value, list) else value


def recount(body: dict[str, Any]) -> int:
    """Return the tokens of what a body sends, by the rule of the page: 4 a message, and tools as JSON."""
    items = next(body[name] for name in ("messages", "input", "contents") if name in body)
    system = [body[name] for name in ("system", "instructions", "systemInstruction") if name in body]
    functions: list[dict[str, Any]] = []
    given = body.get("tools") or body.get("toolConfig", {}).get("tools") or []
    for tool in given:
        functions += tool.get("functionDeclarations") or ([] if "cachePoint" in tool else [tool])
    for tool in functions:
        tool.pop("cache_control", None)
    dumped = [
        json.dumps(tool, sort_keys=True, separators=(",", ":"), ensure_ascii=False) for tool in functions
    ]
    counted = [O200K.count(texts(each)) + 4 for each in [*system, *items]]
    return sum(counted) + sum([O200K.count(text) for text in dumped])


@pytest.mark.parametrize("make", MAKERS)
def test_a_whole_body_comes_back_complete_under_its_limit(make: Maker) -> None:
    body = make(8, 6, 700)
    before = json.dumps(body)
    fitted = fit_request(body, 3000)
    parts = {part.name: part for part in fitted.decision.parts}
    assert fitted.used_tokens + parts["response"].fixed <= fitted.limit_tokens == 3000
    assert parts["response"].fixed == 700
    assert parts["tools"].used > 300
    assert {name: fitted.body[name] for name in body.keys() - {"messages", "input", "contents"}} == {
        name: body[name] for name in body.keys() - {"messages", "input", "contents"}
    }
    assert ASK in json.dumps(fitted.messages[-1])
    assert json.dumps(body) == before


@pytest.mark.parametrize("make", MAKERS)
def test_tools_are_left_out_only_where_the_caller_chooses(make: Maker) -> None:
    body = make(1, 24, 100)
    with pytest.raises(FitError) as refused:
        fit_request(body, 1500)
    assert refused.value.code == "infeasible"
    assert "(tools " in refused.value.message
    fitted = fit_request(body, 1500, options=CHOOSE)
    sent, given = names(fitted.body), names(body)
    assert 0 < len(sent) < 24
    assert sent == [name for name in given if name in sent]
    assert {name for name in given if "invoice" in name} <= {*sent}
    assert {entry.id for entry in fitted.decision.candidates if entry.group == "tools"} == {
        f"tools/{name}" for name in given
    }
    assert fitted.used_tokens <= 1400
    assert {*fitted.body} == {*body}
    if make is converse:
        assert fitted.body["toolConfig"]["tools"][-1] == {"cachePoint": {"type": "default"}}


@pytest.mark.parametrize("make", MAKERS)
def test_a_body_without_a_tool_that_fits_has_no_choice_of_a_tool(make: Maker) -> None:
    body = {**make(0, 3, 10), "tool_choice": "auto"}
    fitted = fit_request(body, 110, options=CHOOSE)
    assert {*body} - {*fitted.body} == {"tool_choice", "toolConfig" if make is converse else "tools"}


def test_a_chosen_tool_is_always_sent() -> None:
    body = {**anthropic(1, 24, 100), "tool_choice": {"type": "tool", "name": "find_music_3"}}
    assert "find_music_3" in names(fit_request(body, 1500, options=CHOOSE).body)


def test_the_window_of_the_model_is_the_limit_and_its_answer_is_left_free() -> None:
    body = {**anthropic(1, 3, 1000), "model": "claude-opus-4-7"}
    fitted = fit_request(body)
    assert (fitted.limit_tokens, fitted.decision.parts[-1].fixed) == (1_000_000, 1000)
    alone = fit(body)
    assert (alone.used_tokens, alone.limit_tokens) == (fitted.used_tokens, 999_000)
    assert fit(body, 999_000).used_tokens < fitted.used_tokens


def test_a_policy_of_a_conversation_takes_no_tools() -> None:
    with pytest.raises(FitError) as refused:
        fit_request(anthropic(1, 2, 100), 3000, options=FitOptions(policy="conversation"))
    assert (refused.value.code, refused.value.pointer) == ("unsupported_field", "$.options.policy")


class Requests(LocalSessions):
    """Sessions that keep the requests."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[ContextRequest] = []

    def compose(self, request: ContextRequest, /, *, with_decision: bool = True) -> Any:
        self.requests.append(request)
        return super().compose(request, with_decision=with_decision)


def test_an_async_client_gets_the_same_request() -> None:
    sessions, body = Requests(), anthropic(2, 8, 100)

    class Client:
        async def compose(self, request: ContextRequest, /, *, with_decision: bool) -> Any:
            return sessions.compose(request, with_decision=with_decision)

    fitted = asyncio.run(fit_request_async(body, 900, client=Client(), options=CHOOSE))
    assert fitted.body == fit_request(body, 900, options=CHOOSE).body
    assert sessions.requests[0].response_tokens == 100


@pytest.mark.parametrize("place", [None, "message", "user", "system"])
@pytest.mark.parametrize("make", MAKERS)
def test_the_callers_place_of_artifacts_replaces_that_of_the_policy(make: Maker, place: Any) -> None:
    [policy] = [policy for policy in builtin_policies() if policy.name == "request"]
    fields = policy.model_dump(mode="json", exclude_unset=True)
    fields["material"]["place"] = "text"
    options = FitOptions(policy="request", place=place, model="claude-opus-4-7")
    artifacts = [{"content": "Invoice 117"}, {"content": "Invoice 118"}]
    of_text, of_message = [
        fit_request(
            make(2, 4, 100), 3000, client=client, session_id="s", options=options, artifacts=artifacts
        )
        for client in (LocalSessions([parse_policy(fields)]), LocalSessions())
    ]
    assert of_message.body == of_text.body
    assert of_message.sources == of_text.sources
    assert of_message.used_tokens == of_text.used_tokens
    assert str(of_message.body).count("Invoice 117") == 1


def test_a_definition_that_is_no_object_is_refused() -> None:
    with pytest.raises(FitError) as refused:
        fit_request({**anthropic(1, 0, 100), "tools": ["read"]}, 3000)
    assert (refused.value.code, refused.value.pointer) == ("wrong_type", "$.tools[0]")


def shortening() -> LocalSessions:
    raw = next(each for each in builtin_policies() if each.name == "fit").model_dump(exclude_unset=True)
    raw["tools"] = {"max_tokens": 20_000, "shorten": True}
    return LocalSessions([parse_policy(raw)])


@pytest.mark.parametrize("make", MAKERS)
def test_a_shorter_definition_keeps_its_marks_and_needs_no_name_in_its_schema(make: Maker) -> None:
    body = make(0, 3, 10)
    noted = json.loads(json.dumps(body).replace('{"type": "object"', '{"title": "T", "description": "D"'))
    fitted = fit_request(noted, 300, client=shortening(), options=CHOOSE)
    assert {entry.fidelity for entry in fitted.decision.candidates if entry.group == "tools"} == {"shortened"}
    assert names(fitted.body) == names(body)
    assert json.dumps(fitted.body).count("Finds the") == 3
    assert ("cache_control" in json.dumps(fitted.body)) == (make is anthropic)


def test_tools_of_the_provider_beside_functions_in_an_entry_count_one_by_one() -> None:
    body = gemini(0, 24, 100)
    body["tools"][0] |= {"googleSearch": {}, "urlContext": {}}
    whole = fit_request(body, 3000)
    assert whole.body["tools"] == body["tools"]
    assert {"tools/googleSearch", "tools/urlContext"} < {entry.id for entry in whole.decision.candidates}
    asked = {**body, "contents": [{"role": "user", "parts": [{"text": "Search with google: invoices"}]}]}
    fitted = fit_request(asked, 1000, options=CHOOSE).body["tools"]
    assert {"googleSearch": {}} in fitted
    assert all(len(entry) == 1 and all(entry.values()) for entry in fitted if "functionDeclarations" in entry)


def nested(levels: int) -> dict[str, Any]:
    return {"a": nested(levels - 1)} if levels else {}


def test_tools_that_cannot_be_read_are_refused_or_not_counted() -> None:
    body, deep = openai(0, 1, 100), nested(800)
    deep["b"] = deep
    for fields, code, pointer in (
        ({"tools": [{"name": "a", "x": deep}]}, "not_json", "$.tools[0]"),
        ({"tools": [{"name": "b"}, {"functionDeclarations": ["a"]}]}, "wrong_type", "$.tools[1]"),
        ({"tool_choice": {"x": deep}}, "not_json", "$.tool_choice"),
    ):
        with pytest.raises(FitError) as refused:
            fit_request({**body, **fields}, 3000, options=CHOOSE)
        assert (refused.value.code, refused.value.pointer) == (code, pointer)
    unread: list[dict[str, Any]] = [
        {"tools": [{"functionDeclarations": "x"}]},
        {"toolConfig": ["x"]},
        {"toolConfig": "x"},
    ]
    for more in unread:
        for options in (CHOOSE, FitOptions()):
            odd = {**body, **more}
            assert fit_request(odd, 3000, options=options).body == odd


def test_tools_and_artifacts_are_one_request_with_one_decision() -> None:
    client = Requests()
    fitted = fit_request(gemini(2, 4, 100), 4000, client=client, artifacts=[{"content": "Invoice 117: 40"}])
    [request] = client.requests
    assert len(request.tools or ()) == 4
    assert fitted.artifacts_decision is fitted.decision
    assert fitted.messages[-1]["parts"][0]["text"] == f"Invoice 117: 40\n\n{ASK}"


@given(
    make=st.sampled_from(MAKERS),
    number=st.integers(0, 6),
    tools=st.integers(0, 12),
    answer=st.integers(1, 600),
    limit_tokens=st.integers(1, 4000),
    artifacts=st.none()
    | st.lists(st.text(max_size=200).map(lambda text: {"content": f"a {text}"}), max_size=4),
    options=st.builds(
        FitOptions,
        choose_tools=st.booleans(),
        place=st.sampled_from([None, "message", "user", "system"]),
        artifacts_tokens=st.none() | st.integers(0, 500),
        artifacts_policy=st.sampled_from([None, "fit-artifacts"]),
    ),
    model=st.sampled_from([None, "claude-opus-4-7", "gpt-4o", "claude-sonnet-4-5"]),
)
def test_no_request_exceeds_its_limit(  # noqa: PLR0913, PLR0917 - each is an input
    make: Maker,
    number: int,
    tools: int,
    answer: int,
    limit_tokens: int,
    artifacts: Any,
    options: FitOptions,
    model: str | None,
) -> None:
    body = make(number, tools, answer)
    try:
        fitted = fit_request(body, limit_tokens, model=model, artifacts=artifacts, options=options)
    except FitError as error:
        if error.code != "infeasible":
            raise
        return
    assert fitted.used_tokens + answer <= limit_tokens
    assert {
        name: fitted.body.get(name) for name in body.keys() - FIELDS - {"system", "systemInstruction"}
    } == {name: body[name] for name in body.keys() - FIELDS - {"system", "systemInstruction"}}
    assert options.choose_tools or names(fitted.body) == names(body)
    if model is None:
        assert recount(fitted.body) <= fitted.used_tokens
