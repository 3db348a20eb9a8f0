"""Options of `fit`: fixed system messages, and the place of artifacts."""

from typing import Any, Literal

import pytest
from support.fitted_chats import cost

from apportion import FitOptions, fit

SYSTEM = {"role": "system", "content": "Be brief."}
FACT = [{"content": "We close at 6 pm."}]


@pytest.mark.parametrize(
    ("fixed", "limit_tokens", "sent"),
    [
        ("first", 65, [0]),
        ("newest", 80, [6]),
        ("first_and_newest", 95, [0, 6]),
        ("all", 260, [0, *range(2, 7)]),
    ],
)
def test_the_fixed_system_messages_are_sent_and_the_others_are_history(
    fixed: Any, limit_tokens: int, sent: list[int]
) -> None:
    notes = [{"role": "developer", "content": f"note {number} " * 9} for number in range(5)]
    chat = [
        SYSTEM,
        {"role": "user", "content": "why " * 200},
        *notes,
        {"role": "user", "content": "so " * 30},
    ]
    fitted = fit(chat, limit_tokens, options=FitOptions(fixed=fixed))
    assert [source for source in fitted.sources if source in (0, *range(2, 7))] == sent


@pytest.mark.parametrize("question", ["When?", [{"type": "text", "text": "When?"}]])
def test_artifacts_can_be_the_beginning_of_the_users_last_message(question: Any) -> None:
    chat = [SYSTEM, {"role": "user", "content": question}]
    fitted = fit(chat, 400, artifacts=FACT, options=FitOptions(place="user"))
    text = "We close at 6 pm.\n\nWhen?"
    assert fitted.messages == [
        SYSTEM,
        {"role": "user", "content": text if question == "When?" else [{"type": "text", "text": text}]},
    ]
    assert fitted.used_tokens == sum(map(cost, fitted.messages))
    assert fitted.sources == (0, 1)


@pytest.mark.parametrize(
    "system", ["Be brief.", [{"type": "text", "text": "Be brief.", "cache_control": {}}], None]
)
def test_artifacts_can_be_the_end_of_the_system_prompt(system: Any) -> None:
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": "When?"}],
        "system": system,
        "model": "m",
    }
    fitted = fit(body, 400, artifacts=FACT, options=FitOptions(place="system"))
    text = "Be brief.\n\nWe close at 6 pm." if system else "We close at 6 pm."
    sent = [{**system[0], "text": text}] if isinstance(system, list) else text
    assert fitted.body == {**body, "system": sent}
    assert fitted.used_tokens == sum(map(cost, [{"role": "system", "content": text}, *fitted.messages]))


@pytest.mark.parametrize("place", ["user", "system"])
def test_artifacts_in_another_message_keep_to_the_limit(place: Literal["user", "system"]) -> None:
    many = [{"content": f"fact {number} " * 5} for number in range(50)]
    chat = [SYSTEM, {"role": "user", "content": "  \n" + "why " * 60}]
    for limit_tokens in range(150, 260, 7):
        fitted = fit(chat, limit_tokens, artifacts=many, options=FitOptions(place=place))
        assert fitted.used_tokens == sum(map(cost, fitted.messages)) <= limit_tokens
        assert len(fitted.messages) == 2


def test_a_chat_without_a_system_prompt_gets_artifacts_as_one() -> None:
    chat = [{"role": "user", "content": "When?"}]
    fitted = fit(chat, 400, artifacts=FACT, options=FitOptions(place="system"))
    assert fitted.body == [{"role": "system", "content": "We close at 6 pm."}, *chat]
    assert fitted.used_tokens == sum(map(cost, fitted.messages))


@pytest.mark.parametrize("blank", ["", " \n"])
def test_artifacts_replace_a_blank_system_prompt(blank: str) -> None:
    system = {"role": "system", "content": "We close at 6 pm."}
    asked = {"role": "user", "content": "When?"}
    called = {"type": "tool-call", "toolCallId": "a", "toolName": "x", "input": {}}
    output = {"type": "text", "value": "v"}
    found = {"type": "tool-result", "toolCallId": "a", "toolName": "x", "output": output}
    chats: list[list[Any]] = [
        [asked],
        [asked, {"role": "assistant", "content": [called]}, {"role": "tool", "content": [found]}],
    ]
    for chat in chats:
        body = [{"role": "system", "content": blank}, *chat]
        fitted = fit(body, 400, artifacts=FACT, options=FitOptions(place="system"))
        assert fitted.messages == [system, *chat]


def test_artifacts_are_a_system_message_of_langchain_in_place_of_a_blank_one() -> None:
    langchain = pytest.importorskip("langchain_core.messages")
    question = langchain.HumanMessage("When?")
    chat = [langchain.SystemMessage(" "), question]
    fitted = fit(chat, 400, artifacts=FACT, options=FitOptions(place="system"))
    assert fitted.messages == [langchain.SystemMessage("We close at 6 pm."), question]


def test_artifacts_are_joined_to_a_text_and_not_to_another_block_with_a_field_of_that_name() -> None:
    note: dict[str, Any] = {"type": "note", "text": "an unknown block"}
    chat = [SYSTEM, {"role": "user", "content": [note, {"type": "text", "text": "When?"}]}]
    fitted = fit(chat, 400, artifacts=FACT, options=FitOptions(place="user"))
    text = {"type": "text", "text": "We close at 6 pm.\n\nWhen?"}
    assert fitted.messages[1]["content"] == [note, text]
    assert fitted.used_tokens > fit(chat, 400).used_tokens


def test_a_text_of_a_separator_that_only_some_pythons_call_white_space_is_sent() -> None:
    block = {"type": "text", "text": "\x1c"}
    body: dict[str, Any] = {"system": "Be brief.", "messages": [{"role": "user", "content": [block]}]}
    assert fit(body, 400).messages[0]["content"] == [block]


def test_without_a_session_the_window_moves_seldom_unless_nothing_continues_the_chat() -> None:
    turns = [
        {"role": role, "content": f"{role} {turn}"} for turn in range(120) for role in ("user", "assistant")
    ]
    limit_tokens = 600
    beginnings: dict[bool, list[int | None]] = {True: [], False: []}
    used: dict[bool, list[int]] = {True: [], False: []}
    for end in range(121, 240, 2):
        for continues in (True, False):
            fitted = fit(turns[:end], limit_tokens, options=FitOptions(continues=continues))
            beginnings[continues].append(fitted.sources[0])
            used[continues].append(fitted.used_tokens)
    assert len(set(beginnings[False])) == len(beginnings[False])
    assert len(set(beginnings[True])) * 4 < len(beginnings[True])
    assert min(used[False]) >= limit_tokens - 40
    assert min(used[True]) >= (0.88 - 0.05) * limit_tokens


def test_without_a_session_results_are_cleared_in_steps_unless_nothing_continues_the_chat() -> None:
    chat: list[dict[str, Any]] = [{"role": "user", "content": "Look."}]
    for number in range(60):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        chat.append({"role": "assistant", "content": None, "tool_calls": [call]})
        chat.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"{number} row " * 30})
    limit_tokens = 3_000
    cleared: dict[bool, list[int]] = {True: [], False: []}
    for end in range(81, len(chat), 2):
        for continues in (True, False):
            fitted = fit(chat[:end], limit_tokens, options=FitOptions(continues=continues))
            results = fitted.decision.tool_results
            assert results
            cleared[continues].append(results.cleared)
            assert fitted.used_tokens > limit_tokens * (0.8 if continues else 0.93)
    assert len(set(cleared[False])) == len(cleared[False])
    assert len(set(cleared[True])) * 2 < len(cleared[True])
