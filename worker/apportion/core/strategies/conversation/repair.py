"""Repair of a chat, so that providers accept it: messages in another order, and messages that are left out.

A call's message and its results are sent together, at the place of the last result. So an answer that comes
late does not hold the messages in between, and the text before it stays as it was sent without the call.
Left out are repeated results, calls without all results or with one id, and messages without anything to
read. The new message always stays.

A `compaction` of the assistant holds the provider's own summary of all before it. The last one is always
sent, and replaces the messages before it; see `_replaced`.
Source: https://platform.claude.com/docs/en/build-with-claude/compaction
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.events import Conversation
from apportion.core.history import as_message, blocks_of
from apportion.core.strategies.conversation.groups import links_of
from apportion.core.strategies.conversation.messages import Chat
from apportion.core.strategies.conversation.verdicts import MESSAGES
from apportion.core.strategy_api.verdict import Bound, Verdict, Verdicts


class Repaired(Struct, frozen=True):
    """A repaired conversation, and what was done to the given one, by index in the given one."""

    conversation: Conversation
    order: tuple[int, ...]
    """The index in the given conversation, by index in the repaired one; the new message is last."""
    left_out: dict[int, Bound]
    moved: frozenset[int]
    compaction: int | None = None
    """The index of the message with the compaction that replaces messages."""


def repair(conversation: Conversation, chat: Chat) -> Repaired | None:
    """Return the repaired conversation; None if there is nothing to repair."""
    results: dict[int, list[int]] = {}
    for index, (caller, _) in chat.callers.items():
        results.setdefault(caller, []).append(index)
    left_out = _unreadable(chat, results)
    messages = (*conversation.messages, as_message(conversation.new_message))
    compaction = _compaction(messages, chat, left_out)
    if compaction is not None:
        is_openai = any("content" not in block for block in _compactions(messages[compaction]))
        stays = {*conversation.pinned, *(_of_user(chat) if is_openai else ())}
        replaced = _replaced(compaction, stays, results) - left_out.keys()
        left_out |= dict.fromkeys(replaced, Bound.SUBJECT)
    order = [index for index in range(len(chat.roles)) if index not in left_out]
    place = {index: position for position, index in enumerate(order)}
    late = {
        caller: [caller, *own]
        for caller, own in results.items()
        if caller in place and place[own[-1]] - place[caller] != len(own)
    }
    if not left_out and not late and compaction is None:
        return None
    ends = {own[-1]: own for own in late.values()}
    moved = frozenset([index for own in late.values() for index in own[:-1]])
    order = [part for index in order if index not in moved for part in ends.get(index, (index,))]
    places = {index: position for position, index in enumerate(order)}
    always = () if compaction in (None, len(chat.roles) - 1) else (compaction,)
    repaired = replace(
        conversation,
        messages=tuple([conversation.messages[index] for index in order[:-1]]),
        pinned=tuple(sorted([places[index] for index in {*conversation.pinned, *always} if index in places])),
    )
    return Repaired(repaired, tuple(order), left_out, moved, compaction)


def _unreadable(chat: Chat, results: Mapping[int, Sequence[int]]) -> dict[int, Bound]:
    """Return the messages of the history that no provider accepts; `results` are those of each caller."""
    callers = chat.callers
    answered = {chat.results[index] for index in callers}
    left_out = dict.fromkeys(chat.blank, Bound.CONTENT)
    left_out |= {
        index: Bound.ID for index, name in chat.results.items() if index not in callers and name in answered
    }
    for caller, calls in chat.calls.items():
        own = results.get(caller, ())
        if min(len(own), len({call.id for call in calls})) < len(calls):
            left_out |= dict.fromkeys((caller, *own), Bound.GROUP)
    left_out.pop(len(chat.roles) - 1, None)
    return left_out


def _compaction(messages: Sequence[Mapping[str, Any]], chat: Chat, left_out: Container[int]) -> int | None:
    """Return the index of the last message with a compaction; None if there is none.

    Only the assistant's messages count, and no failed compaction, which is empty.
    """
    found = [
        index
        for index, message in enumerate(messages)
        if chat.roles[index] == "assistant" and index not in left_out and _compactions(message)
    ]
    if not found:
        return None
    broken = [range(span.first, span.last + 1) for span in links_of(chat) if not span.complete]
    return max([index for index in found if not any(index in span for span in broken)], default=None)


def _compactions(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the compactions in a message that did not fail.

    Anthropic's has a summary as `content`, null if it failed. OpenAI's is encrypted, and has no `content`.
    """
    blocks = blocks_of(message.get("content"))
    found = [block for block in blocks if isinstance(block, dict) and block.get("type") == "compaction"]
    return [block for block in found if block.get("content", True)]


def _of_user(chat: Chat) -> list[int]:
    """Return the indices of the messages that a compacted window of OpenAI has before its compaction."""
    return [index for index, role in enumerate(chat.roles) if role not in ("assistant", "tool")]


def _replaced(compaction: int, stays: set[int], results: Mapping[int, Sequence[int]]) -> set[int]:
    """Return the messages that a compaction replaces: all before it, except those that stay.

    A message stays with its call and all results. So does a call with a result behind the compaction.
    """
    groups = [{caller, *own} for caller, own in results.items()]
    kept = [group for group in groups if max(group) > compaction or not stays.isdisjoint(group)]
    return set(range(compaction)).difference(stays, *kept)


def in_given_order(answer: Verdicts, repaired: Repaired, roles: Sequence[str]) -> Verdicts:
    """Return an answer on a repaired conversation as an answer on the given one, with all its messages."""
    order, last = repaired.order, len(roles) - 1
    names = {f"messages/{position}": index for position, index in enumerate(order[:-1])}
    prompt = [verdict for verdict in answer.verdicts if verdict.id not in names]
    by_index: dict[int, Verdict] = {}
    for verdict in answer.verdicts:
        if verdict.id in names:
            index = names[verdict.id]
            by_index[index], verdict.id = verdict, f"messages/{index}"
            verdict.moved = index in repaired.moved
    for index, bound in repaired.left_out.items():
        by = ""
        if bound is Bound.SUBJECT:
            by = "new_message" if repaired.compaction == last else f"messages/{repaired.compaction}"
        by_index[index] = Verdict(f"messages/{index}", roles[index], MESSAGES, bound=bound, superseded_by=by)
    new_message = [verdict for verdict in prompt if verdict.id == "new_message"]
    ranked = [verdict for verdict in prompt if verdict.id != "new_message"] + new_message
    window = answer.window
    if window is not UNSET:
        window = replace(window, cut=order[window.cut])
    kept = answer.kept
    return replace(
        answer,
        verdicts=[*ranked, *[by_index[index] for index in sorted(by_index, reverse=True)]],
        kept=kept if kept is UNSET else tuple([order[position] for position in kept]),
        rewritten={order[position]: content for position, content in answer.rewritten.items()},
        window=window,
        truncated_messages=UNSET if kept is UNSET else last - len(kept),
    )
