"""Groups of messages that are kept or dropped together: a call, its results, and all between them."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from apportion.core.strategies.conversation.messages import Chat


class GroupSpan(Struct, frozen=True, order=True):
    """Messages from the first to the last; complete if each call has its result and each result its call."""

    first: int
    last: int
    complete: bool


class Plan(Struct, frozen=True):
    """The possible cuts of a history, by index of the message."""

    mandatory: int
    """Messages from here on are sent with the new message."""
    unsuitable: frozenset[int]
    """Messages that are never sent."""
    starts: Mapping[int, int]
    """The first message of each group by its last one."""
    pinned: tuple[int, ...] = ()
    """Pinned messages and their groups, oldest first; always sent."""
    fixed: frozenset[int] = frozenset()
    """`unsuitable` and `pinned`: no cut changes them."""


def plan(chat: Chat, pins: Iterable[int], *, with_links: bool) -> Plan:
    """Return the plan of a chat, with or without the groups of `links_of`.

    Groups that share a message are merged; the result is incomplete if one of them is. The group that the new
    message completes is not merged: it is mandatory, as is a complete group that shares a message with it.
    """
    messages = len(chat.roles) - 1
    groups = sorted([*_groups(chat), *(links_of(chat) if with_links else ())])
    completed = next((group for group in groups if group.last == messages and group.complete), None)
    clusters = _merged(group for group in groups if group is not completed)
    mandatory = messages if completed is None else completed.first
    for cluster in clusters:
        if cluster.complete and cluster.first < mandatory <= cluster.last:
            mandatory = cluster.first
    unsuitable: set[int] = set()
    starts: dict[int, int] = {}
    for cluster in clusters:
        if not cluster.complete:
            unsuitable.update(range(cluster.first, min(cluster.last + 1, mandatory)))
        elif cluster.first < mandatory:
            starts[cluster.last] = cluster.first
    pinned = _with_groups(pins, mandatory, starts).difference(unsuitable) if pins else frozenset[int]()
    never = frozenset(unsuitable)
    return Plan(mandatory, never, starts, tuple(sorted(pinned)), never | pinned)


def _with_groups(pins: Iterable[int], mandatory: int, starts: Mapping[int, int]) -> frozenset[int]:
    """Return the pinned messages of the history, each with its group."""
    pinned = {pin for pin in pins if pin < mandatory}
    groups = [range(first, last + 1) for last, first in starts.items()]
    return frozenset(pinned.union(*[group for group in groups if not pinned.isdisjoint(group)]))


def links_of(chat: Chat) -> list[GroupSpan]:
    """Return a group for each message that names a block of an earlier one, such as a server's tool call.

    A required name without an earlier block is incomplete, as is a server's call without a result, except in
    the new message.
    """
    if not chat.named and not chat.defined:
        return []
    positions = {link.id: position for position, link in reversed([*enumerate(chat.defined)])}
    spans = []
    for link in chat.named:
        position = positions.get(link.id, link.earlier)
        if position >= link.earlier:
            spans += [GroupSpan(link.index, link.index, complete=False)] * link.is_required
        elif (first := chat.defined[position].index) < link.index:
            spans.append(GroupSpan(first, link.index, complete=True))
    named = {link.id for link in chat.named}
    new = len(chat.roles) - 1
    spans += [
        GroupSpan(link.index, link.index, complete=False)
        for link in chat.defined
        if link.is_required and link.id not in named and link.index != new
    ]
    return spans


def _groups(chat: Chat) -> list[GroupSpan]:
    """Return a group for each message with calls, and for each result without a call."""
    missing = {index: len(own) for index, own in chat.calls.items()}
    last = {index: index for index in chat.calls}
    for index, (caller, _) in chat.callers.items():
        missing[caller] -= 1
        last[caller] = index
    orphans = [GroupSpan(index, index, complete=False) for index in chat.results if index not in chat.callers]
    return [*orphans, *(GroupSpan(first, last[first], missing[first] == 0) for first in missing)]


def _merged(groups: Iterable[GroupSpan]) -> list[GroupSpan]:
    """Merge groups that share a message; they come in the order of their first messages."""
    merged: list[GroupSpan] = []
    for group in groups:
        if merged and group.first <= merged[-1].last:
            before = merged.pop()
            last = max(before.last, group.last)
            merged.append(GroupSpan(before.first, last, before.complete and group.complete))
        else:
            merged.append(group)
    return merged
