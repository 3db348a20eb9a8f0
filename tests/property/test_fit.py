"""Fitting of arbitrary chats: the limit, sent messages, pairs of calls and results, and equal bytes."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, json
from support.drawn_conversations import messages, texts
from support.fitted_chats import (
    Message,
    cost,
    held_tokens,
    text_of,
    tool_round,
    tool_round_of_anthropic,
    unpaired,
)

from apportion import FitError, FitOptions, Fitted, LocalSessions, fit
from apportion.doors.fitting.shapes import read_chat

FIXED_ROLES = ("system", "developer")
limits = st.integers(1, 400)
artifacts = st.none() | st.lists(texts.map(lambda text: {"content": f"artifact {text}"}), max_size=4)
rounds = st.builds(tool_round, st.sampled_from("abc"), texts.map(lambda text: text * 20))
said = st.one_of(messages.map(lambda message: [message]), rounds)
chats = st.lists(said, min_size=1, max_size=8).map(lambda parts: [*chain(*parts)])

_said = texts.map(lambda text: text if text.strip() else "so")
_blocks = _said.map(lambda text: {"type": "text", "text": text})
_words = st.builds(
    lambda role, content: [{"role": role, "content": content}],
    st.sampled_from(["user", "assistant"]),
    _said | st.lists(_blocks, min_size=1, max_size=3),
)


def _with_words(called: list[Message], block: Message) -> list[Message]:
    """Return a tool round with a result that is followed by a text of the user."""
    call, result = called
    return [call, {**result, "content": [*result["content"], block]}]


_called = st.builds(tool_round_of_anthropic, st.sampled_from("abc"), texts.map(lambda text: text * 20))
_anthropic_parts = st.one_of(_words, _called, st.builds(_with_words, _called, _blocks))
anthropic_chats = st.builds(
    lambda system, first, parts: {"system": system, "messages": [first, *chain(*parts)]},
    st.none() | texts,
    _said.map(lambda text: {"role": "user", "content": text}),
    st.lists(_anthropic_parts, max_size=8),
)


def fitted(
    chat: Any, limit_tokens: int, given_artifacts: Any, sessions: LocalSessions, turn: int
) -> Fitted | None:
    """Return the fitted chat of a turn; None if it cannot be fitted."""
    requested_at = datetime(2026, 3, 1, 12, turn % 60, tzinfo=UTC)
    options = FitOptions(request_id=f"r{turn}", requested_at=requested_at, fixed="all", place="message")
    try:
        return fit(
            chat, limit_tokens, session_id="s1", client=sessions, artifacts=given_artifacts, options=options
        )
    except FitError as error:
        if error.code not in {"infeasible", "invalid_value"}:
            raise
        return None


def counted(fitting: Fitted, *, is_anthropic: bool) -> list[Message]:
    """Return the messages that are sent as they are counted."""
    given_chat: Any = fitting.messages
    if is_anthropic:
        given_chat = {"messages": fitting.messages, "system": fitting.system}
    return [part.message for part in read_chat(given_chat).counted]


def said_by(chat: list[Message], roles: Sequence[str]) -> list[str]:
    """Return the texts of these roles, without blank ones."""
    texts_of_roles = [text_of(message["content"]) for message in chat if message["role"] in roles]
    return [text for text in texts_of_roles if text.strip()]


@given(chats | anthropic_chats, limits, artifacts)
@settings(deadline=None)
def test_sent_messages_are_within_the_limit_and_whole(
    chat: Any, limit_tokens: int, given_artifacts: Any
) -> None:
    fitting = fitted(chat, limit_tokens, given_artifacts, LocalSessions(), 0)
    if fitting is None:
        return
    is_anthropic = isinstance(chat, dict)
    sent = counted(fitting, is_anthropic=is_anthropic)
    assert fitting.used_tokens == sum(map(cost, sent)) <= limit_tokens
    assert unpaired(sent) == []
    came = [part.message for part in read_chat(chat).counted]
    assert [source for source in fitting.sources if source is not None][-1] == len(
        chat["messages"] if is_anthropic else chat
    ) - 1
    assert said_by(sent, FIXED_ROLES) == said_by(came, FIXED_ROLES)
    questions = said_by(came, ["user"])
    is_shortened = any(" tokens omitted]" in text for text in said_by(sent, ["user"]))
    assert (
        is_shortened or questions[-1:] == [text for text in said_by(sent, ["user"]) if text in questions][-1:]
    )
    for place, message in enumerate(sent):
        if text_of(message["content"]).startswith("artifact "):
            assert unpaired(sent[:place]) == []
    if is_anthropic:
        assert fitting.messages[0]["role"] == "user"


@given(st.lists(chats, min_size=1, max_size=5), limits, artifacts)
@settings(deadline=None)
def test_the_same_turns_give_the_same_bytes_with_any_store_of_rows(
    turns: list[list[Message]], limit_tokens: int, given_artifacts: Any
) -> None:
    here, rows = LocalSessions(), dict[str, bytes]()
    chat: list[Message] = []
    for turn, added in enumerate(turns):
        chat = [*chat, *added]
        before = json.encode(chat)
        one, other = (
            fitted(chat, limit_tokens, given_artifacts, sessions, turn)
            for sessions in (here, LocalSessions(rows=rows))
        )
        assert json.encode(one) == json.encode(other)
        assert json.encode(chat) == before


@given(st.lists(rounds, min_size=1, max_size=12), st.integers(60, 300))
@settings(deadline=None)
def test_messages_keep_their_ids_while_a_chat_grows(turns: list[list[Message]], limit_tokens: int) -> None:
    sessions = LocalSessions()
    chat: list[Message] = [{"role": "system", "content": "Be brief."}]
    for turn, added in enumerate(turns):
        chat = [*chat, {"role": "user", "content": f"question {turn}"}, *added]
        fitting = fitted(chat, limit_tokens, None, sessions, turn)
        if fitting is None:
            continue
        names = [entry.id for entry in fitting.decision.candidates if entry.outcome == "selected"]
        indices = sorted(len(chat) - 1 if name == "new_message" else int(name[9:]) for name in names)
        assert [chat[index]["role"] for index in indices] == [message["role"] for message in fitting.messages]
        assert all(
            sent == chat[index]
            or sent["content"].startswith("[result of read cleared, ")
            or " tokens omitted]" in sent["content"]
            for index, sent in zip(indices, fitting.messages, strict=True)
        )


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), chats), min_size=2, max_size=6), limits)
@settings(deadline=None, max_examples=50)
def test_the_held_prefix_is_the_repeated_part(
    turns: list[tuple[int, int, list[Message]]], limit_tokens: int
) -> None:
    sessions, chat, before = LocalSessions(), list[Message](), list[Message]()
    for turn, (dropped_first, dropped_last, added) in enumerate(turns):
        chat = [*chat[dropped_first : len(chat) - dropped_last], *added]
        fitting = fitted(chat, limit_tokens, None, sessions, turn)
        if fitting is None:
            return
        window, now = fitting.decision.window, fitting.messages
        assert window is not UNSET
        assert window.tokens == held_tokens(before, now)
        assert (window.broken is UNSET) == (before != [] and before == now[: len(before)])
        before = now
