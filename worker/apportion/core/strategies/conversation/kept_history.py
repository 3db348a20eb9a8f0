"""The part of a history that is sent: tool results are cleared first, then the window is chosen.

With `[prefix]`, the window is stable, so that its cut is kept for many turns:

1. A history that fits its room is kept whole.
2. Else the messages from the last text's cut on are kept, if they fit and the provider's cache is warm.
3. Else the cut moves: the newest messages that leave `slack` of the room free are kept.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from apportion.core.events import Conversation
from apportion.core.results import Margin
from apportion.core.strategies.conversation.chat_state import (
    MessageDigests,
    MessagePlace,
    SentBeginning,
    decode_state,
)
from apportion.core.strategies.conversation.choose import Newest, newest
from apportion.core.strategies.conversation.clearing import Clearing, clear, clearable_results
from apportion.core.strategies.conversation.groups import Plan
from apportion.core.strategies.conversation.messages import Chat
from apportion.core.strategies.conversation.policy import ConversationPolicy
from apportion.core.strategy_api.task import OwnPart, SessionPart, Task


class ConversationPart(OwnPart, frozen=True):
    """The request's conversation, and the session."""

    conversation: Conversation
    session: SessionPart


ConversationTask: TypeAlias = Task[ConversationPolicy, ConversationPart]


class CountedChat(Struct, frozen=True):
    """A conversation with its plan. `contents` and `costs` are tokens by message, the new message's last."""

    chat: Chat
    plan: Plan
    contents: Sequence[int]
    costs: Sequence[int]


class KeptHistory(Struct, frozen=True):
    """The kept messages of a history, by index of the message."""

    kept: tuple[int, ...]
    """The kept messages, newest first."""
    margins: Mapping[int, Margin]
    costs: Sequence[int]
    """The cost of each message after clearing."""
    withheld: frozenset[int] = frozenset()
    """Messages that only the stable window drops."""
    clearing: Clearing = Clearing()
    last: SentBeginning | None = None
    """The beginning of the last text."""
    last_cut: int | None = None
    """The index of the last text's cut in this request; None if it was not found."""


def keep_history(task: ConversationTask, counted: CountedChat, room_tokens: int) -> KeptHistory:
    """Return the messages of the history that are kept in a room of so many tokens."""
    policy, plan = task.policy, counted.plan
    slack, table = policy.prefix.slack, policy.tool_results
    messages, state = task.own.conversation.messages, decode_state(task.own.session.carried)
    digests = MessageDigests(messages)
    last, cut, may_stay = state.sent, None, None
    if last is not None:
        cut = digests.find(last.cut, _allowed_cuts(plan).__contains__)
        # an empty window has no message to stay at
        may_stay = cut if last.cut.digests else None
    clearing, costs = Clearing(), counted.costs
    if table is not None:
        # a boundary may be at any index, even inside a group of calls
        boundary = 0 if state.boundary is None else digests.find(state.boundary, lambda _: True)
        clearing = clear(
            clearable_results(counted.chat, plan, table.exclude, counted.contents, task.counter),
            table,
            cost_tokens=sum([costs[index] for index in _free_messages(plan) if index >= (may_stay or 0)]),
            room_tokens=room_tokens,
            cut=may_stay or 0,
            boundary=boundary,
        )
        costs = [cost - clearing.saved.get(index, 0) for index, cost in enumerate(costs)]
    if slack:
        stays = None if task.own.session.is_cold else may_stay
        full, withheld = _keep_window(plan, costs, room_tokens, slack, stays)
    else:
        full = newest(plan, costs, room_tokens, gaps=policy.conversation.gaps)
        withheld = frozenset()
    return KeptHistory(full.kept, full.margins, costs, withheld, clearing, last, cut)


def next_boundary(task: ConversationTask, clearing: Clearing) -> MessagePlace | None:
    """Return the boundary of clearing as the session carries it; None if nothing is before it."""
    if not clearing.boundary:
        return None
    return MessageDigests(task.own.conversation.messages).place_at(clearing.boundary)


def _keep_window(
    plan: Plan, costs: Sequence[int], room_tokens: int, slack: int, cut: int | None
) -> tuple[Newest, frozenset[int]]:
    """Return the kept messages, and the messages that only the window drops.

    `cut` is the index of the last text's first kept message; None if it was not found or may not stay.
    Margins are relative to the whole room.
    """
    full = newest(plan, costs, room_tokens)
    history = _free_messages(plan)
    if len(full.kept) == len(history):
        return full, frozenset()
    kept = tuple([index for index in reversed(history) if cut is not None and index >= cut])
    if cut is None or sum([costs[index] for index in kept]) > room_tokens:
        kept = newest(plan, costs, room_tokens * (1_000 - slack) // 1_000).kept or full.kept
    return Newest(kept, full.margins), frozenset(full.kept).difference(kept)


def _free_messages(plan: Plan) -> list[int]:
    """Return the messages of the history that may be kept or left out, oldest first."""
    return [index for index in range(plan.mandatory) if index not in plan.fixed]


def _allowed_cuts(plan: Plan) -> frozenset[int]:
    """Return the indices of possible cuts: not at an unsuitable or pinned message, not inside a group."""
    within = {index for last, first in plan.starts.items() for index in range(first + 1, last + 1)}
    return frozenset(range(plan.mandatory + 1)) - plan.fixed - within
