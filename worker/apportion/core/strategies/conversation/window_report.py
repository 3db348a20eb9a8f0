"""Report on a conversation whose beginning is kept: how much repeats, why no more, and where to cache.

The beginning ends with the history: behind it is the new message, up to which no provider is told to cache.
"""

from bisect import bisect_left
from collections.abc import Sequence

from msgspec import UNSET, Struct

from apportion.core.events import Opt
from apportion.core.identity import canonical_json_of_elements
from apportion.core.results import Breakpoint, ChatWindow, WindowBreak
from apportion.core.strategies.conversation.chat_state import SentBeginning
from apportion.core.strategies.conversation.kept_history import ConversationTask, KeptHistory
from apportion.core.strategies.conversation.places import MessageDigests, MessagePlace, short_digest

_BREAKPOINTS_MAX = 4


class SentChat(Struct, frozen=True):
    """The text before the new message and its group: system prompt, pinned messages, kept history.

    Messages are indices, in their order; `end` is where the history ends. `used_tokens` are the whole text's.
    """

    system_prompt: str
    system_tokens: int
    pinned: Sequence[int]
    history: Sequence[int]
    end: int
    used_tokens: int

    @property
    def cut(self) -> int:
        """The index of the first kept message; of an empty history, its end."""
        return self.history[0] if self.history else self.end


class WindowReport(Struct, frozen=True):
    """The report, the breakpoints, and what the session carries."""

    window: ChatWindow
    breakpoints: tuple[Breakpoint, ...]
    sent: SentBeginning


class _Comparison(Struct, frozen=True):
    """A text's beginning beside the last text's.

    `repeats` says that the last text's history came again, `unchanged` how many messages of it are sent with
    the same text.
    """

    last: SentBeginning
    current: SentBeginning
    is_same_cut: bool
    repeats: bool
    unchanged: int

    @property
    def is_same_system(self) -> bool:
        return self.last.system == self.current.system

    @property
    def is_same_pins(self) -> bool:
        return self.last.pins == self.current.pins


def report_window(task: ConversationTask, kept: KeptHistory, sent: SentChat) -> WindowReport:
    """Return the report on what is sent."""
    messages, last = task.own.conversation.messages, kept.last
    each = canonical_json_of_elements([messages[index] for index in sent.history], "")
    pins = canonical_json_of_elements([messages[index] for index in sent.pinned], "")
    is_same_cut = last is not None and kept.last_cut == sent.cut
    sent_now = SentBeginning(
        cut=MessageDigests(messages).place_at(sent.cut) if each else MessagePlace(sent.cut, b""),
        since=last.since if last is not None and is_same_cut else task.own.session.sequence,
        system=short_digest(sent.system_prompt.encode()),
        pins=short_digest(b",".join(pins)),
        kept=len(each),
        history=short_digest(b",".join(each)),
    )
    comparison = None
    if last is not None:
        repeats = is_same_cut and short_digest(b",".join(each[: last.kept])) == last.history
        unchanged = _unchanged(kept, sent.history[: last.kept]) if repeats else 0
        comparison = _Comparison(last, sent_now, is_same_cut, repeats, unchanged)
    tokens, items = _shared(comparison, kept, sent)
    window = ChatWindow(
        tokens=tokens,
        share=tokens * 1_000 // (sent.used_tokens or 1),
        cut=sent.cut,
        since=sent_now.since,
        broken=_break(task, kept, comparison),
    )
    return WindowReport(window, _breakpoints(kept, sent, items), sent_now)


def _unchanged(kept: KeptHistory, history: Sequence[int]) -> int:
    """Return how many messages, the same as before, are sent with the same text."""
    stale = kept.clearing.stale
    return next((place for place, index in enumerate(history) if index in stale), len(history))


def _shared(comparison: _Comparison | None, kept: KeptHistory, sent: SentChat) -> tuple[int, int]:
    """Return how many tokens and items of the beginning are unchanged."""
    if comparison is None or not comparison.is_same_system:
        return 0, 0
    same = sent.history[: comparison.unchanged] if comparison.is_same_pins else ()
    pinned = sent.pinned if comparison.is_same_pins else ()
    tokens = sent.system_tokens + sum([kept.costs[index] for index in (*pinned, *same)])
    return tokens, bool(sent.system_prompt) + len(pinned) + len(same)


def _break(task: ConversationTask, kept: KeptHistory, comparison: _Comparison | None) -> Opt[WindowBreak]:
    """Return why the beginning is not the last text's; absent if it is, and a provider may still have it."""
    session, clearing = task.own.session, kept.clearing
    if comparison is None:
        return WindowBreak.POLICY_CHANGED if session.is_outdated else WindowBreak.FIRST
    is_same_cut, is_partly_new = comparison.is_same_cut, comparison.unchanged < comparison.last.kept
    is_changed = is_partly_new and not (comparison.repeats and clearing.has_moved)
    causes = (
        (session.is_cold, WindowBreak.TTL_EXPIRED),
        (not comparison.is_same_system, WindowBreak.SYSTEM_CHANGED),
        (not comparison.is_same_pins, WindowBreak.PINS_CHANGED),
        (kept.last_cut is None or (is_same_cut and is_changed), WindowBreak.MESSAGES_CHANGED),
        (not is_same_cut, WindowBreak.ROOM),
        (is_partly_new, WindowBreak.CLEARED),
    )
    return next((cause for holds, cause in causes if holds), UNSET)


def _breakpoints(kept: KeptHistory, sent: SentChat, unchanged: int) -> tuple[Breakpoint, ...]:
    """Return where a provider may cache: the last four that differ of all places where it pays.

    They are the ends of the system prompt, of the pins, of the cleared part, of what repeats, and of the
    history. If the boundary has moved, the last text's cleared part is what a cache still has.
    """
    system = int(bool(sent.system_prompt))
    pins = system + len(sent.pinned)
    clearing = kept.clearing
    cleared = [pins + bisect_left(sent.history, end) for end in (clearing.last_boundary, clearing.boundary)]
    if clearing.has_moved:
        unchanged = min(unchanged, cleared[0])
    ends = {system, pins, unchanged, cleared[1], pins + len(sent.history)} - {0}
    return tuple([Breakpoint(items) for items in sorted(ends)[-_BREAKPOINTS_MAX:]])
