"""Report on a stable window: the repeated beginning, the reason for its end, and the breakpoints of a cache.

No breakpoint is after the history. If the pinned messages come first, the beginning ends there at the latest.
If they keep their positions, texts are compared message by message up to the new message. So the new message
of the last text counts as unchanged, although it is now pinned or in the history.
"""

from bisect import bisect_left
from collections.abc import Sequence
from posixpath import commonprefix

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.canonical_json import canonical_json_of_elements
from apportion.core.events import Opt
from apportion.core.history import as_message
from apportion.core.results import Breakpoint, ChatWindow, WindowBreak
from apportion.core.strategies.conversation.chat_state import (
    MessageDigests,
    MessagePlace,
    SentBeginning,
    short_digest,
)
from apportion.core.strategies.conversation.kept_history import ConversationTask, KeptHistory

_BREAKPOINTS_MAX = 4
_READ_MAX = 40
"""OpenAI looks up the latest 50 breakpoints."""
_DIGEST_BYTES = 4
_DIGESTS_MAX = 4_096
"""A session carries at most 16 KiB of digests; later messages count as changed."""


class SentChat(Struct, frozen=True):
    """The sent text; messages are indices, in the order of the text."""

    system_prompt: str
    system_tokens: int
    pinned: Sequence[int]
    """All pinned messages; if they keep their positions, only pinned messages before the cut."""
    history: Sequence[int]
    """The kept history; if pinned messages keep their positions, also the pinned messages after the cut."""
    end: int
    """The index after the history: the first message of the new message's group."""
    used_tokens: int
    """The tokens of the whole text."""
    rest: Sequence[int] = ()
    """The messages after the history; empty unless pinned messages keep their positions."""

    @property
    def cut(self) -> int:
        """The index of the first kept message; `end` if no history is kept."""
        return self.history[0] if self.history else self.end


class WindowReport(Struct, frozen=True):
    """The report, the breakpoints, and the beginning that the session carries."""

    window: ChatWindow
    breakpoints: tuple[Breakpoint, ...]
    sent: SentBeginning


def with_pins_in_place(sent: SentChat, messages: int) -> SentChat:
    """Return the text with the pins after the cut in the history, and the rest up to the new message.

    `messages` counts all messages, the new one included.
    """
    before = bisect_left(sent.pinned, sent.cut)
    history = sorted((*sent.history, *sent.pinned[before:]))
    return replace(sent, pinned=sent.pinned[:before], history=history, rest=range(sent.end, messages))


def with_rest(sent: SentChat, messages: int) -> SentChat:
    """Return the text with the rest up to the new message, so that texts are compared message by message."""
    return replace(sent, rest=range(sent.end, messages))


def report_window(task: ConversationTask, kept: KeptHistory, sent: SentChat) -> WindowReport:
    """Return the report on a text."""
    sent_now, unchanged, broken = (_compare_in_place if sent.rest else _compare)(task, kept, sent)
    tokens = items = 0
    if kept.last is not None and kept.last.system == sent_now.system:
        order = (*sent.pinned, *sent.history, *sent.rest)
        tokens = sent.system_tokens + sum([kept.costs[index] for index in order[:unchanged]])
        items = bool(sent.system_prompt) + unchanged
    window = ChatWindow(
        tokens=tokens,
        share=tokens * 1_000 // (sent.used_tokens or 1),
        cut=sent.cut,
        since=sent_now.since,
        broken=broken,
    )
    return WindowReport(window, _breakpoints(task, kept, sent, items), sent_now)


def _sent_now(
    task: ConversationTask, kept: KeptHistory, sent: SentChat, *, pins: bytes, history: bytes, messages: int
) -> SentBeginning:
    digests, last = MessageDigests(task.own.conversation.messages), kept.last
    return SentBeginning(
        cut=digests.place_at(sent.cut) if sent.history else MessagePlace(sent.cut, b""),
        since=last.since if last is not None and kept.last_cut == sent.cut else task.own.session.sequence,
        system=short_digest(sent.system_prompt.encode()),
        pins=pins,
        kept=messages,
        history=history,
    )


def _compare_in_place(
    task: ConversationTask, kept: KeptHistory, sent: SentChat
) -> tuple[SentBeginning, int, Opt[WindowBreak]]:
    """Return the beginning, the number of its unchanged messages, and the reason of the first change."""
    order = (*sent.pinned, *sent.history, *sent.rest)
    pins, history = _digests_of_sent(task, kept, order, pins=len(sent.pinned))
    sent_now = _sent_now(task, kept, sent, pins=pins, history=history, messages=len(order))
    unchanged = _count_unchanged(kept.last, sent_now)
    return sent_now, unchanged, _break_in_place(task, kept, sent_now, order[unchanged:])


