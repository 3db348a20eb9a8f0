"""Pydantic AI's hook: runs of an agent with the framework's own model of a function."""

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent, RunContext
from pydantic_ai.messages import (
    CachePoint,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SpeechPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from support.hooked import LIMIT_TOKENS, LONG, QUESTIONS, Recorder, count

from apportion import FitError
from apportion.doors.fitting.steps import OMITTED
from apportion.integrations.pydantic_ai import FitHistory

pytestmark = pytest.mark.asyncio

INSTRUCTIONS = "Answer briefly."
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (100).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0" + b"\0" * 2000


class ScriptedModel:
    """The function of a model: in turn an answer with two calls of a tool, and one without."""

    def __init__(self) -> None:
        """Start without calls."""
        self.sent: list[list[ModelMessage]] = []
        self.instructions: list[str | None] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Return the next answer."""
        self.sent.append(list(messages))
        self.instructions.append(info.instructions)
        turn = len(self.sent)
        if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
            return ModelResponse([TextPart(f"Answer {turn}. {'So it is. ' * 12}")])
        calls = [ToolCallPart("look_up", {"name": name}, f"{name}{turn}") for name in "ab"]
        return ModelResponse([ThinkingPart("I look."), *calls])


def agent(
    recorder: Recorder, *, limit_tokens: int = LIMIT_TOKENS, **changes: Any
) -> tuple[Agent[None, str], ScriptedModel]:
    """Return an agent with the hook, and its model."""
    model, hook = ScriptedModel(), FitHistory(limit_tokens, **recorder.settings)
    made = Agent(FunctionModel(model), instructions=INSTRUCTIONS, capabilities=[hook], **changes)

    @made.tool_plain
    def look_up(name: str) -> str:
        """Look something up."""
        return f"{name}: {LONG}"

    return made, model


def texts(messages: list[ModelMessage]) -> list[str]:
    """Return the texts of messages."""
    contents = [getattr(part, "content", None) for message in messages for part in message.parts]
    return [content for content in contents if isinstance(content, str)]


async def chat(made: Agent[None, str]) -> list[ModelMessage]:
    """Return the messages of a long chat."""
    history: list[ModelMessage] = []
    for question in QUESTIONS:
        run = await made.run(question, message_history=history, conversation_id="c1")
        history = run.all_messages()
    return history


async def test_every_call_of_a_long_chat_fits_and_verifies_and_the_history_keeps_all_messages() -> None:
    recorder = Recorder()
    made, model = agent(recorder, system_prompt="Be kind.")
    history = await chat(made)
    assert len(history) == len(QUESTIONS) * 4
    assert len(model.sent) == len(QUESTIONS) * 2
    assert set(model.instructions) == {INSTRUCTIONS}
    for messages in model.sent:
        assert count([INSTRUCTIONS, *texts(messages)]) <= LIMIT_TOKENS
        assert texts(messages)[0] == "Be kind."
        parts = [part for message in messages for part in message.parts]
        called = [part.tool_call_id for part in parts if isinstance(part, ToolCallPart)]
        assert called == [part.tool_call_id for part in parts if isinstance(part, ToolReturnPart)]
    recorder.require_verified()
    assert set(recorder.sessions) == {"c1"}


async def test_the_beginning_stays_for_the_cache_of_a_provider_from_turn_to_turn() -> None:
    made, model = agent(Recorder(), limit_tokens=3000)
    await chat(made)
    sent = [texts(messages) for messages in model.sent]
    pairs = list(pairwise(sent))
    assert sum(later[: len(earlier)] == earlier for earlier, later in pairs) > len(pairs) * 2 / 3
    assert sent[-1][0] != sent[0][0]


async def test_streamed_calls_are_fitted_too() -> None:
    async def answers(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[str]:
        sent.append(texts(messages))
        yield "It is so."

    recorder, sent = Recorder(), list[list[str]]()
    hook = FitHistory(LIMIT_TOKENS, **recorder.settings)
    made = Agent(FunctionModel(stream_function=answers), capabilities=[hook])
    history: list[ModelMessage] = [
        ModelRequest([UserPromptPart(LONG * 4)]),
        ModelResponse([TextPart("Yes.")]),
    ]
    async with made.run_stream("Is it so?", message_history=history) as run:
        assert await run.get_output() == "It is so."
    [[shortened, *others]] = sent
    assert "tokens omitted" in shortened
    assert others == ["Yes.", "Is it so?"]


async def test_a_run_without_history_is_a_separate_conversation() -> None:
    recorder = Recorder()
    made, _ = agent(recorder)
    conversations = [(await made.run("Is it so?")).conversation_id for _ in range(2)]
    assert recorder.sessions == [name for name in conversations for _ in range(2)]
    assert len(set(conversations)) == 2


async def test_a_given_function_names_the_session() -> None:
    recorder = Recorder()
    hook = FitHistory(LIMIT_TOKENS, session_id=lambda ctx: ctx.deps, **recorder.settings)
    made = Agent(FunctionModel(ScriptedModel()), deps_type=str, capabilities=[hook])

    @made.tool_plain
    def look_up(name: str) -> str:
        return name

    await made.run("Is it so?", deps="user-7")
    assert set(recorder.sessions) == {"user-7"}


def results(*outputs: str) -> list[ModelMessage]:
    """Return a history with a call and its result for each output."""
    history: list[ModelMessage] = []
    for index, output in enumerate(outputs):
        history += [
            ModelRequest([UserPromptPart(f"Find {index}.")]),
            ModelResponse([ToolCallPart("look_up", {"name": "a"}, str(index))]),
            ModelRequest([ToolReturnPart("look_up", output, str(index), metadata="own")]),
            ModelResponse([TextPart("Found.")]),
        ]
    return history


async def test_an_old_result_is_sent_cleared_and_stays_in_the_history() -> None:
    recorder = Recorder()
    made, model = agent(recorder)
    run = await made.run("Again?", message_history=results(LONG * 12, "No.", "No.", "No."))
    [cleared] = model.sent[0][2].parts
    assert isinstance(cleared, ToolReturnPart)
    assert (cleared.content, cleared.metadata) == ("[result of look_up cleared, 1801 tokens]", "own")
    assert texts(run.all_messages())[1] == LONG * 12
    recorder.require_verified()


async def test_an_answer_without_its_question_follows_an_omission_note() -> None:
    made, model = agent(Recorder())
    history: list[ModelMessage] = [ModelRequest([UserPromptPart("Find all.")])]
    for name in map(str, range(30)):
        history.append(ModelResponse([ToolCallPart("look_up", {"name": "a"}, name)]))
        history.append(ModelRequest([ToolReturnPart("look_up", LONG, name)]))
    await made.run("Really?", message_history=history)
    assert texts(model.sent[0])[0] == OMITTED
    assert isinstance(model.sent[0][1], ModelResponse)


async def test_a_failed_result_counts_as_the_text_for_the_model() -> None:
    recorder = Recorder()
    made, model = agent(recorder)
    retried: list[ModelMessage] = [
        ModelRequest([UserPromptPart("Try.")]),
        ModelResponse([ToolCallPart("fails", {}, "f")]),
        ModelRequest([ToolReturnPart("fails", "Not so.", "f", outcome="retried")]),
        ModelResponse([TextPart("It failed.")]),
    ]
    await made.run("Again?", message_history=retried)
    assert model.sent[0][:4] == retried
    recorder.require_verified()


async def test_files_speech_and_parts_of_native_tools_are_sent_as_they_came() -> None:
    recorder = Recorder()
    made, model = agent(recorder, limit_tokens=16000)
    picture = BinaryContent(PNG, media_type="image/png")
    history: list[ModelMessage] = [
        ModelRequest([UserPromptPart(["A picture.", ImageUrl("https://localhost/a.png"), picture])]),
        ModelResponse([ThinkingPart("I look.", signature="s"), ToolCallPart("look_up", {"name": "a"}, "a")]),
        ModelRequest([ToolReturnPart("look_up", ["See:", picture], "a")]),
        ModelResponse(
            [
                NativeToolCallPart("web_search", {"query": "a"}, "b"),
                NativeToolReturnPart("web_search", {"found": [1]}, "b"),
                FilePart(picture),
                SpeechPart(speaker="assistant", transcript="Here."),
            ]
        ),
        ModelRequest(
            [SpeechPart(speaker="user", transcript="Hi.", audio=BinaryContent(b"a", media_type="audio/wav"))]
        ),
    ]
    await made.run("Again?", message_history=history)
    assert len(model.sent[0]) == 5
    assert model.sent[0][:3] == history[:3]
    assert list(model.sent[0][3].parts[:3]) == list(history[3].parts[:3])  # speech becomes text
    pictures = 3 * (100 * 100 // 28**2)
    assert 2000 + 1000 + pictures < recorder.fitted[0].used_tokens < 3500 + pictures
    recorder.require_verified()


async def test_old_images_and_a_long_prompt_are_rewritten_in_their_parts() -> None:
    recorder = Recorder()
    made, model = agent(recorder, limit_tokens=7000)
    images = [ImageUrl(f"https://localhost/{index}.png") for index in range(6)]
    history: list[ModelMessage] = [
        ModelRequest([UserPromptPart([f"See {image.url}", image])]) for image in images
    ]
    history.append(ModelRequest([ToolReturnPart("look_up", ["See:", images[0]], "a")]))
    history.insert(-1, ModelResponse([ToolCallPart("look_up", {"name": "a"}, "a")]))
    await made.run("Again?", message_history=history)
    [part] = model.sent[0][0].parts[:1]
    assert isinstance(part, UserPromptPart)
    assert part.content == [f"See {images[0].url}", "[image cleared, 2000 tokens]"]
    recorder.require_verified()


async def test_a_run_inside_of_a_run_of_the_same_conversation_has_a_session_of_its_own() -> None:
    recorder = Recorder()
    sub, _ = agent(recorder, name="sub")
    lead = Agent(TestModel(), capabilities=[FitHistory(LIMIT_TOKENS, **recorder.settings)])

    @lead.tool
    async def delegate(ctx: RunContext[None], topic: str) -> str:
        return (await sub.run(topic, conversation_id=ctx.conversation_id)).output

    await lead.run("Find a.", conversation_id="c1")
    assert recorder.sessions == ["c1", "c1/sub", "c1/sub", "c1"]


async def test_parts_of_a_message_that_are_text_are_sent_as_they_came() -> None:
    recorder = Recorder()
    made, model = agent(recorder)
    await made.run(["Is it so?", CachePoint(), TextContent("Really?", metadata="own")])
    [part] = model.sent[0][0].parts
    assert isinstance(part, UserPromptPart)
    assert len(part.content) == 3
    recorder.require_verified()


@pytest.mark.parametrize(
    ("prompt", "history", "code", "pointer"),
    [
        (["A picture.", ImageUrl("https://localhost/a.png")], [], "infeasible", "$.limit_tokens"),
    ],
)
async def test_an_unfittable_chat_is_an_error_and_reaches_no_model(
    prompt: Any, history: list[ModelMessage], code: str, pointer: str
) -> None:
    made, model = agent(Recorder())
    with pytest.raises(FitError) as raised:
        await made.run(prompt, message_history=history)
    assert (raised.value.code, raised.value.pointer) == (code, pointer)
    assert model.sent == []


async def test_a_run_without_a_prompt_keeps_its_empty_request() -> None:
    made, model = agent(Recorder())
    history: list[ModelMessage] = [ModelRequest([UserPromptPart("Hi?")]), ModelResponse([TextPart("Hi.")])]
    await made.run(None, message_history=history, conversation_id="c1")
    assert model.sent[0][-1].parts == []
