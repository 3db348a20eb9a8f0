"""Shortening of long texts and results by the policy's `[shorten]`.

Two thirds of a shortened text are its first part, one third its last part, with a line between them. Both end
at lines if a line ends near. A text of the history depends on the text, its sibling results, the policy and
the budget alone. So it is the same in every turn. Results of one message's calls share `newest_tokens`; a
result whose share is too small to read is cleared.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from apportion.core.history import as_message, text_of
from apportion.core.lru import process_wide
from apportion.core.strategies.conversation.chat_state import decode_state
from apportion.core.strategies.conversation.choose import PromptCuts, Room, measure_room
from apportion.core.strategies.conversation.clearing import result_marker, without_media
from apportion.core.strategies.conversation.counted_chat import CountedChat, Form
from apportion.core.strategies.conversation.kept_history import (
    ConversationTask,
    KeptHistory,
    keep_history,
)
from apportion.core.strategies.conversation.policy import ConversationPolicy, Parts
from apportion.core.text.cut import largest
from apportion.core.text.tokens import TokenCounter

_ROLES = ("user", "assistant", "tool")
"""Instructions are never shortened."""
_LEAST_TOKENS = 48
"""The smallest share of a shortened text."""
_NEAR = 4
"""A cut moves to a line's end within this part of a text."""
_KNOWN_MAX = 1 << 10


class Caps(Struct, frozen=True):
    """The largest texts, in tokens; 0: they are not shortened."""

    message_tokens: int
    newest_tokens: int


def caps_of(policy: ConversationPolicy, total_tokens: int) -> Caps | None:
    """Return the largest texts under a total; None if nothing is shortened."""
    table = policy.shorten
    if not table.message_tokens and not table.newest_tokens:
        return None
    return Caps(
        policy.scaled(table.message_tokens, total_tokens), policy.scaled(table.newest_tokens, total_tokens)
    )


class Chosen(Struct, frozen=True):
    """The chat as it is sent: its counts, its room, and the kept history; None: it does not fit."""

    counted: CountedChat
    room: Room
    kept: KeptHistory | None
    is_shortened: bool = False


def choose(task: ConversationTask, counted: CountedChat, prompt: PromptCuts, parts: Parts) -> Chosen:
    """Return the kept history: cleared first, then shortened if it does not fit whole, then cut."""
    state, caps = decode_state(task.own.session.carried), caps_of(task.policy, task.total_tokens)
    cleared = None
    if caps is None or not state.is_shortened:
        room = _room(task, counted, prompt, parts)
        kept = None
        if room.lacking is None:
            kept = keep_history(task, counted, room.history_tokens, state)
        if caps is None or (kept is not None and len(kept.kept) == len(counted.free)):
            return Chosen(counted, room, kept)
        cleared = None if kept is None else kept.clearing.boundaries
    shortener = Shortener(task, counted)
    history = shortener.history(caps, counted.free)
    parts_of_newest = 1
    while True:
        shorter = shortener.applied(history | shortener.newest(caps, counted.mandatory, parts_of_newest))
        room = _room(task, shorter, prompt, parts)
        if room.lacking is None:
            break
        if caps.newest_tokens < parts_of_newest:
            return Chosen(counted, _room(task, counted, prompt, parts), None)
        parts_of_newest *= 2
    kept = keep_history(
        task, shorter, room.history_tokens, state, largest_tokens=caps.newest_tokens, cleared=cleared
    )
    return Chosen(shorter, room, kept, is_shortened=True)


def _room(task: ConversationTask, counted: CountedChat, prompt: PromptCuts, parts: Parts) -> Room:
    whole_prompt = task.policy.conversation.whole_system_prompt
    return measure_room(
        counted.plan, counted.costs, parts, task.limit_tokens, prompt, whole_prompt=whole_prompt
    )


