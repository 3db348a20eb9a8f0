"""The part of a history that is sent: tool results are cleared first, then the window is chosen.

With `[prefix]`, the window is stable, so that its cut is kept for many turns:

1. A history that fits its room is kept whole.
2. Else the messages from the last text's cut on are kept, if they fit and the provider's cache is warm.
3. Else the cut moves: the newest messages that leave `slack` of the room free are kept.

A chat without a session has no last text. Its cut is at a step of `slack` of the total. Steps are counted
from the first message, by costs before clearing, so that they are the same in each call. A chat that no call
continues leaves no slack.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.events import Conversation
from apportion.core.results import Margin
from apportion.core.strategies.conversation.chat_state import (
    ChatState,
    MessageDigests,
    MessagePlace,
    SentBeginning,
)
from apportion.core.strategies.conversation.choose import Newest, newest
from apportion.core.strategies.conversation.clearing import (
    Boundaries,
    Clearable,
    Clearing,
    clear,
    clearable_media,
    clearable_results,
)
from apportion.core.strategies.conversation.counted_chat import CountedChat
from apportion.core.strategies.conversation.groups import Plan
from apportion.core.strategies.conversation.policy import ConversationPolicy, ToolResultsPolicy
from apportion.core.strategy_api.task import OwnPart, SessionPart, Task


class ConversationPart(OwnPart, frozen=True):
    """The request's conversation, and the session."""

    conversation: Conversation
    session: SessionPart


ConversationTask: TypeAlias = Task[ConversationPolicy, ConversationPart]


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
    rewritten: Mapping[int, Any] = {}
    """The new contents of shortened and cleared messages."""
    last: SentBeginning | None = None
    """The beginning of the last text."""
    last_cut: int | None = None
    """The index of the last text's cut in this request; None if it was not found."""


def keep_history(
    task: ConversationTask,
    counted: CountedChat,
    room_tokens: int,
    state: ChatState,
    *,
    largest_tokens: int = 0,
    cleared: Boundaries | None = None,
) -> KeptHistory:
    """Return the messages of the history that are kept in a room of so many tokens.

    With `largest_tokens`, a group that costs more is left out and does not end the history. `cleared`
    replaces the boundaries of the last text.
    """
    slack, digests = task.policy.prefix.slack, MessageDigests(task.own.conversation.messages)
    last, cut, may_stay = state.sent, None, None
    if last is not None:
        cut = digests.find(last.cut, _allowed_cuts(counted.plan).__contains__)
        # an empty window has no message to stay at
        may_stay = cut if last.cut.digests else None
    clearing, costs = _clear(task, counted, room_tokens, may_stay or 0, cleared or _found(state, digests))
    plan, too_large = counted.plan, dict[int, Margin]()
    if largest_tokens:
        too_large = _too_large(counted, costs, largest_tokens)
        plan = replace(plan, fixed=plan.fixed.union(too_large))
    if slack:
        stays = None if task.own.session.is_cold else may_stay
        if task.own.conversation.window == "steps":
            stays = _step_that_fits(plan, counted.costs, costs, room_tokens, _step_tokens(task))
        slack = 0 if task.own.conversation.window == "full" else slack
        full, withheld = _keep_window(plan, costs, room_tokens, slack, stays, needs_half=bool(largest_tokens))
    else:
        full = newest(plan, costs, room_tokens, gaps=task.policy.conversation.gaps)
        withheld = frozenset()
    rewritten = {index: form.content for index, form in counted.forms.items()} | dict(clearing.contents)
    margins = {**too_large, **full.margins}
    return KeptHistory(full.kept, margins, costs, withheld, clearing, rewritten, last, cut)


def place_of(task: ConversationTask, boundary: int | None) -> MessagePlace | None:
    """Return a boundary of clearing as the session carries it; None if nothing is before it."""
    return MessageDigests(task.own.conversation.messages).place_at(boundary) if boundary else None


def _found(state: ChatState, digests: MessageDigests) -> Boundaries:
    """Return the last text's boundaries. They may be at any index, even inside a group of calls."""
    places = (state.boundary, state.media_boundary)
    return Boundaries(*[0 if place is None else digests.find(place, lambda _: True) for place in places])


