"""Contents of Gemini's API."""

from typing import Any

import pytest
from hypothesis import given
from support.shaped_chats import chats_of, counted, written

from apportion import fit

CALL = {"functionCall": {"name": "f", "args": {"n": 1}}, "thoughtSignature": "c2ln"}
CONTENTS: list[dict[str, Any]] = [
    {
        "role": "user",
        "parts": [{"text": "Hi."}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}],
    },
    {"role": "model", "parts": [{"text": "I think.", "thought": True}, CALL, CALL]},
    {
        "role": "user",
        "parts": [{"functionResponse": {"name": "f", "response": {"output": text}}} for text in "12"],
    },
    {"parts": [{"text": "And?"}]},
]
BODY = {"contents": CONTENTS, "systemInstruction": {"parts": [{"text": "Be brief."}]}, "generationConfig": {}}


def test_everything_kept_leaves_as_it_came() -> None:
    assert written(BODY) == BODY
    assert written(CONTENTS) == CONTENTS


def test_calls_and_results_without_ids_are_paired_by_name_and_order() -> None:
    system, user, answer, *results, last = counted(BODY)
    assert system == {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}
    assert [block["type"] for block in user["content"]] == ["text", "media"]
    assert answer["content"] == [{"type": "text", "text": "I think.", "thought": True}]
    assert (
        [call["id"] for call in answer["tool_calls"]]
        == [result["tool_call_id"] for result in results]
        == ["f-1", "f-2"]
    )
    assert [result["content"] for result in results] == ["1", "2"]
    assert last["role"] == "user"


def test_a_cut_chat_begins_with_the_user_and_has_no_blank_parts() -> None:
    turns = [{"role": role, "parts": [{"text": "why " * 30}]} for role in ("user", "model") * 9]
    fitted = fit([*turns, CONTENTS[3]], 200)
    assert fitted.messages[0]["role"] == "user"
    assert len(fitted.messages) < len(turns)
    blank = {"role": "model", "parts": [{"text": ""}]}
    assert written([CONTENTS[0], blank, {**CONTENTS[3], "parts": [{"text": " "}, {"text": "x"}]}])[1:] == [
        {"parts": [{"text": "x"}]}
    ]


def test_contents_are_rewritten_in_place() -> None:
    image = {"type": "text", "text": "[image cleared]"}
    sent = written(
        BODY, new={0: "Short.", 1: [{"type": "text", "text": "H"}, image], 3: "[result of f cleared]"}
    )
    assert sent["contents"][0]["parts"] == [{"text": "H"}, {"text": "[image cleared]"}]
    cleared, other = sent["contents"][2]["parts"]
    assert cleared == {"functionResponse": {"name": "f", "response": {"output": "[result of f cleared]"}}}
    assert other == CONTENTS[2]["parts"][1]
    assert sent["systemInstruction"] == {"parts": [{"text": "Short."}]}


@pytest.mark.parametrize("response", [{"a": 1, "b": "x"}, {"result": {"a": 1}}])
def test_a_response_that_is_json_is_counted_as_json_and_cleared_to_a_result(response: Any) -> None:
    answered = {"function_response": {"id": "c", "name": "f", "response": response}}
    chat = [
        {"role": "model", "parts": [{"function_call": {"id": "c", "name": "f"}}]},
        {"role": "user", "parts": [answered]},
    ]
    assert counted(chat)[1] == {"role": "tool", "tool_call_id": "c", "content": response}
    [part] = written(chat, new={1: "gone"})[1]["parts"]
    assert part["function_response"]["response"] == {"result": "gone"}


@given(chats_of(CONTENTS))
def test_any_items_leave_as_they_came(chat: list[Any]) -> None:
    assert written(chat) == chat


def test_a_signature_with_an_empty_text_stays_with_its_content() -> None:
    signature = {"text": "", "thoughtSignature": "c2ln"}
    user = {"role": "user", "parts": [{"text": "hi"}]}
    model = {"role": "model", "parts": [{"text": "a"}, signature]}
    assert fit([user, model, user], 999).messages == [user, model, user]
    assert fit([user, {"role": "model", "parts": [signature]}, user], 999).messages == [user, user]