class Shortener:
    """The shorter forms of a chat's messages."""

    def __init__(self, task: ConversationTask, counted: CountedChat) -> None:
        conversation = task.own.conversation
        self._messages = (*conversation.messages, as_message(conversation.new_message))
        self._counted = counted
        self._policy = task.policy
        self._callers = counted.chat.callers

    def history(self, caps: Caps, indices: Iterable[int]) -> dict[int, Form]:
        """Return the forms of messages of the history that cost too much."""
        forms: dict[int, Form] = {}
        siblings: dict[int, list[int]] = {}
        for index in indices:
            if index in self._callers:
                siblings.setdefault(self._callers[index][0], []).append(index)
                continue
            if caps.message_tokens:
                forms |= self._forms([index], caps.message_tokens)
            if self._policy.media is not None and self._counted.contents[index] > caps.newest_tokens > 0:
                forms |= self._without_media(index, forms.get(index))
        for results in siblings.values():
            forms |= self._forms(results, self._share(results, caps.message_tokens, caps.newest_tokens))
        return forms

    def newest(self, caps: Caps, indices: Sequence[int], parts: int) -> dict[int, Form]:
        """Return the forms of messages that are always sent, by a share of `1 / parts` of their largest."""
        share = self._share(indices, caps.newest_tokens, caps.newest_tokens) // parts
        return self._forms(indices, max(share, 1)) if caps.newest_tokens else {}

    def _without_media(self, index: int, form: Form | None) -> dict[int, Form]:
        """Return a form without media, for a message that is larger than what is kept of the history."""
        given = self._messages[index].get("content") if form is None else form.content
        content, freed = without_media(given, self._policy, self._counted)
        if not freed:
            return {}
        tokens = self._counted.count_content(index, content)
        return {index: Form(content, tokens, freed_tokens=freed)}

    def applied(self, forms: Mapping[int, Form]) -> CountedChat:
        """Return the chat with new forms, and their costs."""
        counted = self._counted
        contents, costs = [*counted.contents], [*counted.costs]
        for index, form in forms.items():
            whole = contents[index] if form.is_cleared else counted.texts[index]
            saved = whole + form.freed_tokens - form.tokens
            contents[index] -= saved
            costs[index] -= saved
        return replace(counted, contents=contents, costs=costs, forms=forms)

    def _share(self, indices: Sequence[int], most: int, together: int) -> int:
        """Return the largest text: `most`, or the largest part of `together` that all of them keep to."""
        if not together:
            return most
        counts = [self._size(index) for index in indices if self._can_be_shorter(index)]
        return min(most or together, _part(counts, together))

    def _size(self, index: int) -> int:
        """Return the tokens that count against a share: all of a result, the text of another message."""
        return (self._counted.contents if index in self._callers else self._counted.texts)[index]

    def _can_be_shorter(self, index: int) -> bool:
        return self._counted.chat.roles[index] in _ROLES

    def _forms(self, indices: Iterable[int], share: int) -> dict[int, Form]:
        forms = {}
        for index in indices:
            tokens, is_result = self._counted.texts[index], index in self._callers
            counter = self._counted.counter_of(index)
            if not 0 < share < self._size(index) or not self._can_be_shorter(index):
                continue
            if is_result and (share < _LEAST_TOKENS or self._counted.contents[index] - tokens > share):
                marker = result_marker(self._callers[index][1], self._counted.given[index])
                forms[index] = Form(marker, counter.count(marker), is_cleared=True)
                continue
            content = shortened(self._messages[index].get("content"), tokens, share, counter)
            forms[index] = Form(content, self._counted.count_content(index, content))
        return {
            index: form
            for index, form in forms.items()
            if form.tokens < (self._counted.contents if form.is_cleared else self._counted.texts)[index]
        }


def shortened(content: Any, tokens: int, share: int, counter: TokenCounter) -> Any:
    """Return a content whose text has at most about `share` tokens; other blocks stay."""
    if isinstance(content, str):
        return _shortened_block(content, tokens, share, counter)
    counts = counter.count_many([text_of([block]) for block in content])
    part = _part(counts, share)
    return [
        _shortened_block(block, count, part, counter) if count > part else block
        for block, count in zip(content, counts, strict=True)
    ]


def _part(counts: Sequence[int], together: int) -> int:
    """Return the largest `together // n` so that the counts add up to `together` if each is at most that."""
    numbers = range(1, len(counts) + 1)
    found = bisect_left(
        numbers, 1, key=lambda n: sum([min(count, together // n) for count in counts]) <= together
    )
    return together // (found + 1)


def _shortened_block(block: Any, tokens: int, share: int, counter: TokenCounter) -> Any:
    text = _shortened_text(text_of([block]), tokens, share, counter)
    return text if isinstance(block, str) else {**block, "text": text}


@process_wide(_KNOWN_MAX)
def _shortened_text(text: str, tokens: int, share: int, counter: TokenCounter) -> str:
    """Return the first part, a line with the number of omitted tokens, and the last part."""
    room = share - counter.count(f"\n[… {tokens} tokens omitted]\n")
    head = _at_line_end(text, _fitting(text, tokens, max(room, 0) * 2 // 3, counter))
    head_tokens = counter.count(text[:head])
    reverse = text[head:]
    tail = _fitting(reverse, tokens - head_tokens, max(room - head_tokens, 0), counter, from_end=True)
    tail = _at_line_start(reverse, tail)
    last = reverse[len(reverse) - tail :]
    line = f"[… {tokens - head_tokens - counter.count(last)} tokens omitted]"
    return text[:head] + "\n" * (head > 0) + line + "\n" * (last != "") + last


def _fitting(text: str, tokens: int, room: int, counter: TokenCounter, *, from_end: bool = False) -> int:
    """Return the number of code points at an end of a text that count at most `room` tokens."""

    def fits(length: int) -> bool:
        return counter.count(text[len(text) - length :] if from_end else text[:length]) <= room

    if not room:
        return 0
    # counts of the whole text are slow, so the search begins with its average length of a token
    most = min(len(text), len(text) * room // max(tokens, 1) + 1)
    while most < len(text) and fits(most):
        most = min(len(text), most * 2)
    return largest(most, fits)


def _at_line_end(text: str, length: int) -> int:
    """Return the length of a first part without its last line, if that line began near its end."""
    end = text.rfind("\n", length - length // _NEAR, length)
    return length if end < 0 or text[length : length + 1] == "\n" else end


def _at_line_start(text: str, length: int) -> int:
    """Return the length of a last part without its first line, if that line ends near its start."""
    start = len(text) - length
    end = text.find("\n", start, start + length // _NEAR)
    return length if end < 0 or text[start - 1 : start] == "\n" else len(text) - end - 1
