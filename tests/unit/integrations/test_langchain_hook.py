"""LangChain's hook: agents of `create_agent` with a model that answers by a script."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from support.hooked import LIMIT_TOKENS, LONG, QUESTIONS, Recorder, count

from apportion import FitError
from apportion.doors.fitting.steps import OMITTED
from apportion.integrations.langchain import FitMiddleware

PROMPT = "Answer briefly."
IMAGE = {"type": "image_url", "image_url": {"url": "https://localhost/a.png"}}


class ScriptedModel(GenericFakeChatModel):
    """LangChain's own fake model, which also accepts tools and records its inputs."""

    sent: list[list[BaseMessage]]

    def bind_tools(self, tools: Any, **_: Any) -> Any:  # noqa: ARG002 - of the framework
        """Return the model: its script says which tools it calls."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **changes: Any) -> ChatResult:
        self.sent.append(messages)
        return super()._generate(messages, *args, **changes)


@tool
def look_up(name: str) -> str:
    """Look something up."""
    return f"{name}: {LONG}"


def script_of_calls() -> Iterator[AIMessage]:
    """Yield an answer with two calls of a tool, and one without, in turn."""
    for turn in range(100):
        calls = [{"name": "look_up", "args": {"name": name}, "id": f"{name}{turn}"} for name in "ab"]
        yield AIMessage("", tool_calls=calls)
        yield AIMessage(f"Answer {turn}. {'So it is. ' * 12}")


def agent(
    recorder: Recorder,
    *,
    script: Iterator[AIMessage] | None = None,
    limit_tokens: int = LIMIT_TOKENS,
    session_id: Callable[[ModelRequest[Any]], str] | None = None,
) -> tuple[Any, ScriptedModel]:
    """Return an agent with the hook, and its model."""
    model = ScriptedModel(messages=script or script_of_calls(), sent=[])
    hook = FitMiddleware(limit_tokens, session_id=session_id, **recorder.settings)
    made = create_agent(
        model, [look_up], system_prompt=PROMPT, middleware=[hook], checkpointer=InMemorySaver()
    )
    return made, model


def asked(question: Any) -> Any:
    """Return the input of a turn."""
    return {"messages": [HumanMessage(question)]}


def thread(name: str) -> Any:
    """Return the configuration that names a thread."""
    return {"configurable": {"thread_id": name}}


def test_every_call_of_a_long_chat_fits_and_verifies_and_the_state_keeps_all_messages() -> None:
    recorder = Recorder()
    made, model = agent(recorder)
    for question in QUESTIONS:
        state = made.invoke(asked(question), thread("t1"))
    assert len(state["messages"]) == len(QUESTIONS) * 5
    assert sum(len(message.text) for message in state["messages"]) > 10 * LIMIT_TOKENS
    assert len(model.sent) == len(QUESTIONS) * 2
    for messages in model.sent:
        assert messages[0].text == PROMPT
        assert count([message.text for message in messages]) <= LIMIT_TOKENS
        called = [
            call["id"]
            for message in messages
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        ]
        assert called == [message.tool_call_id for message in messages if isinstance(message, ToolMessage)]
    recorder.require_verified()
    assert set(recorder.sessions) == {"t1"}


@pytest.mark.asyncio
async def test_an_asynchronous_agent_sends_the_same_messages() -> None:
    sent = []
    for is_async in (False, True):
        made, model = agent(Recorder())
        for question in QUESTIONS[:4]:
            await made.ainvoke(asked(question), thread("t1")) if is_async else made.invoke(
                asked(question), thread("t1")
            )
        sent.append([[(message.type, message.text) for message in messages] for messages in model.sent])
    assert sent[0] == sent[1]


def test_streamed_calls_are_fitted_too() -> None:
    recorder = Recorder()
    made, _ = agent(recorder)
    assert list(made.stream(asked("Is it so?"), thread("t1")))
    assert len(recorder.fitted) == 2


def test_an_old_result_is_sent_cleared_and_stays_in_the_state() -> None:
    recorder = Recorder()
    made, model = agent(recorder, script=iter([AIMessage("Yes.")]))
    history: list[BaseMessage] = []
    for name, result in (("a", LONG * 12), ("b", "No."), ("c", "No."), ("d", "No.")):
        call = {"name": "look_up", "args": {"name": name}, "id": name}
        history += [
            HumanMessage(f"Find {name}."),
            AIMessage("", tool_calls=[call]),
            ToolMessage(result, tool_call_id=name, artifact="of the tool"),
        ]
    state = made.invoke({"messages": [*history, AIMessage("Done."), HumanMessage("Again?")]}, thread("t1"))
    [messages] = model.sent
    results = [message for message in messages if isinstance(message, ToolMessage)]
    cleared = "[result of look_up cleared, 1801 tokens]"
    assert [result.text for result in results] == [cleared, "No.", "No.", "No."]
    assert results[0].artifact == "of the tool"
    assert state["messages"][2].text == LONG * 12
    recorder.require_verified()


def test_the_beginning_stays_for_the_cache_of_a_provider_from_turn_to_turn() -> None:
    recorder = Recorder()
    made, model = agent(recorder, limit_tokens=3000)
    for question in QUESTIONS:
        made.invoke(asked(question), thread("t1"))
    pairs = list(pairwise(model.sent))
    assert sum(later[: len(sent)] == sent for sent, later in pairs) > len(pairs) * 2 / 3
    assert len(model.sent[-1]) < 1 + 5 * len(QUESTIONS)


def test_an_answer_without_its_question_follows_an_omission_note() -> None:
    made, model = agent(Recorder(), script=iter([AIMessage("Yes.")]))
    history = [HumanMessage("Find all."), *[AIMessage(LONG) for _ in range(20)], HumanMessage("Is it so?")]
    made.invoke({"messages": history}, thread("t1"))
    [messages] = model.sent
    assert [message.text for message in messages[:2]] == [PROMPT, OMITTED]
    assert {message.type for message in messages[2:-1]} == {"ai"}


def test_each_thread_is_a_session_and_a_given_function_names_another() -> None:
    recorder = Recorder()
    for session_id in (None, lambda request: request.messages[0].text):
        made, _ = agent(recorder, session_id=session_id)
        for name in ("t1", "t2"):
            made.invoke(asked("Is it so?"), thread(name))
    assert recorder.sessions == ["t1", "t1", "t2", "t2", *["Is it so?"] * 4]


def test_reasoning_counts_and_is_sent_as_it_came() -> None:
    thinking = {"type": "thinking", "thinking": LONG, "signature": "s"}
    answer = AIMessage([thinking, {"type": "text", "text": "Yes."}])
    recorder = Recorder()
    made, model = agent(recorder, script=iter([answer, AIMessage("No.")]))
    made.invoke(asked("Is it so?"), thread("t1"))
    made.invoke(asked("Really?"), thread("t1"))
    assert model.sent[1][2].content == answer.content
    assert recorder.fitted[1].used_tokens > count([LONG])


def test_images_and_blocks_of_any_kind_are_sent_as_they_came() -> None:
    recorder = Recorder()
    made, model = agent(recorder, script=iter([AIMessage("Yes.")]), limit_tokens=4000)
    blocks = ["text", IMAGE, {"type": "of next year", "data": [1]}]
    made.invoke(asked(blocks), thread("t1"))
    assert model.sent[0][1].content == blocks
    assert 2000 < recorder.fitted[0].used_tokens < 2100  # the image has no known size
    recorder.require_verified()


def test_an_answered_call_that_could_not_be_parsed_stays_with_its_answer() -> None:
    made, model = agent(Recorder(), script=iter([AIMessage("Yes.")]))
    wrong = {"name": "look_up", "args": "{", "id": "b", "error": "no JSON", "type": "invalid_tool_call"}
    valid = {"name": "look_up", "args": {}, "id": "a"}
    history: list[BaseMessage] = [
        HumanMessage("Find both."),
        AIMessage("", tool_calls=[valid], invalid_tool_calls=[wrong]),
        ToolMessage("1", tool_call_id="a"),
        ToolMessage("No JSON.", tool_call_id="b", status="error"),
    ]
    made.invoke({"messages": history}, thread("t1"))
    assert [message.text for message in model.sent[0]] == [PROMPT, "Find both.", "", "1", "No JSON."]


def test_a_subagent_in_a_tool_or_a_node_has_a_session_of_its_own() -> None:
    recorder = Recorder()
    sub, _ = agent(recorder, script=iter([AIMessage("Found.")] * 9))
    in_tool = create_agent(
        ScriptedModel(messages=iter([AIMessage("Found.")] * 9), sent=[]),
        middleware=[FitMiddleware(LIMIT_TOKENS, **recorder.settings)],
    )

    @tool
    def delegate(topic: str) -> str:
        """Delegate."""
        return str(in_tool.invoke(asked(topic))["messages"][-1].text)

    calls = [{"name": "delegate", "args": {"topic": "x"}, "id": name} for name in "ab"]
    script = iter([AIMessage("", tool_calls=calls), AIMessage("Done."), AIMessage("Done.")])
    lead = create_agent(
        ScriptedModel(messages=script, sent=[]),
        [delegate],
        middleware=[FitMiddleware(LIMIT_TOKENS, **recorder.settings)],
    )
    lead.invoke(asked("Find x."), thread("t1"))
    first, *subagents, last = recorder.sessions
    assert (first, last) == ("t1", "t1")
    assert len(set(subagents)) == 2
    assert all(session.startswith("t1/tools:") for session in subagents)
    graph = StateGraph(MessagesState).add_node("research", sub).add_edge(START, "research")
    for _ in range(2):
        graph.compile(checkpointer=InMemorySaver()).invoke(asked("Find x."), thread("t2"))
    assert recorder.sessions[4:] == ["t2/research"] * 2


@pytest.mark.parametrize(
    ("message", "configuration", "code", "pointer"),
    [
        (HumanMessage("Is it so?"), {}, "missing_field", "$.session_id"),
        (HumanMessage([IMAGE]), thread("t1"), "infeasible", "$.limit_tokens"),
        (ToolMessage("1", tool_call_id="a"), thread("t1"), "invalid_value", "$.messages[0]"),
        (FunctionMessage(content="1", name="a"), thread("t1"), "invalid_value", "$.messages[0]"),
    ],
)
def test_an_unfittable_chat_is_an_error_and_reaches_no_model(
    message: AnyMessage, configuration: dict[str, Any], code: str, pointer: str
) -> None:
    model = ScriptedModel(messages=script_of_calls(), sent=[])
    made: Any = create_agent(model, system_prompt=PROMPT, middleware=[FitMiddleware(LIMIT_TOKENS)])
    with pytest.raises(FitError) as raised:
        made.invoke({"messages": [message]}, configuration)
    assert (raised.value.code, raised.value.pointer) == (code, pointer)
    assert raised.value.__cause__ is None
    assert model.sent == []
