"""Anthropic's messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.shaped_chats import counted, written

from apportion import FitError, fit
from apportion.doors.fitting.shapes import read_chat

THINKING = {"type": "thinking", "thinking": "I look.", "signature": "s"}
SERVER = [
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
]
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
USES = [{"type": "tool_use", "id": name, "name": "f", "input": {"n": 2**60}} for name in "ab"]
RESULTS: list[dict[str, Any]] = [
    {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "long"}, IMAGE]},
    {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "tool_reference", "tool_name": "g"}]},
]
BODY: dict[str, Any] = {
    "model": "m",
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": [THINKING, {"type": "text", "text": "So."}, *SERVER, *USES]},
        {"role": "user", "content": [*RESULTS, {"type": "text", "text": "And?"}]},
    ],
}


def test_everything_kept_leaves_as_it_came() -> None:
    assert written(BODY) == BODY
    assert written(BODY["messages"]) == BODY["messages"]


def test_each_result_is_a_message_and_opaque_blocks_stay_in_place() -> None:
    system, _, answer, *rest = counted(BODY)
    assert system == {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}
    kinds = ["thinking", "text", "server_tool_use", "web_search_tool_result"]
    assert [block["type"] for block in answer["content"]] == kinds
    assert "signature" not in answer["content"][0]
    assert [call["id"] for call in answer["tool_calls"]] == ["a", "b"]
    assert [message.get("tool_call_id") for message in rest] == ["a", "b", None]
    assert [block["type"] for block in rest[0]["content"]] == ["text", "media"]


def test_a_cut_keeps_the_remaining_blocks_of_a_message() -> None:
    assert written(BODY, 0, 5)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "And?"}]}
    ]


def test_results_and_texts_are_rewritten_in_place() -> None:
    short = [{"type": "text", "text": "l"}, {"type": "text", "text": "[image cleared]"}]
    sent = written(
        BODY, new={0: "Short.", 3: short, 4: "[result of f cleared]", 5: [{"type": "text", "text": "?"}]}
    )
    content = [{**RESULTS[0], "content": short}, {**RESULTS[1], "content": "[result of f cleared]"}]
    assert sent["messages"][2]["content"] == [*content, {"type": "text", "text": "?"}]
    assert sent["system"] == "Short."


@pytest.mark.parametrize("content", ["", " ", [], [{"type": "text", "text": ""}]])
def test_blank_messages_are_not_sent(content: Any) -> None:
    messages = [
        BODY["messages"][0],
        {"role": "assistant", "content": content},
        {"role": "user", "content": "b"},
    ]
    assert written({"messages": messages})["messages"] == [messages[0], messages[2]]


def test_a_chat_without_its_blank_first_message_begins_with_the_user() -> None:
    answer = {"role": "assistant", "content": "Yes."}
    sent = fit({"messages": [{"role": "user", "content": ""}, answer, BODY["messages"][0]]}, 100).messages
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    with pytest.raises(FitError, match="blank"):
        fit({"messages": [{"role": "user", "content": " "}]}, 100)


def test_blank_texts_beside_a_call_are_not_sent() -> None:
    answer = {"role": "assistant", "content": [{"type": "text", "text": ""}, USES[0]]}
    assert written({"messages": [answer]})["messages"] == [{**answer, "content": [USES[0]]}]


@pytest.mark.parametrize("field", ["id", "name"])
def test_a_call_without_id_or_name_is_refused(field: str) -> None:
    use = {name: value for name, value in USES[0].items() if name != field}
    with pytest.raises(FitError) as caught:
        counted({"messages": [{"role": "assistant", "content": [use]}]})
    assert (caught.value.code, caught.value.pointer) == ("missing_field", f"$.messages[0].content[0].{field}")


def test_objects_of_the_sdk_come_back_as_dicts() -> None:
    block = pytest.importorskip("anthropic.types").TextBlock(type="text", text="Yes.")
    body = {"messages": [BODY["messages"][0], {"role": "assistant", "content": (block,)}]}
    assert written(body)["messages"][1]["content"] == [{"type": "text", "text": "Yes."}]


@given(st.permutations(BODY["messages"]))
def test_items_in_any_order_leave_as_they_came_and_repeated_blocks_are_left_out(chat: list[Any]) -> None:
    assert written(chat) == chat
    [call] = [item for item in chat if item["role"] == "assistant" and isinstance(item["content"], list)]
    [kept] = written([call, call])[1:]
    assert [block["type"] for block in kept["content"]] == ["thinking", "text"]


def test_a_list_without_tools_is_recognised_by_its_blocks() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "a"}
    for block in (
        {"type": "document", "source": source},
        {"type": "thinking", "thinking": "a", "signature": "s"},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
    ):
        chat = [
            {"role": "user", "content": "b"},
            {"role": "assistant", "content": "a"},
            {"role": "user", "content": [block]},
        ]
        assert read_chat(chat).shape.name == "Anthropic Messages"
        assert read_chat([{"role": "system", "content": "a"}, *chat]).shape.name == "OpenAI chat completions"


def test_a_cut_list_of_texts_begins_with_the_user_because_its_provider_is_unknown() -> None:
    chat: list[Any] = [{"role": role, "content": "long " * 100} for role in ["user", "assistant"] * 4]
    chat.append({"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": ""}]})
    for limit_tokens in range(100, 900, 40):
        messages = fit(chat, limit_tokens).messages
        assert messages[0]["role"] == "user"
        assert messages[-1]["content"] == chat[-1]["content"][:1]
    assert fit(chat[1:-1], 9999).messages == chat[1:-1]
    assert fit([chat[0], {"role": "user", "content": ""}], 9999).messages[1]["content"] == ""


def test_blank_texts_of_results_and_of_the_system_prompt_are_left_out() -> None:
    blank, text = {"type": "text", "text": " "}, {"type": "text", "text": "a"}
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    user = {"role": "user", "content": "hi"}
    for content, sent in (([blank], []), ([blank, text], [text])):
        result = {"type": "tool_result", "tool_use_id": "t", "content": content}
        chat = [user, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        fitted = fit({"system": content, "messages": chat}, 999)
        assert fitted.messages[2]["content"] == [{**result, "content": sent}]
        assert fitted.body.get("system", []) == sent
