"""Items of OpenAI's Responses API."""

from typing import Any

import pytest
from hypothesis import given
from support.shaped_chats import chats_of, counted, written

from apportion import FitError, fit

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
CALLS = [
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "f",
        "arguments": "{}",
        "status": "completed",
    },
    {"type": "custom_tool_call", "call_id": "c2", "name": "sql", "input": "SELECT 1"},
]
ANSWER = {
    "type": "message",
    "role": "assistant",
    "id": "m",
    "content": [{"type": "output_text", "text": "So.", "annotations": []}],
}
ITEMS: list[dict[str, Any]] = [
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "Hi."},
            {"type": "input_image", "image_url": "https://x/y.png"},
        ],
    },
    REASONING,
    *CALLS,
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "long"}]},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": "1"},
    ANSWER,
    {"type": "mcp_approval_request", "id": "ap", "name": "mail", "arguments": "{}", "server_label": "s"},
    {"type": "mcp_approval_response", "approval_request_id": "ap", "approve": True},
    {"type": "shell_call", "id": "sh_1", "call_id": "c3", "action": {"commands": ["ls"]}},
    {
        "type": "shell_call_output",
        "call_id": "c3",
        "output": [{"stdout": "a", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    {"role": "user", "content": "And?"},
]
BODY = {"model": "m", "input": ITEMS, "instructions": "Be brief."}


def test_everything_kept_leaves_as_it_came() -> None:
    assert written(BODY) == BODY
    assert written(ITEMS) == ITEMS


def test_a_text_as_input_is_a_message_of_the_user() -> None:
    assert fit({"input": "hi", "model": "m"}, 100).body == {
        "input": [{"role": "user", "content": "hi"}],
        "model": "m",
    }


def test_the_items_of_a_response_are_a_message_and_each_output_is_one() -> None:
    system, user, response, first, second, answer, approval, shell, output, _ = counted(BODY)
    assert system == {"role": "system", "content": "Be brief."}
    assert [block["type"] for block in user["content"]] == ["text", "media"]
    assert response["content"] == [{"type": "reasoning", "summary": []}]
    assert [(call["id"], call["type"]) for call in response["tool_calls"]] == [
        ("c1", "function"),
        ("c2", "custom"),
    ]
    assert [first["tool_call_id"], second["tool_call_id"]] == ["c1", "c2"]
    assert answer["content"][0] == {"type": "text", "text": "So."}
    assert [answer["content"][1]["id"], approval["content"][0]["approval_request_id"]] == ["ap", "ap"]
    assert [call["id"] for call in shell["tool_calls"]] == [output["tool_call_id"]] == ["c3"]


def test_a_cut_chat_has_whole_responses() -> None:
    assert written(ITEMS, 1, 2, 3, 8) == [*ITEMS[1:6], ITEMS[-1]]


def test_contents_are_rewritten_in_place() -> None:
    image = {"type": "text", "text": "[image cleared]"}
    new = {
        0: [{"type": "text", "text": "Hi."}, image],
        2: "[result of f cleared]",
        4: [{"type": "text", "text": "S"}, counted(ITEMS)[4]["content"][1]],
    }
    sent = written(ITEMS, new=new)
    assert sent[0]["content"] == [ITEMS[0]["content"][0], {"type": "input_text", "text": "[image cleared]"}]
    assert sent[4] == {**ITEMS[4], "output": "[result of f cleared]"}
    assert sent[6] == {**ANSWER, "content": [{**ANSWER["content"][0], "text": "S"}]}  # type: ignore[dict-item]
    assert [sent[1:4], sent[5], sent[7:]] == [ITEMS[1:4], ITEMS[5], ITEMS[7:]]


def test_a_call_without_id_is_refused() -> None:
    with pytest.raises(FitError) as caught:
        counted([{"type": "function_call", "name": "f", "arguments": "{}"}])
    assert (caught.value.code, caught.value.pointer) == ("missing_field", "$.input[0].id")


def test_reasoning_with_nothing_behind_it_is_left_out() -> None:
    assert written([ANSWER, REASONING, ITEMS[0]]) == [ANSWER, ITEMS[0]]


@given(chats_of([item for item in ITEMS if item is not REASONING]))
def test_any_items_leave_as_they_came_and_repeated_ids_are_left_out(chat: list[Any]) -> None:
    items = [{**item, "id": str(index)} if "id" in item else item for index, item in enumerate(chat)]
    assert written(items) == items
    copies = [item for item in items if "id" in item]
    assert written([*items, ITEMS[0], *copies]) == [*items, ITEMS[0]]


def test_outputs_of_shells_and_patches_are_results_with_texts() -> None:
    outcome = {"type": "exit", "exit_code": 1}
    outputs: list[dict[str, Any]] = [
        {
            "type": "shell_call_output",
            "call_id": "s",
            "output": [
                {"stdout": "long", "stderr": "", "outcome": outcome},
                {"stdout": "", "stderr": "error", "outcome": outcome},
            ],
        },
        {"type": "apply_patch_call_output", "call_id": "p", "status": "completed", "output": "long"},
        {"type": "local_shell_call_output", "id": "l", "output": "long"},
    ]
    calls = [
        {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}},
        {"type": "apply_patch_call", "call_id": "p", "operation": {"type": "delete_file", "path": "a"}},
        {"type": "local_shell_call", "call_id": "l", "action": {"type": "exec", "command": ["ls"]}},
    ]
    texts = counted([*calls, *outputs])[1]["content"]
    assert [block["text"] for block in texts] == ["long", "error"]
    shorter = [texts[0] | {"text": "l"}, texts[1] | {"text": "e"}]
    shell, patch, local = written([*calls, *outputs], new={1: shorter, 2: "l", 3: "l"})[3:]
    assert [entry["stdout"] + entry["stderr"] for entry in shell["output"]] == ["l", "e"]
    assert [patch, local] == [{**output, "output": "l"} for output in outputs[1:]]
    cleared = written([*calls, *outputs], new={1: "[cleared]"})[3]["output"]
    assert cleared == [{"stdout": "[cleared]", "stderr": "", "outcome": outcome}]


def test_deep_json_is_read() -> None:
    schema: dict[str, Any] = {}
    for _ in range(60):
        schema = {"items": schema}
    user = {"role": "user", "content": "hi"}
    tools = {"type": "mcp_list_tools", "id": "m", "server_label": "s", "tools": [{"input_schema": schema}]}
    assert fit({"input": [user, tools, user]}, 9999).messages == [user, tools, user]
