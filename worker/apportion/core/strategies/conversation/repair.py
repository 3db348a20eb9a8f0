"""Repair of a chat, so that providers accept it: messages in another order, and messages that are left out.

A call's message and its results are sent together, at the place of the last result. So an answer that comes
late does not hold the messages in between, and the text before it stays as it was sent without the call.
Left out are repeated results, calls without all results or with one id, and messages without anything to
read. The new message always stays.

A message with a `compaction` block holds the provider's own summary of all before it. The last one is always
sent, and the messages before it that are not pinned are left out.
Source: https://platform.claude.com/docs/en/build-with-claude/compaction
"""

from collections.abc import Container, Mapping, Sequence

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.events import Conversation
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
    """The message that replaces those that are left out by their subject."""


def repair(conversation: Conversation, chat: Chat) -> Repaired | None:
    """Return the repaired conversation; None if there is nothing to repair."""
    results: dict[int, list[int]] = {}
    for index, (caller, _) in chat.callers.items():
        results.setdefault(caller, []).append(index)
    left_out = _unreadable(chat, results)
    compaction = _compaction(conversation, left_out)
    if compaction is not None:
        # a call with a result behind the compaction stays
        open_calls = {
            part for caller, own in results.items() if own[-1] > compaction for part in (caller, *own)
        }
        before = set(range(compaction)) - set(conversation.pinned) - open_calls - left_out.keys()
        left_out |= dict.fromkeys(before, Bound.SUBJECT)
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
    pinned = {*conversation.pinned, *(() if compaction is None else (compaction,))}
    repaired = replace(
        conversation,
        messages=tuple([conversation.messages[index] for index in order[:-1]]),
        pinned=tuple(sorted([places[index] for index in pinned if index in places])),
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


def _compaction(conversation: Conversation, left_out: Container[int]) -> int | None:
    """Return the index of the history's last message with a compaction; None if there is none."""
    for index in reversed(range(len(conversation.messages))):
        content = conversation.messages[index].get("content")
        blocks = content if isinstance(content, list) else ()
        if index not in left_out and any(
            isinstance(block, dict) and block.get("type") == "compaction" for block in blocks
        ):
            return index
    return None


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
        by = f"messages/{repaired.compaction}" if bound is Bound.SUBJECT else ""
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
