"""Chats that are fitted for a model: their limit, their count, and the marks of its provider's cache."""

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from pydantic import TypeAdapter
from support.provider_bodies import CLAUDE, body_tokens

from apportion import COUNTERS, FitError, FitOptions, Fitted, LocalSessions, builtin_models, fit
from apportion.core.models import Models
from apportion.doors.fitting.call_model import warn_of_mismatch

TEXT = "def f(x):\n    return x * 2  # some code\n" * 30
OWN: dict[str, Any] = {"type": "ephemeral"}
OURS: dict[str, Any] = {"type": "ephemeral", "ttl": "5m"}


def turns(number: int) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [{"role": roles[index % 2], "content": f"{index} {TEXT}"} for index in range(2 * number + 1)]


def marks_of(body: dict[str, Any], name: str = "cache_control") -> list[tuple[int, Any]]:
    """Return the marks of messages, with their positions; of the system prompt at -1."""
    contents = [(-1, body.get("system") or ()), *enumerate(each["content"] for each in body["messages"])]
    return [
        (position, block[name])
        for position, content in contents
        if isinstance(content, list | tuple)
        for block in content
        if name in block
    ]


@pytest.mark.parametrize("limit", [4_000, 16_000, 40_000])
def test_a_limit_is_nearly_filled_and_never_exceeded_by_the_models_own_count(limit: int) -> None:
    body: dict[str, Any] = {"model": CLAUDE, "system": "Be brief.", "messages": turns(60)}
    call = {"type": "tool_use", "id": "c", "name": "edit", "input": {"path": "a.py", "text": TEXT}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": TEXT}
    body["messages"][-2:-2] = [{"role": "user", "content": "Edit."}, {"role": "assistant", "content": [call]}]
    body["messages"].insert(-2, {"role": "user", "content": [result]})
    fitted = fit(body, limit, options=FitOptions(continues=False))
    assert 0.9 * limit < body_tokens(fitted.body) <= fitted.used_tokens <= limit
    assert fitted.decision.model == builtin_models().row(CLAUDE, "$").ref


def test_without_a_limit_it_is_the_window_less_the_answer_and_tools_count() -> None:
    row = builtin_models().row(CLAUDE, "$")
    body: dict[str, Any] = {"model": CLAUDE, "messages": turns(1)}
    tools = [{"name": "f", "description": TEXT, "input_schema": {"type": "object"}}]
    fits = [fit({**body, **more}) for more in ({}, {"max_tokens": 1_000}, {"tools": tools})]
    assert fits[0].limit_tokens == fits[2].limit_tokens == row.window_tokens - row.answer_tokens
    assert fits[1].limit_tokens == row.window_tokens - 1_000
    assert fits[2].used_tokens - fits[0].used_tokens > COUNTERS["claude-4.7"].count(TEXT)
    with pytest.raises(FitError, match=r"name the limit, or a model .* \(at \$\.limit_tokens\)$"):
        fit(turns(1))


def test_a_named_model_needs_a_row_and_a_models_name_in_a_body_does_not() -> None:
    with pytest.raises(FitError, match=r"^unknown_model: .*nearest are claude-.* \(at \$\.model\)$"):
        fit(turns(1), 4_000, model="claude")
    other = fit({"model": "claude", "messages": turns(1)}, 4_000)
    assert (other.decision.counter.name, other.decision.model) == ("o200k_base", UNSET)


def test_a_chat_of_a_provider_that_counts_otherwise_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_mismatch.cache_clear()
    body = {"system": "Be brief.", "messages": turns(1)}
    decisions = [fit(body, 4_000, model=model).decision for model in (None, None, CLAUDE)]
    assert [decision.counter_mismatch for decision in decisions] == [True, True, False]
    told = [record for record in caplog.records if "counter_mismatch" in record.message]
    assert len(told) == 1
    assert not fit(turns(1), 4_000).decision.counter_mismatch


def played(model: str, *bodies: dict[str, Any], **options: Any) -> list[Fitted]:
    sessions = LocalSessions()
    limit = 9_000
    return [
        fit({"model": model, **body}, limit, session_id="s", client=sessions, options=FitOptions(**options))
        for body in bodies
    ]


def test_a_session_has_marks_at_its_breakpoints_and_a_single_call_has_none() -> None:
    system = TEXT * 8
    first, second = played(CLAUDE, *({"system": system, "messages": turns(n)} for n in (12, 13)))
    assert marks_of(first.body)[0] == (-1, OURS)
    assert {mark["ttl"] for _, mark in marks_of(second.body)} == {"5m"}
    ends = [position for position, _ in marks_of(first.body)]
    assert ends[-1] in [position for position, _ in marks_of(second.body)], "what was written is read"
    assert marks_of(fit({"model": CLAUDE, "system": system, "messages": turns(12)}, 9_000).body) == []


def test_marks_of_the_caller_stay_and_count_and_no_time_to_live_rises() -> None:
    tools = [{"name": f"t{number}", "cache_control": OWN} for number in range(2)]
    messages = turns(12)
    long_lived = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    messages[-1]["content"] = [long_lived]
    fitted = played(CLAUDE, {"system": TEXT * 8, "tools": tools, "messages": messages})[0]
    marks = marks_of(fitted.body)
    assert len(marks) + len(tools) == 4
    assert marks[-1] == (len(fitted.messages) - 1, long_lived["cache_control"])
    own = played(CLAUDE, {"system": TEXT * 8, "tools": [*tools, *tools], "messages": turns(12)})[0]
    assert marks_of(own.body) == []


def test_a_body_has_at_most_the_marks_of_its_models_row() -> None:
    row = builtin_models().row(CLAUDE, "$")
    assert row.cache is not None
    body = {"model": CLAUDE, "system": TEXT * 8, "messages": turns(12)}
    for marks in (0, 1, 2):
        models = Models((replace(row, cache=replace(row.cache, marks=marks)),))
        fitted = fit(body, 9_000, session_id="s", client=LocalSessions(models=models))
        assert len(marks_of(fitted.body)) == marks


def test_openai_gets_breakpoints_where_only_these_match_and_a_key_of_the_session() -> None:
    completions = pytest.importorskip("openai.types.chat.completion_create_params")
    bodies = [{"messages": [{"role": "system", "content": TEXT * 8}, *turns(n)]} for n in (12, 13)]
    new, old = (played(model, *bodies) for model in ("gpt-5.6-sol", "gpt-4o"))
    for fitted in (*new, *old):
        TypeAdapter(completions.CompletionCreateParamsNonStreaming).validate_python(fitted.body)
        assert len(fitted.body["prompt_cache_key"]) == 32
    assert [marks_of(fitted.body, "prompt_cache_breakpoint") for fitted in old] == [[], []]
    ends = [[at for at, _ in marks_of(fitted.body, "prompt_cache_breakpoint")] for fitted in new]
    assert set(ends[0][-1:]) <= set(ends[1])
    assert all(new[0].messages[at]["role"] != "assistant" for at in ends[0])
    assert [fitted.body.get("prompt_cache_options") for fitted in (new[0], old[0])] == [
        {"mode": "explicit", "ttl": "30m"},
        None,
    ]


def test_responses_that_would_be_cut_by_the_provider_are_refused() -> None:
    with pytest.raises(FitError, match=r"invalid_value: .* set it to disabled \(at \$\.truncation\)$"):
        fit({"input": "Hello", "truncation": "auto"}, 4_000)


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("system", {"model": CLAUDE, "messages": turns(0)}),
        ("instructions", {"model": "gpt-4o", "input": "Hello"}),
    ],
)
def test_a_blank_system_prompt_is_left_out_and_not_sent_uncounted(field: str, body: dict[str, Any]) -> None:
    assert field not in fit({**body, field: "\n" * 9_000}, 4_000).body
    assert field in fit({**body, field: "Be brief."}, 4_000).body


