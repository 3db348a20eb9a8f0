"""OpenAI's chat completions, and Ollama's messages."""

from typing import Any

import pytest
from hypothesis import given
from support.shaped_chats import chats_of, counted, written

from apportion import FitError, fit

CALL: dict[str, Any] = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
IMAGE: dict[str, Any] = {
    "type": "image_url",
    "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"},
}
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "What?"}, IMAGE]},
    {"role": "assistant", "content": None, "tool_calls": [{**CALL, "extra": {"n": 2**60}}], "refusal": None},
    {"role": "tool", "tool_call_id": "c", "content": {"ok": True}},
]


def test_everything_kept_leaves_as_it_came_as_a_list_and_as_a_body() -> None:
    body = {"model": "m", "messages": CHAT, "temperature": 0}
    assert written(CHAT) == CHAT
    assert written(body) == body


def test_media_are_stubs_and_other_fields_of_calls_stay() -> None:
    _, user, answer, result = counted(CHAT)
    assert user["content"][1] | {"digest": ""} == {
        "type": "media",
        "media": "image",
        "detail": "low",
        "form": "openai",
        "digest": "",
    }
    assert answer["tool_calls"] == [{**CALL, "extra": {"n": str(2**60)}}]
    assert "refusal" not in answer
    assert result == CHAT[3]


def test_a_cut_chat_and_moved_messages_keep_the_given_order() -> None:
    assert written(CHAT, 0, 2, 3, 1) == [CHAT[0], CHAT[2], CHAT[3], CHAT[1]]


def test_rewritten_contents_are_written_in_place() -> None:
    cleared = {"type": "text", "text": "[image cleared, 85 tokens]"}
    sent = written(
        CHAT, new={1: [{"type": "text", "text": "What?"}, cleared], 3: "[result of f cleared, 9 tokens]"}
    )
    assert sent[1] == {"role": "user", "content": [CHAT[1]["content"][0], cleared]}
    assert sent[3] == {**CHAT[3], "content": "[result of f cleared, 9 tokens]"}


def test_a_shorter_text_keeps_the_other_fields_of_its_block_and_the_other_blocks() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "first"},
        {"type": "text", "text": "long", "cache_control": {}},
    ]
    chat = [{"role": "user", "content": blocks}]
    new = [blocks[0], {"type": "text", "text": "l"}]
    assert written(chat, new={0: new})[0]["content"] == [blocks[0], {**blocks[1], "text": "l"}]


def test_a_lone_surrogate_is_counted_as_a_replacement_character_and_sent_as_it_came() -> None:
    chat = [{"role": "user", "content": "caf\udce9 \U0001f600"}]
    assert counted(chat)[0]["content"] == "caf\ufffd \U0001f600"
    assert fit(chat, 100).messages == chat


def test_images_and_calls_of_ollama_are_read() -> None:
    call = {"function": {"name": "look", "arguments": {"n": 1}}}
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": "What?", "images": ["iVBORw0KGgo="]},
        {"role": "assistant", "content": "", "tool_calls": [call, call]},
        {"role": "tool", "tool_name": "look", "content": "a cat"},
        {"role": "tool", "tool_name": "look", "content": "a dog"},
    ]
    user, answer, *results = counted(chat)
    assert [block["type"] for block in user["content"]] == ["text", "media"]
    assert [call["id"] for call in answer["tool_calls"]] == [result["tool_call_id"] for result in results]
    assert written(chat) == chat
    cleared = [user["content"][0], {"type": "text", "text": "[image cleared]"}]
    assert written(chat, 0, new={0: cleared}) == [
        {"role": "user", "content": "What?\n[image cleared]", "images": []}
    ]


def test_objects_of_the_sdk_come_back_as_dicts() -> None:
    message = pytest.importorskip("openai.types.chat").ChatCompletionMessage(role="assistant", content="Yes.")
    assert written([CHAT[0], message]) == [CHAT[0], {"role": "assistant", "content": "Yes."}]


def test_what_is_no_chat_is_refused_with_the_shapes() -> None:
    with pytest.raises(FitError, match=r"missing_field.*Gemini contents.*at \$\.messages") as caught:
        fit({"prompt": "x"}, 100)
    assert "Bedrock Converse" in caught.value.message


@given(chats_of(CHAT))
def test_any_items_leave_as_they_came(chat: list[Any]) -> None:
    assert written(chat) == chat


def test_deprecated_functions_and_results_without_a_name_are_paired() -> None:
    user = {"role": "user", "content": "hi"}
    called = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    ollama = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": "f", "arguments": {}}}],
    }
    for asked, result in (
        (called, {"role": "function", "name": "f", "content": "r"}),
        (ollama, {"role": "tool", "content": "r"}),
    ):
        assert fit([user, asked, result, user], 999).messages == [user, asked, result, user]
        assert fit([user, asked, user], 999).messages == [user, user]
