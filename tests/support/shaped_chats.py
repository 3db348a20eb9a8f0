"""Chats that are read into the internal form and written back, whole or in part."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from apportion.doors.fitting.shapes import read_chat
from apportion.doors.fitting.shapes.form import KeptMessage, ShapedChat


def counted(given: Any) -> list[dict[str, Any]]:
    """Return the messages of a chat as they are counted."""
    return [message.message for message in read_chat(given).counted]


def written(given: Any, *kept: int, new: Mapping[int, Any] | None = None) -> Any:
    """Return a chat with these counted messages alone (all by default), some with a new content."""
    chat = read_chat(given)
    return body_of(
        chat, [KeptMessage(index, (new or {}).get(index)) for index in kept or range(len(chat.counted))]
    )


def body_of(chat: ShapedChat, kept: list[KeptMessage]) -> Any:
    """Return the body with its kept messages."""
    return chat.body([message.message for message in chat.sent(kept)], chat.sent_system(kept))


def chats_of(items: Sequence[Any]) -> st.SearchStrategy[list[Any]]:
    """Return lists of these items, in any order and number."""
    return st.lists(st.sampled_from(items), min_size=1, max_size=12)
