"""Messages of Bedrock's Converse API."""

from typing import Any

from hypothesis import given
from support.shaped_chats import chats_of, counted, written

from apportion import FitOptions, fit
from apportion.core.results import Reason

USE = {"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}
RESULT = {
    "toolResult": {"toolUseId": "c", "status": "error", "content": [{"text": "long"}, {"json": {"a": 1}}]}
}
REASONING = {"reasoningContent": {"reasoningText": {"text": "I think.", "signature": "s"}}}
MESSAGES: list[dict[str, Any]] = [
    {
        "role": "user",
        "content": [{"text": "Hi."}, {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}],
    },
    {"role": "assistant", "content": [REASONING, {"text": "So."}, USE]},
    {"role": "user", "content": [RESULT, {"text": "And?"}]},
]
BODY = {
    "modelId": "m",
    "messages": MESSAGES,
    "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
}


def test_everything_kept_leaves_as_it_came() -> None:
    assert written(BODY) == BODY
    assert written(MESSAGES) == MESSAGES


def test_blocks_without_a_type_are_read() -> None:
    system, user, answer, result, last = counted(BODY)
    assert system["content"][0] == {"type": "text", "text": "Be brief."}
    assert [block["type"] for block in user["content"]] == ["text", "media"]
    assert answer["content"][0]["reasoningContent"] == {"reasoningText": {"text": "I think."}}
    assert [call["id"] for call in answer["tool_calls"]] == [result["tool_call_id"]] == ["c"]
    assert result["is_error"]
    assert last["content"] == [{"type": "text", "text": "And?"}]


def test_contents_are_rewritten_in_place_as_lists() -> None:
    sent = written(BODY, new={0: "Short.", 3: "[result of f cleared]", 4: [{"type": "text", "text": "?"}]})
    cleared = {"toolResult": {**RESULT["toolResult"], "content": [{"text": "[result of f cleared]"}]}}
    assert sent["messages"][2]["content"] == [cleared, {"text": "?"}]
    assert sent["system"] == [{"text": "Short."}]


def test_a_cut_chat_has_the_remaining_blocks_and_no_blank_ones() -> None:
    assert written(BODY, 0, 4)["messages"] == [{"role": "user", "content": [{"text": "And?"}]}]
    blank = {"role": "assistant", "content": [{"text": " "}]}
    assert written([MESSAGES[0], blank, {"role": "user", "content": [{"text": ""}, {"text": "x"}]}])[1:] == [
        {"role": "user", "content": [{"text": "x"}]}
    ]


def test_an_added_message_is_merged_because_roles_alternate() -> None:
    fitted = fit(
        {"messages": [{"role": "user", "content": [{"text": "Hi."}]}]},
        400,
        artifacts=[{"content": "A fact."}],
        options=FitOptions(place="message"),
    )
    assert fitted.messages == [{"role": "user", "content": [{"text": "A fact."}, {"text": "Hi."}]}]
    assert fitted.sources == (0,)


@given(chats_of(MESSAGES))
def test_any_items_leave_as_they_came(chat: list[Any]) -> None:
    assert written(chat) == chat


CACHE_POINT = {"cachePoint": {"type": "default"}}


def test_a_cache_point_leaves_with_the_content_before_it() -> None:
    chat = [*MESSAGES[:2], {"role": "user", "content": [RESULT, CACHE_POINT, {"text": "And?"}, CACHE_POINT]}]
    assert written(chat) == chat
    assert written(chat, 0, 3) == [MESSAGES[0], {"role": "user", "content": [{"text": "And?"}, CACHE_POINT]}]
    assert written(chat, 0, 1, 2)[2] == {"role": "user", "content": [RESULT, CACHE_POINT]}


def test_a_cache_point_alone_is_left_out_with_a_reason() -> None:
    user = {"role": "user", "content": [{"text": "Hi."}]}
    for content in ([CACHE_POINT], [{"text": " "}, CACHE_POINT]):
        fitted = fit([user, {"role": "assistant", "content": content}, user], 9999)
        assert fitted.messages == [{"role": "user", "content": [{"text": "Hi."}] * 2}]
        assert [entry.reason for entry in fitted.decision.candidates if entry.reason] == [Reason.NO_CONTENT]


def test_the_newest_four_cache_points_stay() -> None:
    chat = [
        {"role": role, "content": [{"text": str(index)}, CACHE_POINT]}
        for index, role in enumerate(["user", "assistant"] * 3)
    ]
    assert ["cachePoint" in str(message) for message in written(chat)] == [False] * 2 + [True] * 4
    body = {"system": BODY["system"], "messages": chat, "toolConfig": {"tools": [CACHE_POINT]}}
    assert str(written(body)).count("cachePoint") == 4
