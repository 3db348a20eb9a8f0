"""The ceiling of `fit` and `fit_request` by a model's own count, over drawn chats and whole bodies."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.drawn_chats import EVERYTHING, chats, texts
from support.provider_bodies import CLAUDE, body_tokens, functions, shape_of

from apportion import FitError, FitOptions, Fitted, fit, fit_request
from apportion.doors.fitting.shapes import read_chat

MODELS = {
    "claude-opus-4-7": "anthropic",
    "claude-sonnet-5": "anthropic",
    "claude-haiku-4-5": "anthropic",
    "anthropic.claude-opus-4-8": "converse",
    "gpt-4o": "openai",
    "gpt-5.6-sol": "responses",
    "gemini-3.8-flash": "gemini",
    "qwen3-max": "openai",
    "llama-3.3-70b": "openai",
    "mistral-large-3": "openai",
}
_NAMED: dict[str, Any] = {
    "anthropic": lambda name: {"tool_choice": {"type": "tool", "name": name}},
    "converse": lambda name: {"toolConfig": {"toolChoice": {"tool": {"name": name}}}},
    "openai": lambda name: {"tool_choice": {"type": "function", "function": {"name": name}}},
    "responses": lambda name: {"tool_choice": {"type": "function", "name": name}},
    "gemini": lambda name: {"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": [name]}}},
}


@settings(max_examples=40, deadline=None)
@given(chats("anthropic", EVERYTHING), st.integers(200, 4_000))
def test_no_drawn_chat_exceeds_its_limit_by_the_models_own_count(drawn: Any, limit: int) -> None:
    try:
        fitted = fit(drawn.body, limit, model=CLAUDE)
    except FitError as error:
        assert error.code in ("infeasible", "invalid_value")  # noqa: PT017 - both outcomes are right
        return
    assert body_tokens(fitted.body) <= fitted.used_tokens <= limit


def _tools(shape: str, names: list[str], text: str) -> dict[str, Any]:
    """Return the fields of a body with functions of these names."""
    schema = {"type": "object", "properties": {name: {"description": text} for name in names[:3]}}
    field = "input_schema" if shape == "anthropic" else "parameters"
    own = [{"name": name, "description": f"{name} {text}", field: schema} for name in names]
    if shape == "converse":
        specs = [{"name": each["name"], "inputSchema": {"json": schema}} for each in own]
        return {"toolConfig": {"tools": [{"toolSpec": spec} for spec in specs]}}
    if shape == "gemini":
        return {"tools": [{"functionDeclarations": own[:2]}, {"functionDeclarations": own[2:]}]}
    kind = {} if shape == "anthropic" else {"type": "function"}
    return {"tools": [{**kind, "function": each} if shape == "openai" else {**kind, **each} for each in own]}


@st.composite
def bodies(draw: st.DrawFn, model: str) -> dict[str, Any]:
    """Return the arguments of `fit_request`: a body with tools and a greatest answer, and artifacts."""
    shape = MODELS[model]
    drawn: Any = draw(chats(shape, EVERYTHING)).body
    body = {"model": model, **(drawn if isinstance(drawn, dict) else {"messages": drawn})}
    names = [f"find_{index}" for index in range(draw(st.sampled_from([0, 2, 12])))]
    if names:
        body |= _tools(shape, ["read", *names], draw(texts))
        if draw(st.booleans()):
            for field, choice in _NAMED[shape](draw(st.sampled_from(names))).items():
                body[field] = {**body[field], **choice} if field in body else choice
    answer = draw(st.integers(1, 500))
    fields = {"converse": "inferenceConfig", "gemini": "generationConfig", "responses": "max_output_tokens"}
    own = {"converse": {"maxTokens": answer}, "gemini": {"maxOutputTokens": answer}}.get(shape, answer)
    artifacts = [{"id": f"a{index}", "content": draw(texts)} for index in range(draw(st.integers(0, 4)))]
    return {
        "body": {**body, fields.get(shape, "max_tokens"): own},
        "limit_tokens": answer + draw(st.integers(400, 6_000)),
        "artifacts": draw(st.none() | st.just(artifacts)),
        "options": FitOptions(choose_tools=draw(st.booleans())),
        "answer_tokens": answer,
    }


def fitted_request(drawn: dict[str, Any]) -> Fitted | None:
    """Return the fitted body; None if it cannot be fitted."""
    try:
        return fit_request(**{name: value for name, value in drawn.items() if name != "answer_tokens"})
    except FitError as error:
        assert error.code in ("infeasible", "invalid_value"), error  # noqa: PT017 - likewise
        return None


def check_whole_body(drawn: dict[str, Any], fitted: Fitted, input_tokens: int) -> None:
    """Check that a body is within its limit, and that each given item is sent or left out for a reason."""
    body, decision = drawn["body"], fitted.decision
    assert input_tokens <= fitted.used_tokens <= drawn["limit_tokens"] - drawn["answer_tokens"]
    outcomes = {entry.id: entry.outcome for entry in decision.candidates}
    counted, tools = read_chat(body).counted, [*functions(body)]
    names = [f"tools/{(each.get('function') or each.get('toolSpec') or each)['name']}" for each in tools]
    artifacts = [artifact["id"] for artifact in drawn["artifacts"] or ()]
    chat = [*(f"messages/{index}" for index in range(len(counted) - 1)), "new_message"]
    assert sorted(entry.id for entry in decision.candidates) == sorted([*artifacts, *chat, *names])
    assert decision.candidates_selected == len(decision.candidates) - sum(
        reason.count for reason in decision.reasons
    )
    selected = [tool for tool, name in zip(tools, names, strict=True) if outcomes[name] == "selected"]
    assert [*functions(fitted.body)] == selected
    kept = [each for each, name in zip(counted, chat, strict=True) if outcomes[name] == "selected"]
    assert {source for source in fitted.sources if source is not None} == {
        piece.item for each in kept for piece in each.pieces
    } - {-1}
    assert len(fitted.body[shape_of(body)]) == len(fitted.sources)


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_whole_body_exceeds_its_limit_by_the_models_own_count(model: str, data: st.DataObject) -> None:
    drawn = data.draw(bodies(model))
    if (fitted := fitted_request(drawn)) is not None:
        check_whole_body(drawn, fitted, body_tokens(fitted.body, model))
