"""The hook for the OpenAI Agents SDK: runs of an agent with the SDK's own scripted model."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool
from agents.run_config import CallModelData, ModelInputData
from agents.testing import ScriptedModel, assistant_message, function_call
from support.hooked import LIMIT_TOKENS, LONG, QUESTIONS, Recorder, count

from apportion import FitError
from apportion.doors.fitting.steps import OMITTED
from apportion.integrations.openai_agents import FitFilter

pytestmark = pytest.mark.asyncio

PROMPT = "Answer briefly."
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque " * 20}


@function_tool
def look_up(name: str) -> str:
    """Look something up."""
    return f"{name}: {LONG}"


def agent(turns: int = 100) -> tuple[Agent[Any], ScriptedModel]:
    """Return an agent, and its model: in turn an answer with two calls of a tool, and one without."""
    script = []
    for turn in range(turns):
        script.append([function_call("look_up", {"name": name}, call_id=f"{name}{turn}") for name in "ab"])
        script.append([assistant_message(f"Answer {turn}. {'So it is. ' * 12}")])
    model = ScriptedModel(script)
    return Agent(name="helper", instructions=PROMPT, model=model, tools=[look_up]), model


def text_of(item: Any) -> str:
    """Return the text of an item."""
    content = item.get("content", item.get("output", ""))
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


async def filtered(
    items: Sequence[dict[str, Any]], recorder: Recorder, limit_tokens: int = LIMIT_TOKENS
) -> list[Any]:
    """Return the items that the filter sends."""
    data: Any = ModelInputData(list(items), PROMPT)  # type: ignore[arg-type]
    chosen = FitFilter(limit_tokens, "s1", **recorder.settings)
    sent = await chosen(CallModelData(data, Agent(name="helper"), None))
    assert sent.instructions == PROMPT
    return list(sent.input)


def call(name: str) -> dict[str, Any]:
    """Return a call of a tool."""
    return {"type": "function_call", "call_id": name, "name": "look_up", "arguments": "{}"}


def result(name: str, output: str) -> dict[str, Any]:
    """Return the result of a call."""
    return {"type": "function_call_output", "call_id": name, "output": output}


def user(text: str) -> dict[str, Any]:
    """Return a message of the user."""
    return {"role": "user", "content": text}


async def test_every_call_of_a_long_chat_fits_and_verifies_and_the_session_keeps_all_items() -> None:
    recorder, session = Recorder(), SQLiteSession("s1")
    helper, model = agent()
    config = RunConfig(
        call_model_input_filter=FitFilter(LIMIT_TOKENS, session.session_id, **recorder.settings)
    )
    for question in QUESTIONS:
        await Runner.run(helper, question, session=session, run_config=config)
    assert len(await session.get_items()) == len(QUESTIONS) * 6
    assert len(model.calls) == len(QUESTIONS) * 2
    for made in model.calls:
        assert made.system_instructions == PROMPT
        assert not isinstance(made.input, str)
        items: list[Any] = list(made.input)
        assert count([PROMPT, *map(text_of, items)]) <= LIMIT_TOKENS
        called = [item["call_id"] for item in items if item.get("type") == "function_call"]
        assert called == [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    recorder.require_verified()
    assert set(recorder.sessions) == {"s1"}
    session.close()


async def test_the_beginning_stays_for_the_cache_of_the_provider_from_turn_to_turn() -> None:
    recorder, session = Recorder(), SQLiteSession("s1")
    helper, model = agent()
    config = RunConfig(call_model_input_filter=FitFilter(3000, session.session_id, **recorder.settings))
    for question in QUESTIONS:
        await Runner.run(helper, question, session=session, run_config=config)
    pairs = list(pairwise([list(made.input) for made in model.calls]))
    assert sum(later[: len(sent)] == sent for sent, later in pairs) > len(pairs) * 2 / 3
    assert len(model.calls[-1].input) < 6 * len(QUESTIONS)
    session.close()


async def test_streamed_calls_are_fitted_too() -> None:
    recorder = Recorder()
    helper, _ = agent()
    config = RunConfig(call_model_input_filter=FitFilter(LIMIT_TOKENS, "s1", **recorder.settings))
    run = Runner.run_streamed(helper, "Is it so?", run_config=config)
    assert [event async for event in run.stream_events()]
    assert len(recorder.fitted) == 2


async def test_the_session_is_found_in_the_context_of_a_run() -> None:
    recorder = Recorder()
    helper, _ = agent()
    chosen = FitFilter(LIMIT_TOKENS, lambda data: str(data.context), **recorder.settings)
    config = RunConfig(call_model_input_filter=chosen)
    await Runner.run(helper, "Is it so?", context="c1", run_config=config)
    assert recorder.sessions == ["c1", "c1"]


async def test_a_response_stays_whole_with_its_reasoning_calls_and_results() -> None:
    response: list[dict[str, Any]] = [
        REASONING,
        {"role": "assistant", "content": "I look."},
        call("a"),
        call("b"),
    ]
    results = [result("a", "1"), result("b", "2")]
    items = [user("Find a and b."), *response, *results, user("Again?")]
    recorder, found = Recorder(), []
    for limit_tokens in range(100, 220, 10):
        sent = await filtered([user(LONG * 4), *items], recorder, limit_tokens)
        found.append([item for item in sent if item in (*response, *results)])
        assert sent[-1] == items[-1]
    assert all(kept in ([], [*response, *results]) for kept in found)
    assert found[0] != found[-1]
    recorder.require_verified()


async def test_an_old_result_is_sent_cleared_and_keeps_its_other_fields() -> None:
    items: list[dict[str, Any]] = []
    for name, output in (("a", LONG * 12), ("b", "No."), ("c", "No."), ("d", "No.")):
        items += [user(f"Find {name}."), call(name), {**result(name, output), "id": f"o_{name}"}]
    recorder = Recorder()
    sent = await filtered([*items, user("Again?")], recorder)
    assert sent[2] == {**items[2], "output": "[result of look_up cleared, 1801 tokens]"}
    assert sent[3:] == [*items[3:], user("Again?")]
    recorder.require_verified()


async def test_an_answer_without_its_question_follows_an_omission_note() -> None:
    pairs = [item for turn in range(30) for item in (call(str(turn)), result(str(turn), LONG))]
    sent = await filtered([user("Find all."), *pairs, user("Really?")], Recorder())
    assert (sent[0], sent[1]["type"], sent[-1]) == (user(OMITTED), "function_call", user("Really?"))


async def test_items_of_all_types_are_sent_as_they_came() -> None:
    image = {"type": "input_image", "image_url": "https://localhost/a.png", "detail": "auto"}
    shot = {"type": "computer_screenshot", "image_url": "data:image/png;base64," + "A" * 2000}
    items: list[dict[str, Any]] = [
        {"role": "user", "content": [image]},
        {"type": "compaction", "encrypted_content": "opaque"},
        {"type": "shell_call", "call_id": "a", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "a", "output": [{"stdout": "a", "stderr": ""}]},
        {"type": "apply_patch_call", "call_id": "b", "operation": {"type": "delete_file", "path": "a"}},
        {"type": "apply_patch_call_output", "call_id": "b", "status": "completed", "output": "Done."},
        {"type": "computer_call", "call_id": "c", "action": {"type": "screenshot"}},
        {"type": "computer_call_output", "call_id": "c", "output": shot},
        {"type": "mcp_approval_request", "id": "d", "name": "act", "arguments": "{}", "server_label": "s"},
        {"type": "mcp_approval_response", "approval_request_id": "d", "approve": True},
        {"type": "image_generation_call", "id": "e", "result": "A" * 2000},
        {"type": "item_reference", "id": "msg_1"},
        user("Again?"),
    ]
    recorder = Recorder()
    assert await filtered(items, recorder, 16000) == items
    recorder.require_verified()


async def test_an_agent_that_runs_as_a_tool_has_a_session_of_its_own() -> None:
    recorder, (helper, _) = Recorder(), agent()
    script = [[function_call("ask", {"input": "Is it so?"}, call_id="a")], [assistant_message("Done.")]]
    ask = helper.as_tool("ask", "Ask the helper.")
    lead = Agent(name="lead", model=ScriptedModel(script), tools=[ask])
    config = RunConfig(call_model_input_filter=FitFilter(LIMIT_TOKENS, "s1", **recorder.settings))
    await Runner.run(lead, "Ask.", run_config=config)
    assert recorder.sessions == ["s1", "s1/helper", "s1/helper", "s1"]


@pytest.mark.parametrize(
    ("item", "code", "pointer"),
    [
        (result("", "of no call"), "missing_field", "$.input[1].call_id"),
        (result("a", "without a call"), "invalid_value", "$.input[1]"),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": "https://localhost/a.png"}]},
            "infeasible",
            "$.limit_tokens",
        ),
    ],
)
async def test_an_unfittable_chat_is_an_error_with_its_place(
    item: dict[str, Any], code: str, pointer: str
) -> None:
    with pytest.raises(FitError) as raised:
        await filtered([user("Is it so?"), item], Recorder())
    assert (raised.value.code, raised.value.pointer) == (code, pointer)


async def test_an_error_ends_the_run_before_the_model_is_called() -> None:
    helper, model = agent()
    helper.instructions = LONG * 9
    config = RunConfig(call_model_input_filter=FitFilter(LIMIT_TOKENS, "s1"))
    with pytest.raises(FitError, match="infeasible"):
        await Runner.run(helper, "Is it so?", run_config=config)
    assert model.calls == ()
