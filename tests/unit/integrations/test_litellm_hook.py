"""LiteLLM's hook: called as the proxy calls it, in front of completions with LiteLLM's own mock."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import litellm
import pytest
import pytest_asyncio
from litellm.caching.caching import DualCache
from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.utils import ProxyLogging
from support.hooked import LIMIT_TOKENS, LONG, QUESTIONS, Recorder, count

from apportion import FitError
from apportion.doors.fitting.steps import OMITTED
from apportion.integrations.litellm import FitHook

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.filterwarnings("ignore:.*`ReadOnly` qualifier:UserWarning"),  # of LiteLLM's own types
]

SYSTEM = {"role": "system", "content": "Answer briefly."}
Message = dict[str, Any]


class Proxy:
    """The part of the proxy between a call and its completion, with the hook as its callback."""

    def __init__(
        self, recorder: Recorder, session_id: Callable[[Mapping[str, Any]], str] | None = None
    ) -> None:
        """Register the hook as the proxy does from `callbacks`."""
        litellm.callbacks = [FitHook(LIMIT_TOKENS, session_id=session_id, **recorder.settings)]
        self._logging = ProxyLogging(user_api_key_cache=DualCache())

    async def prepare(self, messages: list[Message], call_type: Any = "acompletion", **fields: Any) -> Any:
        """Return a call's data behind the hooks."""
        data = {"model": "gpt-5", "messages": messages, "metadata": {}, **fields}
        return await self._logging.pre_call_hook(UserAPIKeyAuth(), data, call_type)


@pytest_asyncio.fixture(autouse=True)
async def _as_before() -> AsyncIterator[None]:
    yield
    litellm.callbacks = []


def user(text: str) -> Message:
    """Return a message of the user."""
    return {"role": "user", "content": text}


def lookup(name: str, output: str) -> list[Message]:
    """Return a call of a tool and its result."""
    function = {"name": "look_up", "arguments": "{}"}
    calls = [{"id": name, "type": "function", "function": function}]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": name, "content": output},
    ]


async def test_every_call_of_a_long_chat_fits_verifies_and_is_completed() -> None:
    recorder = Recorder()
    proxy, messages = Proxy(recorder), [SYSTEM]
    for turn, question in enumerate(QUESTIONS):
        messages += [user(question), *lookup(f"call_{turn}", LONG)]
        data = await proxy.prepare(messages, litellm_session_id="s1")
        assert data["messages"][0] == SYSTEM
        assert count([message["content"] or "" for message in data["messages"]]) <= LIMIT_TOKENS
        called = [call["id"] for message in data["messages"] for call in message.get("tool_calls", ())]
        results = [message["tool_call_id"] for message in data["messages"] if message["role"] == "tool"]
        assert called == results
        answer = await litellm.acompletion(**data, mock_response="So it is. " * 12)
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
    assert len(messages) == 1 + 4 * len(QUESTIONS)
    recorder.require_verified()
    assert set(recorder.sessions) == {"s1"}


async def test_an_old_result_is_sent_cleared_and_the_callers_messages_stay() -> None:
    messages = [message for name in "abcd" for message in lookup(name, LONG * 12 if name == "a" else "No.")]
    data = await Proxy(recorder := Recorder()).prepare([*messages, user("Again?")], user="u1")
    cleared = "[result of look_up cleared, 1801 tokens]"
    assert [message["content"] for message in data["messages"]] == [
        *(None, cleared),
        *(None, "No.") * 3,
        "Again?",
    ]
    assert messages[1]["content"] == LONG * 12
    recorder.require_verified()


async def test_an_answer_without_its_question_follows_an_omission_note() -> None:
    answers = [{"role": "assistant", "content": LONG} for _ in range(20)]
    data = await Proxy(Recorder()).prepare([user("Find all."), *answers, user("Really?")], user="u1")
    assert data["messages"][0] == user(OMITTED)
    assert {message["role"] for message in data["messages"][1:-1]} == {"assistant"}


async def test_the_session_id_comes_from_call_metadata_user_or_function() -> None:
    recorder = Recorder()
    for session_id, fields in (
        (None, {"litellm_session_id": "a", "metadata": {"session_id": "b"}, "user": "c"}),
        (None, {"metadata": {"session_id": "b"}, "user": "c"}),
        (None, {"metadata": None, "user": "c"}),
        (None, {"metadata": {"user_id": "d"}}),
        (lambda data: data["model"], {}),
    ):
        await Proxy(recorder, session_id).prepare([user("Is it so?")], **fields)
    assert recorder.sessions == ["a", "b", "c", "d", "gpt-5"]


async def test_a_call_in_anthropics_shape_fits_and_verifies() -> None:
    recorder = Recorder()
    use = {"type": "tool_use", "id": "a", "name": "look_up", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "Found."}
    pair = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    fields = {"call_type": "anthropic_messages", "user": "u1", "system": SYSTEM["content"]}
    data = await Proxy(recorder).prepare([user(LONG * 4), *pair, user("Again?")], **fields)
    assert (data["system"], data["messages"][1:]) == (SYSTEM["content"], [*pair, user("Again?")])
    assert "tokens omitted" in data["messages"][0]["content"]
    recorder.require_verified()


async def test_a_call_of_the_responses_endpoint_fits_and_verifies() -> None:
    recorder = Recorder()
    call = {"type": "function_call", "call_id": "a", "name": "look_up", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "a", "output": LONG * 4}
    items = [user("Find a."), {"type": "reasoning", "summary": []}, call, result, user("Again?")]
    fields = {"call_type": "aresponses", "user": "u1", "instructions": SYSTEM["content"]}
    data = await Proxy(recorder).prepare([], input=items, **fields)
    assert data["input"][:3] == items[:3]
    assert "tokens omitted" in data["input"][3]["output"]
    assert (data["model"], data["instructions"]) == ("gpt-5", SYSTEM["content"])
    await Proxy(recorder).prepare([], input="Is it so?", **fields)
    recorder.require_verified()


async def test_calls_that_are_no_chats_pass_unchanged() -> None:
    recorder = Recorder()
    data = await Proxy(recorder).prepare([], call_type="aembedding", input="text")
    assert (data["input"], recorder.fitted) == ("text", [])


@pytest.mark.parametrize(
    ("content", "fields", "code", "pointer"),
    [
        ("Is it so?", {}, "missing_field", "$.session_id"),
        (
            [{"type": "image_url", "image_url": {"url": "https://localhost/a.png"}}],
            {"user": "u1"},
            "infeasible",
            "$.limit_tokens",
        ),
        ([{"type": "text", "text": object()}], {"user": "u1"}, "not_json", "$.messages[1]"),
    ],
)
async def test_an_unfittable_chat_is_a_bad_request_with_its_place(
    content: Any, fields: dict[str, Any], code: str, pointer: str
) -> None:
    with pytest.raises(litellm.BadRequestError) as raised:
        await Proxy(Recorder()).prepare([SYSTEM, user(content)], **fields)
    cause = raised.value.__cause__
    assert isinstance(cause, FitError)
    assert (raised.value.status_code, cause.code, cause.pointer) == (400, code, pointer)
    assert str(cause) in str(raised.value)
    assert code != "missing_field" or "x-litellm-session-id" in str(cause)
