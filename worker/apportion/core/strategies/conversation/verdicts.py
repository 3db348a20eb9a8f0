"""Verdicts on a conversation: on the system prompt and on each message."""

from collections.abc import Sequence

from msgspec import UNSET

from apportion.core.lru import process_wide
from apportion.core.results import Fidelity
from apportion.core.shrink import Shrunk
from apportion.core.strategies.conversation.choose import Room
from apportion.core.strategies.conversation.counted_chat import CountedChat
from apportion.core.strategies.conversation.kept_history import KeptHistory
from apportion.core.strategies.conversation.policy import Parts
from apportion.core.strategy_api.verdict import Bound, GroupBounds, Verdict

_SYSTEM, MESSAGES = "system", "messages"
_PROMPT_ID = "system_prompt"
_PINNED = "pinned"


@process_wide(32)
def _first_ids(bits: int) -> tuple[str, ...]:
    """Return the ids of the first 2**bits messages, which every conversation shares."""
    return tuple([f"messages/{index}" for index in range(1 << bits)])


def group_bounds(parts: Parts) -> list[GroupBounds]:
    """Return the bounds of the system prompt and of the messages."""
    return [GroupBounds(_SYSTEM, 0, parts.system_tokens), GroupBounds(MESSAGES, 0, parts.messages_tokens)]


def verdict_on_prompt(given: Shrunk, room: Room, *, sent: bool) -> list[Verdict]:
    """Return the verdict on the system prompt; none if there is no prompt."""
    if not given.text:
        return []
    verdict = Verdict(_PROMPT_ID, _PROMPT_ID, _SYSTEM, cost=given.tokens)
    if room.system_prompt:
        verdict.tokens = room.system_tokens
        if room.system_prompt == given.text:
            verdict.stand(Fidelity.FULL)
        else:
            verdict.stand(Fidelity.TRUNCATED)
            verdict.full_tokens = given.tokens
    else:
        verdict.bound = Bound.ROOM if sent else Bound.LIMIT
        verdict.margin = room.system_margin
    return [verdict]


def verdicts_on_messages(counted: CountedChat, room: Room, kept: KeptHistory | None) -> list[Verdict]:
    """Return the verdicts on the history and, last, on the new message; without `kept`, nothing is sent."""
    plan, costs = counted.plan, counted.costs if kept is None else kept.costs
    history = len(costs) - 1
    ids = (*_first_ids(history.bit_length())[:history], "new_message")
    full, too_old = Fidelity.FULL, Bound.HISTORY  # enums are slow to look up for each of many messages
    verdicts = [
        Verdict(name, role, MESSAGES, UNSET, UNSET, "", too_old, None, None, cost, cost)
        for name, role, cost in zip(ids, counted.chat.roles, costs, strict=True)
    ]
    for index in plan.unsuitable:
        verdicts[index].bound = Bound.GROUP
    for index in plan.pinned:
        verdicts[index].constraint = _PINNED
    mandatory = (*plan.pinned, *range(plan.mandatory, len(costs)))
    if kept is None:
        for index in mandatory:
            verdicts[index].margin = room.lacking
        return verdicts
    for index, margin in kept.margins.items():
        verdicts[index].margin = margin
    for index in kept.withheld:
        verdicts[index].withheld_by = Bound.PREFIX
    for index in (*mandatory, *kept.kept):
        verdicts[index].fidelity, verdicts[index].bound = full, None
    _mark_smaller(verdicts, counted, kept)
    return verdicts


def _mark_smaller(verdicts: Sequence[Verdict], counted: CountedChat, kept: KeptHistory) -> None:
    """Set the fidelity of messages that are sent shortened or cleared."""
    saved = {index: counted.given[index] - counted.contents[index] for index in counted.forms}
    for index in {*saved, *kept.clearing.saved}:
        verdict = verdicts[index]
        if verdict.fidelity is not None:
            form = counted.forms.get(index)
            is_cleared = index in kept.clearing.saved or form is None or form.is_cleared or form.freed_tokens
            verdict.fidelity = Fidelity.CLEARED if is_cleared else Fidelity.SHORTENED
            tokens = saved.get(index, 0) + kept.clearing.saved.get(index, 0)
            verdict.full_tokens = verdict.tokens + tokens
