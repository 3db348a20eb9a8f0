"""Strategy request against a slow and simple one, which asks `lanes` and `conversation` in their rooms."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.asking import asked
from support.composing import ENGINE, answer
from support.drawn_conversations import histories, messages, texts
from support.drawn_lanes import candidates, constraints, lacking, tables
from support.request_model import RequestModel

from apportion.core.compose import Answered
from apportion.core.engine import Engine
from apportion.core.models import Frame, Model, Models, Scale
from apportion.core.strategies import parse_policy

WORDS = ("create", "issue", "listBranches", "file", "payment", "searched", "漢字")
FRAMED = Model(
    name="framed",
    names=("framed",),
    provider="test",
    counter="chars4",
    frame=Frame(request=3, message=5, call=2, result=1, tool=4, tools=9),
    scale=Scale(text=1_300, json=1_700, media=1_100),
)
SCALED = Model(name="scaled", names=("scaled",), provider="test", counter="chars4", scale=Scale(text=900))
WITH_MODELS = Engine(ENGINE.version, ENGINE.counters, ENGINE.secrets, models=Models((FRAMED, SCALED)))

_parameters = st.dictionaries(
    st.sampled_from([*WORDS, "description"]), st.just({}) | st.just({"description": "A note."}), max_size=5
)
_words = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


@st.composite
def tools(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return definitions with different names."""
    return [
        {
            "name": f"{draw(st.sampled_from(WORDS[:-1]))}_{index}" if index else "f",
            "description": draw(_words | _words.map("Twenty letters or more. {}".format)),
            "input_schema": {"properties": draw(_parameters)},
        }
        for index in range(draw(st.integers(0, 6)))
    ]


@st.composite
def requests(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a request, and the tables of its policy."""
    table = draw(tables())
    response = draw(st.integers(0, 20))
    fields: dict[str, Any] = {
        "conversation": {
            "system_prompt": draw(texts),
            "messages": draw(histories),
            "new_message": draw(messages | texts),
            "pinned_in_place": True,
        },
        "budget_tokens": draw(st.integers(30, 300) | st.just(2_000)) + response,
        "response_tokens": response,
    }
    if given := draw(tools()):
        fields["tools"] = given
        if draw(st.booleans()):
            fields["tool_choice"] = {"type": "tool", "name": draw(st.sampled_from(given))["name"]}
    if draw(st.booleans()):
        fields["candidates"] = lacking(draw(candidates()), table)
        fields["constraints"] = draw(constraints)
        if draw(st.booleans()):
            fields["material_tokens"] = draw(st.integers(0, 200))
    if draw(st.booleans()):
        fields["query"] = draw(_words)
    history: dict[str, Any] = {"message_overhead_tokens": draw(st.sampled_from([1, 4]))}
    if draw(st.booleans()):
        history["tool_results"] = {"keep": 1, "clear_at_least": 0}
    if draw(st.booleans()):
        history["shorten"] = {"message_tokens": 12_500, "newest_tokens": 50_000}
    policy = {
        "tools": {"max_tokens": draw(st.integers(0, 200)), "keep_called": draw(st.integers(0, 2))}
        | draw(st.sampled_from([{}, {"shorten": True}])),
        "material": {**table, "share": draw(st.sampled_from([0, 250, 1_000]))},
        "history": history,
    }
    # no lane has the name of another group
    mended: tuple[dict[str, Any], dict[str, Any]] = json.loads(
        json.dumps((fields, policy))
        .replace('"history"', '"past"')
        .replace('"past": {"message_overhead', '"history": {"message_overhead')
    )
    return mended


def composed(fields: dict[str, Any], tables: dict[str, Any], model: Model | None) -> Answered:
    raw = {"name": "test", "version": "1", "strategy": "request", "counter": "chars4", **tables}
    named = {}
    if model is not None:
        raw["counter"], named["model"] = "model", model.name
    return answer(asked(**fields, **named), parse_policy(raw), engine=WITH_MODELS)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests(), st.sampled_from([None, FRAMED, SCALED]))
def test_each_part_is_as_alone_in_the_room_that_the_rules_give_it(
    drawn: tuple[dict[str, Any], dict[str, Any]], model: Model | None
) -> None:
    fields, tables = drawn
    outcome = composed(fields, tables, model)
    expected = RequestModel(fields, {**tables, "counter": "chars4"}, model, WITH_MODELS)
    decision, sent = outcome.decision, outcome.composed
    given = len(fields.get("tools", [])) + len(fields["conversation"]["messages"]) + 1
    given += bool(fields["conversation"]["system_prompt"]) + len(fields.get("candidates", []))
    assert decision.candidates_total == given
    if expected.history is None:
        assert decision.status == "infeasible"
        assert not sent.items
        assert {entry.reason for entry in decision.candidates} <= {
            "infeasible",
            "unsuitable",
            "no_content",
            "duplicate",
            "superseded",
            "excluded_by_policy",
        }
        return
    assert list(sent.tools or ()) == [expected.sent_tools[name] for name in expected.chosen]
    assert sent.system_prompt == expected.history.composed.system_prompt
    messages = list(expected.history.composed.messages or ())
    used = expected.history.composed.tokens.used
    used += sum(expected.costs[name] for name in expected.chosen)
    used += expected.frame.tools if expected.chosen else 0
    if expected.material is not None:
        used += expected.material.tokens
        if expected.material.answer.composed.items:
            users = [index for index, message in enumerate(messages) if message["role"] == "user"]
            others = [
                i for i, message in enumerate(messages) if message["role"] not in ("system", "developer")
            ]
            text = expected.material.answer.composed.text
            messages.insert(
                users[-1] if users else [*others, len(messages)][0], {"role": "user", "content": text}
            )
    assert list(sent.messages or ()) == messages
    assert sent.tokens.used == used == sum(part.used for part in decision.parts)
    assert used <= fields["budget_tokens"] - fields["response_tokens"]
    assert len(sent.items) == decision.candidates_selected
