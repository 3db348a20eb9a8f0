"""Strategy conversation, slow and simple: groups, costs, the stable window, and cleared tool results.

It compares every pair of groups, compares messages as texts, and keeps the carried state as lists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import rfc8785

from apportion.core.strategies.conversation.policy import ConversationPolicy
from apportion.core.text.tokens import TokenCounter

Message = dict[str, Any]
_KNOWN = {"role", "content", "tool_calls", "tool_call_id"}
_REMEMBERED = 8


def text_of(message: Message) -> str:
    """Return a message's content as it is counted."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def cost(message: Message, policy: ConversationPolicy, counter: TokenCounter) -> int:
    """Return the cost of a message, by the rule and by the library for RFC 8785."""
    tokens = counter.count(text_of(message)) + policy.conversation.message_overhead_tokens
    if message.get("tool_calls"):
        tokens += counter.count(rfc8785.dumps(message["tool_calls"]).decode())
    others = {name: value for name, value in message.items() if name not in _KNOWN}
    return tokens + (counter.count(rfc8785.dumps(others).decode()) if others else 0)


def cut(text: str, most: int, counter: TokenCounter) -> str:
    """Return the longest beginning of a system prompt within that many tokens."""
    forms = [text, *(f"{text[:n]}\n[truncated]" for n in range(len(text) - 1, 0, -1)), ""]
    return next(form for form in forms if counter.count(form) <= most)


def groups_of(chat: Sequence[Message]) -> list[tuple[set[int], bool]]:
    """Return each group's messages, and whether it is complete."""
    waiting = {
        index: [call["id"] for call in message["tool_calls"]]
        for index, message in enumerate(chat)
        if message.get("tool_calls")
    }
    last = {index: index for index in waiting}
    groups: list[tuple[set[int], bool]] = []
    for index, message in enumerate(chat):
        if message["role"] == "tool":
            wanted = message["tool_call_id"]
            callers = [caller for caller in waiting if caller < index and wanted in waiting[caller]]
            if callers:
                waiting[max(callers)].remove(wanted)
                last[max(callers)] = index
            else:
                groups.append(({index}, False))
    return groups + [(set(range(first, last[first] + 1)), not waiting[first]) for first in waiting]


def units_of(chat: Sequence[Message]) -> tuple[set[int], set[int], list[set[int]]]:
    """Return the mandatory group, the unsuitable messages, and the other groups; the new message is last."""
    new = len(chat) - 1
    groups = [(members, complete) for members, complete in groups_of(chat) if min(members) < new]
    completed = [members for members, complete in groups if complete and new in members]
    others = [(members, complete) for members, complete in groups if members not in completed]
    bad = [members for members, complete in others if not complete]
    good = [members for members, complete in others if complete]
    while spoiled := [members for members in good if any(members & other for other in bad)]:
        bad, good = bad + spoiled, [members for members in good if members not in spoiled]
    mandatory = set().union({new}, *completed)
    while along := [members for members in good if members & mandatory and not members <= mandatory]:
        mandatory = mandatory.union(*along)
    units: list[set[int]] = [{index} for index in range(new)]
    for members in good:
        touched = [unit for unit in units if unit & members]
        units = [unit for unit in units if not unit & members] + [set().union(*touched)]
    unsuitable = set().union(*bad) - mandatory
    free = [unit for unit in units if not unit & (mandatory | unsuitable)]
    return mandatory, unsuitable, sorted(free, key=max, reverse=True)


@dataclass(frozen=True)
class Kept:
    """The state that the last text under a policy left."""

    digest: str
    at: datetime
    cut: tuple[int, list[Message]]
    since: int
    boundary: tuple[int, list[Message]] | None
    system: str
    pins: list[Message]
    history: list[Message]


