"""Messages of Vercel's AI SDK."""

from typing import Any

from hypothesis import given
from support.shaped_chats import chats_of, counted, written

CALL = {"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {"n": 1}}
ASK = {"type": "tool-approval-request", "approvalId": "ap", "toolCallId": "c"}
RESULT = {
    "type": "tool-result",
    "toolCallId": "c",
    "toolName": "f",
    "output": {"type": "text", "value": "long"},
}
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "Hi."}, {"type": "image", "image": "iVBORw0KGgo="}],
    },
    {"role": "assistant", "content": [{"type": "reasoning", "text": "I think."}, CALL, ASK]},
    {
        "role": "tool",
        "content": [{"type": "tool-approval-response", "approvalId": "ap", "approved": True}, RESULT],
    },
]


def test_everything_kept_leaves_as_it_came() -> None:
    assert written(MESSAGES) == MESSAGES
    assert written({"messages": MESSAGES, "maxSteps": 3}) == {"messages": MESSAGES, "maxSteps": 3}


def test_calls_results_and_approvals_are_linked() -> None:
    _, user, answer, response, result = counted(MESSAGES)
    assert [block["type"] for block in user["content"]] == ["text", "media"]
    assert [block["type"] for block in answer["content"]] == ["reasoning", "tool-approval-request"]
    assert answer["content"][1]["id"] == response["content"][0]["approval_request_id"] == "ap"
    assert [call["id"] for call in answer["tool_calls"]] == [result["tool_call_id"]] == ["c"]


def test_contents_are_rewritten_in_place_and_a_cut_keeps_the_other_parts() -> None:
    image = {"type": "text", "text": "[image cleared]"}
    sent = written(MESSAGES, 1, 2, 4, new={1: [{"type": "text", "text": "H"}, image], 4: "gone"})
    assert sent[0]["content"] == [{"type": "text", "text": "H"}, image]
    assert sent[2]["content"] == [{**RESULT, "output": {"type": "text", "value": "gone"}}]


def test_a_result_with_several_contents_is_rewritten_as_such() -> None:
    content = [
        {"type": "text", "text": "long"},
        {"type": "media", "data": "iVBORw0KGgo=", "mediaType": "image/png"},
    ]
    result = {**RESULT, "output": {"type": "content", "value": content}}
    chat = [MESSAGES[2], {"role": "tool", "content": [result]}]
    stub = counted(chat)[1]["content"][1]
    assert stub["media"] == "image"
    [sent] = written(chat, new={1: [{"type": "text", "text": "l"}, stub]})[1]["content"]
    assert sent["output"]["value"] == [{"type": "text", "text": "l"}, content[1]]


@given(chats_of(MESSAGES))
def test_any_items_leave_as_they_came(chat: list[Any]) -> None:
    assert written(chat) == chat
