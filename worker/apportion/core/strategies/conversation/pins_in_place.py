"""Comparison of a text whose pinned messages keep their places with the last one, message by message.

The new message of the last text counts as unchanged, although it is now pinned or part of the history.
"""

from collections.abc import Sequence

from msgspec import UNSET

from apportion.core.events import Opt
from apportion.core.history import as_message
from apportion.core.identity import canonical_json_of_any
from apportion.core.results import WindowBreak
from apportion.core.strategies.conversation.chat_state import SentBeginning
from apportion.core.strategies.conversation.kept_history import ConversationTask, KeptHistory
from apportion.core.strategies.conversation.places import short_digest

_DIGEST_BYTES = 4
_DIGESTS_MAX = 4_096
"""A session carries at most 16 KiB of digests; the messages behind them count as changed."""


def digests_of_sent(
    task: ConversationTask, kept: KeptHistory, sent: Sequence[int], *, pins: int
) -> tuple[bytes, bytes]:
    """Return digests of the messages as they are sent: of the first `pins` ones, and of the others."""
    conversation, contents = task.own.conversation, kept.clearing.contents
    chat = (*conversation.messages, as_message(conversation.new_message))
    digests = []
    for index in sent[:_DIGESTS_MAX]:
        cleared = {"content": contents[index]} if index in contents else {}
        digests.append(short_digest(canonical_json_of_any(chat[index] | cleared))[:_DIGEST_BYTES])
    return b"".join(digests[:pins]), b"".join(digests[pins:])


def count_unchanged(last: SentBeginning | None, current: SentBeginning) -> int:
    """Return how many messages at the beginning of a text are the last text's."""
    if last is None or last.system != current.system:
        return 0
    before, now = last.pins + last.history, current.pins + current.history
    places = range(min(len(before), len(now)) // _DIGEST_BYTES)
    return next((place for place in places if _at(before, place) != _at(now, place)), len(places))


def first_break(task: ConversationTask) -> WindowBreak:
    """Return why a text begins anew if no last one is carried."""
    return WindowBreak.POLICY_CHANGED if task.own.session.is_outdated else WindowBreak.FIRST


def break_in_place(
    task: ConversationTask, kept: KeptHistory, current: SentBeginning, changed: Sequence[int]
) -> Opt[WindowBreak]:
    """Return why the text does not begin with the whole last text; absent if it does, and may be cached.

    `changed` are the messages behind those that are unchanged.
    """
    last, session = kept.last, task.own.session
    if last is None:
        return first_break(task)
    is_cleared = kept.clearing.has_moved and bool(kept.clearing.contents.keys() & changed[:1])
    unchanged = current.kept - len(changed)
    pinned = max(len(last.pins), len(current.pins)) // _DIGEST_BYTES
    causes: tuple[tuple[bool, Opt[WindowBreak]], ...] = (
        (session.is_cold, WindowBreak.TTL_EXPIRED),
        (last.system != current.system, WindowBreak.SYSTEM_CHANGED),
        (unchanged == min(last.kept, _DIGESTS_MAX), UNSET),
        (kept.last_cut is None, WindowBreak.MESSAGES_CHANGED),
        (kept.last_cut != current.cut.index, WindowBreak.ROOM),
        (is_cleared, WindowBreak.CLEARED),
        (unchanged < pinned, WindowBreak.PINS_CHANGED),
    )
    return next((cause for holds, cause in causes if holds), WindowBreak.MESSAGES_CHANGED)


def _at(digests: bytes, place: int) -> bytes:
    return digests[place * _DIGEST_BYTES : (place + 1) * _DIGEST_BYTES]