def _clear(
    task: ConversationTask, counted: CountedChat, room_tokens: int, cut: int, last: Boundaries
) -> tuple[Clearing, Sequence[int]]:
    """Return the clearing of this turn, and the costs after it."""
    policy, costs = task.policy, counted.costs
    table, media = policy.tool_results, policy.media
    if (table is None and media is None) or task.own.conversation.keep_results:
        return Clearing(), costs
    messages = task.own.conversation.messages
    results = Clearable() if table is None else clearable_results(counted, table)
    files = Clearable()
    if media is not None and counted.chat.media:
        files = clearable_media(counted, messages, policy, media)
    table = table or ToolResultsPolicy(exclude=())
    cost_tokens = sum([costs[index] for index in counted.free if index >= cut])
    clearing = clear(
        (results, files),
        table,
        cost_tokens=cost_tokens,
        room_tokens=room_tokens,
        target_tokens=_target_tokens(task, table, cost_tokens, room_tokens),
        cut=cut,
        last=last,
    )
    return clearing, [cost - clearing.saved.get(index, 0) for index, cost in enumerate(costs)]


def _target_tokens(
    task: ConversationTask, table: ToolResultsPolicy, cost_tokens: int, room_tokens: int
) -> int:
    """Return the cost at which clearing ends.

    Without a session, `fill` would only leave room free. A window by steps clears in steps, too, so that the
    cleared part grows seldom.
    """
    window = task.own.conversation.window
    if not table.fill or window is UNSET:
        return table.fill * room_tokens // 1_000
    step_tokens = 1 if window == "full" else _step_tokens(task)
    steps = -((room_tokens - cost_tokens) // step_tokens)  # rounded up
    return cost_tokens - steps * step_tokens


def _step_tokens(task: ConversationTask) -> int:
    """Return the tokens between two steps of a window by steps."""
    return max(1, task.total_tokens * task.policy.prefix.slack // 1_000)


def _too_large(counted: CountedChat, costs: Sequence[int], largest_tokens: int) -> dict[int, Margin]:
    """Return the messages of groups that cost more than the largest, each with its group's margin."""
    margins: dict[int, Margin] = {}
    starts = counted.plan.starts
    for last in counted.free:
        group = range(starts.get(last, last), last + 1)
        tokens = sum([costs[index] for index in group])
        if tokens > largest_tokens:
            margins |= dict.fromkeys(group, Margin(tokens, largest_tokens))
    return margins


def _keep_window(
    plan: Plan, costs: Sequence[int], room_tokens: int, slack: int, cut: int | None, *, needs_half: bool
) -> tuple[Newest, frozenset[int]]:
    """Return the kept messages, and the messages that only the window drops.

    `cut` is the index of the last text's first kept message; None if it was not found or may not stay.
    Margins are relative to the whole room. With `needs_half`, slack is not left free if that would leave more
    than half of the room empty.
    """
    full = newest(plan, costs, room_tokens)
    history = [index for index in range(plan.mandatory) if index not in plan.fixed]
    if len(full.kept) == len(history):
        return full, frozenset()
    kept = tuple([index for index in reversed(history) if cut is not None and index >= cut])
    if cut is None or sum([costs[index] for index in kept]) > room_tokens:
        kept = newest(plan, costs, room_tokens * (1_000 - slack) // 1_000).kept or full.kept
    if needs_half and 2 * sum([costs[index] for index in kept]) < room_tokens:
        kept = full.kept
    return Newest(kept, full.margins), frozenset(full.kept).difference(kept)


def _step_that_fits(
    plan: Plan, uncleared: Sequence[int], costs: Sequence[int], room_tokens: int, step_tokens: int
) -> int | None:
    """Return the first step from which the history fits the room; None if there is none.

    A step is the first possible cut at or behind a multiple of `step_tokens`, counted from the first message.
    """
    history = [index for index in range(plan.mandatory) if index not in plan.fixed]
    allowed = _allowed_cuts(plan)
    before_tokens = next_tokens = 0
    left_tokens = sum([costs[index] for index in history])
    for index in history:
        if before_tokens >= next_tokens and index in allowed:
            if left_tokens <= room_tokens:
                return index
            next_tokens = (before_tokens // step_tokens + 1) * step_tokens
        before_tokens += uncleared[index]
        left_tokens -= costs[index]
    return None


def _allowed_cuts(plan: Plan) -> frozenset[int]:
    """Return the indices of possible cuts: not at an unsuitable or pinned message, not inside a group."""
    within = {index for last, first in plan.starts.items() for index in range(first + 1, last + 1)}
    return frozenset(range(plan.mandatory + 1)) - plan.fixed - within
