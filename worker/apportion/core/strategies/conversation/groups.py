"""Groups of messages that stay or go together: a call, its results, and all between.

Decides which messages can go to a model at all, and which are as mandatory as the new message. Never knows
what a message costs.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct


class GroupSpan(Struct, frozen=True, order=True):
    """Messages from the first to the last; complete where no call lacks its result, no result its call."""

    first: int
    last: int
    complete: bool


class Plan(Struct, frozen=True):
    """How a history may be cut.

    Messages from `mandatory` on go with the new message. Before it, `unsuitable` ones never go; those of a
    group go together: `starts` gives, by a group's last message, its first. `pinned` are the pinned ones and
    their groups, oldest first: they always go. `aside` are both, which no cut concerns.
    """

    mandatory: int
    unsuitable: frozenset[int]
    starts: Mapping[int, int]
    pinned: tuple[int, ...] = ()
    aside: frozenset[int] = frozenset()


def plan(
    messages: int,
    calls: Mapping[int, tuple[str, ...]],
    results: Mapping[int, str],
    pins: Iterable[int] = (),
) -> Plan:
    """Return the plan of that many messages of history; the new message is the one after them.

    Groups that share a message are one, and incomplete where one of them is, but for the group that the
    new message completes: it is mandatory, and so is a complete one that shares a message with it.
    """
    groups = _groups(calls, results)
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


def _groups(calls: Mapping[int, tuple[str, ...]], results: Mapping[int, str]) -> list[GroupSpan]:
    """Return every message with calls with its results, and every result without a call, by itself.

    A result belongs to the latest earlier call with its id that still lacks one.
    """
    open_calls: dict[str, list[int]] = defaultdict(list)
    lacking: dict[int, int] = {}
    last = {}
    orphans: list[GroupSpan] = []
    for index in sorted({*calls, *results}):
        if index in calls:
            lacking[index], last[index] = len(calls[index]), index
            for call in calls[index]:
                open_calls[call].append(index)
        elif open_calls[results[index]]:
            caller = open_calls[results[index]].pop()
            lacking[caller] -= 1
            last[caller] = index
        else:
            orphans.append(GroupSpan(index, index, complete=False))
    return sorted([*orphans, *(GroupSpan(first, last[first], lacking[first] == 0) for first in lacking)])


def _merged(groups: Iterable[GroupSpan]) -> list[GroupSpan]:
    """Return groups, which come by their first messages, with those that share a message made one."""
    merged: list[GroupSpan] = []
    for group in groups:
        if merged and group.first <= merged[-1].last:
            before = merged.pop()
            last = max(before.last, group.last)
            merged.append(GroupSpan(before.first, last, before.complete and group.complete))
        else:
            merged.append(group)
    return merged
