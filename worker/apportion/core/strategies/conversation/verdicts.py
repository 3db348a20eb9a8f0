"""Verdicts on a conversation: on the system prompt and on each message."""

from collections.abc import Mapping, Sequence
from itertools import repeat

from msgspec import UNSET, Struct

from apportion.core.lru import process_wide
from apportion.core.results import Fidelity, Margin
from apportion.core.strategies.conversation.choose import Room
from apportion.core.strategies.conversation.groups import Plan
from apportion.core.strategies.conversation.kept_history import KeptHistory
from apportion.core.strategies.conversation.policy import Parts
from apportion.core.strategy_api.verdict import Bound, GroupBounds, Verdict

_SYSTEM, _MESSAGES = "system", "messages"
_PROMPT_ID = "system_prompt"
_PINNED = "pinned"


class MessageChoice(Struct, frozen=True):
    """The cut system prompt and the selected messages, by index."""

    sent: bool
    """False: nothing is sent."""
    system_prompt: str = ""
    """The system prompt as cut."""
    system_tokens: int = 0
    kept: tuple[int, ...] = ()
    """The sent messages before the new message, in their order."""
    margins: Mapping[int, Margin] = {}
    system_margin: Margin | None = None
    withheld: frozenset[int] = frozenset()
    """Messages that only the stable window drops."""
    saved: Mapping[int, int] = {}
    """The tokens saved by cleared results, sent or not."""
    pinned: Sequence[int] = ()


class Given(Struct):
    """The given system prompt, and the ids and roles of the messages, the new message last.

    `system_tokens` is 0 and `costs` is empty until they are counted.
    """

    system_prompt: str
    ids: list[str]
    roles: list[str]
    unsuitable: frozenset[int]
    system_tokens: int = 0
    costs: Sequence[int] = ()


def choice_of(plan: Plan, room: Room, kept: KeptHistory, *, in_place: bool) -> MessageChoice:
    """Return the choice: pinned messages, kept history, then the messages of the new message's group."""
    sent = (*plan.pinned, *reversed(kept.kept), *range(plan.mandatory, len(kept.costs) - 1))
    return MessageChoice(
        sent=True,
        system_prompt=room.system_prompt,
        system_tokens=room.system_tokens,
        kept=tuple(sorted(sent)) if in_place else sent,
        margins=kept.margins,
        system_margin=room.system_margin,
        withheld=kept.withheld,
        saved=kept.clearing.saved,
        pinned=plan.pinned,
    )


@process_wide(32)
def _first_ids(bits: int) -> tuple[str, ...]:
    """Return the ids of the first 2**bits messages."""
    return tuple(f"messages/{index}" for index in range(1 << bits))


def ids_of(messages: int) -> list[str]:
    """Return the ids of so many messages of history and, last, of the new message."""
    return [*_first_ids(messages.bit_length())[:messages], "new_message"]


def group_bounds(parts: Parts) -> list[GroupBounds]:
    """Return the bounds of the system prompt and of the messages."""
    return [GroupBounds(_SYSTEM, 0, parts.system_tokens), GroupBounds(_MESSAGES, 0, parts.messages_tokens)]


def verdict_on_prompt(given: Given, choice: MessageChoice) -> list[Verdict]:
    """Return the verdict on the system prompt; none if there is no prompt."""
    if not given.system_prompt:
        return []
    verdict = Verdict(_PROMPT_ID, _PROMPT_ID, _SYSTEM, cost=given.system_tokens)
    if choice.system_prompt:
        verdict.tokens = choice.system_tokens
        if choice.system_prompt == given.system_prompt:
            verdict.stand(Fidelity.FULL)
        else:
            verdict.stand(Fidelity.TRUNCATED)
            verdict.full_tokens = given.system_tokens
    else:
        verdict.bound = Bound.ROOM if choice.sent else Bound.LIMIT
        verdict.margin = choice.system_margin
    return [verdict]


def verdicts_on_messages(given: Given, choice: MessageChoice) -> list[Verdict]:
    """Return the verdicts on the history and, last, on the new message."""
    number = len(given.ids)
    costs = given.costs or (0,) * number
    fidelities: list[Fidelity | None] = [None] * number
    bounds: list[Bound | None] = [Bound.HISTORY] * number
    margins: list[Margin | None] = [None] * number
    for index in given.unsuitable:
        bounds[index] = Bound.GROUP
    for index, margin in choice.margins.items():
        margins[index] = margin
    if choice.sent:
        full = Fidelity.FULL
        for index in (number - 1, *choice.kept):
            fidelities[index], bounds[index] = full, None
    absent = repeat(UNSET)
    verdicts = [
        *map(
            Verdict,
            given.ids,
            given.roles,
            repeat(_MESSAGES),
            absent,  # score
            absent,  # parts of the score
            repeat(""),
            bounds,
            margins,
            fidelities,
            costs,
            costs,
        )
    ]
    _mark(verdicts, choice)
    return verdicts


def _mark(verdicts: Sequence[Verdict], choice: MessageChoice) -> None:
    """Mark the messages that are withheld, pinned or cleared."""
    for index in choice.withheld:
        verdicts[index].withheld_by = Bound.PREFIX
    for index in choice.pinned:
        verdicts[index].constraint = _PINNED
    for index, tokens in choice.saved.items():
        if verdicts[index].fidelity is not None:
            verdicts[index].fidelity = Fidelity.CLEARED
            verdicts[index].full_tokens = verdicts[index].tokens + tokens
