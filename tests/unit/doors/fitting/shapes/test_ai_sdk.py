"""Messages of Vercel's AI SDK."""

from typing import Any

import pytest
from hypothesis import given
from support.shaped_chats import chats_of, counted, written

from apportion import FitError, fit
from apportion.core.results import Reason

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
    assert [block["type"] for block in answer["content"]] == ["reasoning"]
    ids = [call["id"] for call in answer["tool_calls"]]
    assert ids == [result["tool_call_id"], response["tool_call_id"]] == ["c", "ap"]


def test_approvals_and_results_of_the_provider_stay_with_their_call() -> None:
    user = {"role": "user", "content": "Hi."}
    executed = {"role": "assistant", "content": [{**CALL, "providerExecuted": True}, RESULT]}
    approved = [user, {"role": "assistant", "content": [CALL, ASK]}, MESSAGES[3], user]
    apart = [
        *approved[:2],
        *[{"role": "tool", "content": [part]} for part in MESSAGES[3]["content"]],
        user,
    ]
    for chat in ([user, executed, user], approved, apart, approved[:2] + apart[2:3]):
        assert fit(chat, 9999).messages == chat
        assert not [entry for entry in fit(chat, 9999).decision.candidates if entry.reason]


def test_a_response_without_its_request_is_left_out_with_a_reason() -> None:
    user = {"role": "user", "content": "Hi."}
    fitted = fit([user, {"role": "tool", "content": MESSAGES[3]["content"][:1]}, user], 9999)
    assert fitted.messages == [user, user]
    assert [entry.reason for entry in fitted.decision.candidates if entry.reason] == [Reason.UNSUITABLE]


def test_the_system_prompt_of_a_body_is_counted_and_kept() -> None:
    for field in ("system", "instructions"):
        body = {field: "long " * 200, "messages": MESSAGES[1:]}
        fitted = fit(body, 9999)
        assert fitted.body == body
        assert fitted.used_tokens > 200


def test_messages_of_the_ui_are_refused_with_a_remedy() -> None:
    with pytest.raises(FitError, match="convertToModelMessages") as caught:
        fit([{"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hi."}]}], 9999)
    assert caught.value.pointer == "$.messages[0]"


def test_blank_texts_of_a_result_are_left_out_but_json_stays() -> None:
    parts = [{"type": "text", "text": ""}, {"type": "text", "text": "a"}]
    for kind, sent in (("content", parts[1:]), ("json", parts)):
        result = {**RESULT, "output": {"type": kind, "value": parts}}
        chat = [MESSAGES[2], {"role": "tool", "content": [result]}]
        [_, tool] = written(chat)
        assert tool["content"][0]["output"]["value"] == sent


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