@dataclass
class ChatTurn:
    """One request, and its result by the rules."""

    messages: list[Message]
    new_message: Message
    prompt: str
    pinned: Sequence[int]
    policy: ConversationPolicy
    counter: TokenCounter
    total: int
    limit: int
    last: Kept | None
    at: datetime
    sequence: int
    window_rule: str = ""
    infeasible: bool = False
    system: str = ""
    emitted: list[Message] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    withheld: set[int] = field(default_factory=set)
    cleared: dict[int, int] = field(default_factory=dict)
    window: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chat = [*self.messages, self.new_message]
        self.mandatory, self.unsuitable, units = units_of(chat)
        pinned = [unit for unit in units if unit & set(self.pinned)]
        self.pins = sorted(set().union(*pinned))
        self.units = [unit for unit in units if unit not in pinned]
        self.costs = [cost(message, self.policy, self.counter) for message in chat]
        self.uncleared = list(self.costs)
        self.is_outdated = self.last is not None and self.last.digest != self.policy.digest
        self.entry = None if self.is_outdated else self.last
        needed = sum(self.costs[index] for index in {*self.mandatory, *self.pins})
        parts = self.policy.parts(self.total)
        self.system = cut(self.prompt, parts.system_tokens, self.counter)
        tokens = self.counter.count(self.system)
        if needed > min(parts.total_tokens - tokens, self.limit):
            self.infeasible = True
            return
        self.room = min(parts.messages_tokens, self.limit - tokens) - needed
        if tokens + needed > self.limit:
            self.system = cut(self.prompt, self.limit - needed, self.counter)
        self.clear()
        self.keep()
        self.report()

    @property
    def is_cold(self) -> bool:
        """Whether a provider's cache has expired."""
        if self.entry is None:
            return False
        age = self.at - self.entry.at
        return not timedelta() <= age <= timedelta(seconds=self.policy.prefix.ttl_s)

    def find(self, place: tuple[int, list[Message]], *, as_cut: bool) -> int | None:
        """Return where a place is found again."""
        index, tail = place
        free = {min(unit) for unit in self.units} | {min({*self.mandatory, len(self.messages)})}
        found = [
            start
            for start in range(len(self.messages) - len(tail) + 1)
            if all(map(self.same, self.messages[start:], tail)) and (start in free or not as_cut)
        ]
        return min(found, key=lambda start: (abs(start - index), start), default=None)

    @staticmethod
    def same(message: Message, other: Message) -> bool:
        """Whether two messages have the same canonical JSON."""
        return rfc8785.dumps(message) == rfc8785.dumps(other)

    def name_of(self, result: int) -> str:
        """Return the name of the tool that gave a result, from the latest open call with its id."""
        wanted = self.messages[result]["tool_call_id"]
        open_names: list[str] = []
        for message in self.messages[:result]:
            if message.get("tool_call_id") == wanted and open_names:
                open_names.pop()
            calls = [call for call in message.get("tool_calls") or () if call["id"] == wanted]
            open_names += [call["function"]["name"] for call in calls]
        return open_names[-1]

    def clear(self) -> None:
        """Clear results before the boundary, which moves where that frees enough."""
        self.texts = [text_of(message) for message in self.messages]
        self.before: dict[int, str] | None = {}
        self.boundary, self.has_moved = 0, False
        table = self.policy.tool_results
        self.cut_found = None
        if self.entry is not None and self.policy.prefix.slack:
            self.cut_found = self.find(self.entry.cut, as_cut=True)
        if table is None:
            return
        free = sorted(set().union(*self.units))
        results = [index for index in free if self.messages[index]["role"] == "tool"]
        markers = {}
        for index in results:
            name, tokens = self.name_of(index), self.counter.count(self.texts[index])
            marker = f"[result of {name} cleared, {tokens} tokens]"
            if name not in table.exclude and self.counter.count(marker) < tokens:
                markers[index] = marker
        saved = {
            index: self.counter.count(self.texts[index]) - self.counter.count(marker)
            for index, marker in markers.items()
        }
        boundary: int | None = 0
        if self.entry is not None and self.entry.boundary is not None:
            boundary = self.find(self.entry.boundary, as_cut=False)
        has_cut = self.cut_found is not None and self.entry is not None and self.entry.cut[1]
        start = self.cut_found if has_cut and self.cut_found is not None else 0
        old = boundary or 0
        height = sum(
            self.costs[index] - (saved.get(index, 0) if index < old else 0)
            for index in free
            if index >= start
        )
        new = results[: max(0, len(results) - table.keep)][-1:]
        target = new[0] + 1 if new else 0
        freed = sum(tokens for index, tokens in saved.items() if max(start, old) <= index < target)
        self.before = None if boundary is None else {i: markers[i] for i in markers if i < old}
        self.boundary = old
        if height * 1000 > table.trigger * self.room and freed and freed >= table.clear_at_least:
            self.boundary, self.has_moved = target, True
        for index, tokens in saved.items():
            if index < self.boundary:
                self.cleared[index] = tokens
                self.texts[index] = markers[index]
                self.costs[index] -= tokens

    def newest(self, room: int) -> list[int]:
        """Return the newest messages that fit."""
        kept: set[int] = set()
        for unit in self.units:
            needed = sum(self.costs[index] for index in unit)
            if needed <= room:
                kept, room = kept | unit, room - needed
            elif not self.policy.conversation.gaps:
                break
        return sorted(kept)

    def keep(self) -> None:
        """Choose the window."""
        slack = self.policy.prefix.slack
        full = self.newest(self.room)
        history = sorted(set().union(*self.units))
        from_cut = [index for index in history if self.cut_found is not None and index >= self.cut_found]
        if not slack or full == history:
            self.kept = full
        elif (
            self.window_rule == "steps"
            and (step := self.step(history, self.total * slack // 1000)) is not None
        ):
            self.kept = [index for index in history if index >= step]
        elif (
            self.window_rule != "steps"
            and self.entry is not None
            and self.entry.cut[1]
            and not self.is_cold
            and self.cut_found is not None
            and sum(self.costs[index] for index in from_cut) <= self.room
        ):
            self.kept = from_cut
        else:
            free = 0 if self.window_rule == "full" else slack
            self.kept = self.newest(self.room * (1000 - free) // 1000) or full
        self.withheld = set(full) - set(self.kept)
        mandatory = sorted(self.mandatory - {len(self.messages)})
        sent = [*self.pins, *self.kept, *mandatory]
        self.emitted = [*map(self.sent, sent), self.new_message]

    def step(self, history: list[int], tokens: int) -> int | None:
        """Return the first place behind a multiple of so many tokens from which the history fits."""
        starts = {min(unit) for unit in self.units} & set(history)
        starts -= {index for unit in self.units for index in range(min(unit) + 1, max(unit) + 1)}
        multiples: set[int] = set()
        found = None
        for start in sorted(starts):
            before = sum(self.uncleared[index] for index in history if index < start)
            multiple = before // max(1, tokens)
            is_step = not multiples or multiple > max(multiples)
            multiples.add(multiple)
            fits = sum(self.costs[index] for index in history if index >= start) <= self.room
            if found is None and is_step and fits:
                found = start
        return found

    def sent(self, index: int) -> Message:
        """Return a message as it is sent."""
        message = self.messages[index]
        return {**message, "content": self.texts[index]} if index in self.cleared else message

    @property
    def cut(self) -> int:
        """The index of the first kept message."""
        return self.kept[0] if self.kept else min({*self.mandatory, len(self.messages)})

    def report(self) -> None:
        """Compare the beginning with the last one."""
        if not self.policy.prefix.slack:
            return
        self.same_cut = self.entry is not None and self.cut_found == self.cut
        tokens, cause = self._compared()
        used = self.counter.count(self.system) + sum(
            cost(message, self.policy, self.counter) for message in self.emitted
        )
        since = self.entry.since if self.same_cut and self.entry is not None else self.sequence
        share = tokens * 1000 // used if used else 0
        self.window = {"tokens": tokens, "share": share, "cut": self.cut, "since": since}
        if cause:
            self.window["break"] = cause

    def _compared(self) -> tuple[int, str | None]:
        """Return the tokens of the unchanged beginning, and why it is no longer."""
        entry = self.entry
        if entry is None:
            return 0, "policy_changed" if self.is_outdated else "first"
        causes = {"ttl_expired": self.is_cold}
        pins = [self.messages[index] for index in self.pins]
        causes["system_changed"] = entry.system != self.system
        causes["pins_changed"] = len(pins) != len(entry.pins) or not all(map(self.same, pins, entry.pins))
        now = [self.messages[index] for index in self.kept]
        again = self.same_cut and len(entry.history) <= len(now) and all(map(self.same, now, entry.history))
        same = 0
        if again:
            for index in self.kept[: len(entry.history)]:
                is_stale = index in self.cleared and (self.before is None or index not in self.before)
                if is_stale or (self.before is None and self.could_be_cleared(index)):
                    break
                same += 1
        partly = again and same < len(entry.history)
        causes["messages_changed"] = (
            self.cut_found is None or (self.same_cut and not again) or (partly and not self.has_moved)
        )
        causes["room"] = not self.same_cut
        causes["cleared"] = partly
        cause = next((name for name, holds in causes.items() if holds), None)
        tokens = 0 if causes["system_changed"] else self.counter.count(self.system)
        if causes["system_changed"]:
            return 0, cause
        if causes["pins_changed"]:
            return tokens, cause
        return tokens + sum(self.costs[index] for index in (*self.pins, *self.kept[:same])), cause

    def could_be_cleared(self, index: int) -> bool:
        """Return whether the last text, with a lost boundary, may have cleared a result."""
        table = self.policy.tool_results
        if table is None or self.messages[index]["role"] != "tool":
            return False
        name, tokens = self.name_of(index), self.counter.count(text_of(self.messages[index]))
        marker = f"[result of {name} cleared, {tokens} tokens]"
        return name not in table.exclude and self.counter.count(marker) < tokens

    def left(self) -> Kept:
        """Return the carried state of the session."""
        tail = self.messages[self.cut : self.cut + _REMEMBERED] if self.kept else []
        boundary = self.boundary, self.messages[self.boundary : self.boundary + _REMEMBERED]
        return Kept(
            self.policy.digest,
            self.at,
            (self.cut, tail),
            self.window.get("since", 0),
            boundary if self.boundary else None,
            self.system,
            [self.messages[index] for index in self.pins],
            [self.messages[index] for index in self.kept],
        )


def fields_of(turn: ChatTurn) -> Mapping[str, Any]:
    """Return the value of `conversation` in a request of the turn."""
    return {
        "system_prompt": turn.prompt,
        "messages": turn.messages,
        "new_message": turn.new_message,
        "pinned": list(turn.pinned),
    }
