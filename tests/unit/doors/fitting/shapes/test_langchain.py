"""Message objects of LangChain."""

from typing import Any

import pytest
from hypothesis import given
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from support.shaped_chats import chats_of, counted, written

from apportion import FitError, FitOptions, fit

WRONG = {"name": "save", "args": "{bad", "id": "c2", "error": "no JSON", "type": "invalid_tool_call"}
BLOCKS: list[Any] = [
    {"type": "text", "text": "So."},
    {"type": "tool_use", "id": "c1", "name": "load", "input": {}},
]
CHAT: list[Any] = [
    SystemMessage("Be brief."),
    HumanMessage(
        [{"type": "text", "text": "Hi."}, {"type": "image_url", "image_url": {"url": "https://x/y.png"}}]
    ),
    AIMessage(BLOCKS, tool_calls=[{"name": "load", "args": {}, "id": "c1"}], invalid_tool_calls=[WRONG]),
    ToolMessage("long", tool_call_id="c1"),
    ToolMessage("The arguments are no JSON.", tool_call_id="c2", status="error"),
]


def test_everything_kept_leaves_as_the_same_objects() -> None:
    assert all(sent is given for sent, given in zip(written(CHAT), CHAT, strict=True))
    assert written({"messages": CHAT, "step": 1}) == {"messages": CHAT, "step": 1}


def test_calls_that_could_not_be_parsed_are_calls_and_copies_of_calls_count_once() -> None:
    _, user, answer, *results = counted(CHAT)
    assert [block["type"] for block in user["content"]] == ["text", "media"]
    assert answer["content"] == [{"type": "text", "text": "So."}]
    assert (
        [call["id"] for call in answer["tool_calls"]]
        == [result["tool_call_id"] for result in results]
        == ["c1", "c2"]
    )
    assert results[1]["is_error"]


def test_contents_are_rewritten_in_a_copy() -> None:
    sent = written(CHAT, new={2: [{"type": "text", "text": "S"}], 3: "gone"})
    assert sent[2].content == [{"type": "text", "text": "S"}, BLOCKS[1]]
    assert (sent[3].content, sent[3].tool_call_id, CHAT[3].content) == ("gone", "c1", "long")


FACT = [{"content": "A fact."}]
OWN_MESSAGE = FitOptions(place="message")


def test_a_cut_chat_is_fitted_and_added_messages_are_objects() -> None:
    turns = [kind(f"turn {number} " * 20) for number in range(9) for kind in (HumanMessage, AIMessage)]
    fitted = fit([CHAT[0], *turns, HumanMessage("And?")], 300, artifacts=FACT, options=OWN_MESSAGE)
    assert fitted.messages[0] is CHAT[0]
    assert fitted.messages[-2:] == [HumanMessage("A fact."), HumanMessage("And?")]
    assert len(fitted.messages) < len(turns)


def test_a_message_without_a_role_is_refused() -> None:
    with pytest.raises(FitError, match=r"invalid_value.*\$\.messages\[1\]"):
        counted([CHAT[0], RemoveMessage(id="1")])


@given(chats_of(CHAT))
def test_any_items_leave_as_they_came(chat: list[Any]) -> None:
    assert written(chat) == chat