def _compare(
    task: ConversationTask, kept: KeptHistory, sent: SentChat
) -> tuple[SentBeginning, int, Opt[WindowBreak]]:
    """Return the same as `_compare_in_place`, for a text with the pinned messages first."""
    messages, last = task.own.conversation.messages, kept.last
    each = canonical_json_of_elements([messages[index] for index in sent.history], "")
    pins = canonical_json_of_elements([messages[index] for index in sent.pinned], "")
    sent_now = _sent_now(
        task,
        kept,
        sent,
        pins=short_digest(b",".join(pins)),
        history=short_digest(b",".join(each)),
        messages=len(each),
    )
    if last is None:
        return sent_now, 0, _first_break(task)
    is_same_cut, is_same_pins = kept.last_cut == sent.cut, last.pins == sent_now.pins
    repeats = is_same_cut and short_digest(b",".join(each[: last.kept])) == last.history
    unchanged = _unchanged(kept, sent.history[: last.kept]) if repeats else 0
    is_partly_new = unchanged < last.kept
    is_changed = is_partly_new and not (repeats and kept.clearing.has_moved)
    causes = (
        (task.own.session.is_cold, WindowBreak.TTL_EXPIRED),
        (last.system != sent_now.system, WindowBreak.SYSTEM_CHANGED),
        (not is_same_pins, WindowBreak.PINS_CHANGED),
        (kept.last_cut is None or (is_same_cut and is_changed), WindowBreak.MESSAGES_CHANGED),
        (not is_same_cut, WindowBreak.ROOM),
        (is_partly_new, WindowBreak.CLEARED),
    )
    shared = len(sent.pinned) + unchanged if is_same_pins else 0
    return sent_now, shared, next((cause for holds, cause in causes if holds), UNSET)


def _unchanged(kept: KeptHistory, history: Sequence[int]) -> int:
    """Return the number of messages before the first that clearing may have changed."""
    stale = kept.clearing.stale
    return next((number for number, index in enumerate(history) if index in stale), len(history))


def _digests_of_sent(
    task: ConversationTask, kept: KeptHistory, sent: Sequence[int], *, pins: int
) -> tuple[bytes, bytes]:
    """Return the digests of the first `pins` messages and of the others, after clearing."""
    conversation, contents = task.own.conversation, kept.rewritten
    chat = (*conversation.messages, as_message(conversation.new_message))
    messages = [
        {**chat[index], "content": contents[index]} if index in contents else chat[index]
        for index in sent[:_DIGESTS_MAX]
    ]
    digests = [short_digest(each)[:_DIGEST_BYTES] for each in canonical_json_of_elements(messages, "")]
    return b"".join(digests[:pins]), b"".join(digests[pins:])


def _count_unchanged(last: SentBeginning | None, current: SentBeginning) -> int:
    """Return the number of messages at the beginning of a text that are the same in the last text."""
    if last is None or last.system != current.system:
        return 0
    # a shared first part of a digest does not count
    return len(commonprefix([last.pins + last.history, current.pins + current.history])) // _DIGEST_BYTES


def _first_break(task: ConversationTask) -> WindowBreak:
    """Return the reason of a new beginning if the session carries none."""
    return WindowBreak.POLICY_CHANGED if task.own.session.is_outdated else WindowBreak.FIRST


def _break_in_place(
    task: ConversationTask, kept: KeptHistory, current: SentBeginning, changed: Sequence[int]
) -> Opt[WindowBreak]:
    """Return why the text does not begin with the whole last text; absent if it does and may be cached.

    `changed` has the messages after the unchanged beginning.
    """
    last, session = kept.last, task.own.session
    if last is None:
        return _first_break(task)
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
        (bool(kept.rewritten.keys() & changed[:1]), WindowBreak.SHORTENED),
        (unchanged < pinned, WindowBreak.PINS_CHANGED),
    )
    return next((cause for holds, cause in causes if holds), WindowBreak.MESSAGES_CHANGED)


def _breakpoints(
    task: ConversationTask, kept: KeptHistory, sent: SentChat, unchanged: int
) -> tuple[Breakpoint, ...]:
    """Return at most four breakpoints, the last of the distinct candidates, ascending.

    Candidates are the ends of the system prompt, the pins, the cleared part, the repeated part, and the
    history. If the boundary has moved, a cache still has only the last text's cleared part.

    If the model only matches breakpoints, the last repeated messages are marked, too, because one of them was
    written at the end of a history.
    """
    system = int(bool(sent.system_prompt))
    pins = system + len(sent.pinned)
    clearing = kept.clearing
    cleared = [pins + bisect_left(sent.history, end) for end in (clearing.last_boundary, clearing.boundary)]
    if clearing.has_moved:
        unchanged = min(unchanged, cleared[0])
    end = pins + len(sent.history)
    ends = {system, pins, min(unchanged, end), cleared[1], end} - {0}
    rules = None if task.model is None else task.model.cache
    read = min(_READ_MAX, unchanged) if rules is not None and rules.matching == "breakpoints" else 0
    marked = {*sorted(ends)[-_BREAKPOINTS_MAX:], *range(unchanged - read + 1, unchanged + 1)}
    return tuple([Breakpoint(items, ttl=task.mark_ttl) for items in sorted(marked)])