def test_a_mark_at_the_top_of_a_body_counts_and_no_time_to_live_rises_before_it() -> None:
    body = {"system": TEXT * 8, "messages": turns(12)}
    top = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    tools = [{"name": f"t{number}", "cache_control": {**OWN, "ttl": "1h"}} for number in range(2)]
    fitted = played(CLAUDE, {**body, **top, "tools": tools})[0]
    assert [mark["ttl"] for _, mark in marks_of(fitted.body)] == ["1h"]


def test_a_model_in_a_body_whose_counter_is_not_installed_is_a_mismatch() -> None:
    sessions = LocalSessions(counters={"o200k_base": COUNTERS["o200k_base"]})
    body = {"model": CLAUDE, "messages": [{"role": "system", "content": "s"}, *turns(1)]}
    decision = fit(body, 4_000, client=sessions).decision
    assert (decision.counter.name, decision.counter_mismatch) == ("o200k_base", True)


def test_a_lone_surrogate_in_an_artifact_becomes_a_replacement_character() -> None:
    fitted = fit(turns(0), 4_000, artifacts=[{"content": "\ud800 found"}])
    assert "\ufffd found" in str(fitted.messages)


def test_without_a_known_greatest_answer_a_window_is_no_limit() -> None:
    with pytest.raises(FitError, match=r"no greatest answer of this model; name the limit"):
        fit({"model": "gpt-4", "messages": turns(0)})
    assert fit({"model": "gpt-4", "messages": turns(0), "max_tokens": 1_000}).limit_tokens == 8_192 - 1_000


def test_old_results_stay_if_the_body_lets_the_provider_clear_them() -> None:
    messages = turns(0)
    for number in range(12):
        call = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"{number} {TEXT}"}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    body = {"model": CLAUDE, "messages": messages}
    edits = {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}
    forms = [
        {entry.fidelity for entry in fit({**body, **more}, 3_000).decision.candidates} for more in ({}, edits)
    ]
    assert "cleared" in forms[0]
    assert "cleared" not in forms[1]
