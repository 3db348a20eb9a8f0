"""The account of a conversation: an entry for the system prompt and for every message, by rank.

Decides how what became of them is told, nothing else.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat

from msgspec import UNSET, Struct

from apportion.core.events import Opt
from apportion.core.results import ComposedItem, Entry, Fidelity, Group, Margin, Outcome, Reason
from apportion.core.strategies.conversation.choose import Choice
from apportion.core.strategies.conversation.policy import Parts

_SYSTEM, _MESSAGES = "system", "messages"
_PROMPT_ID = "system_prompt"


class Given(Struct):
    """What a request gave: the system prompt, and the ids and roles of its messages, the new one last.

    What they cost is there where it was counted.
    """

    system_prompt: str
    ids: list[str]
    roles: list[str]
    unsuitable: frozenset[int] = frozenset()
    system_tokens: int = 0
    costs: Sequence[int] = ()


class Account(Struct, frozen=True):
    """All that a composition tells of its messages."""

    entries: list[Entry]
    items: tuple[ComposedItem, ...]
    groups: tuple[Group, ...]


@lru_cache
def _first_ids(bits: int) -> tuple[str, ...]:
    """Return the ids of the first 2**bits messages: the same in every conversation, so made once."""
    return tuple(f"messages/{index}" for index in range(1 << bits))


def ids_of(messages: int) -> list[str]:
    """Return the ids of that many messages of history and, last, the new message's."""
    return [*_first_ids(messages.bit_length())[:messages], "new_message"]


def account(given: Given, parts: Parts, choice: Choice, reason: Reason) -> Account:
    """Return the account of a choice; `reason` is why messages were left out of it."""
    prompt = _system_prompt(given, choice, reason)
    messages = _messages(given, choice, reason, len(prompt) + 1)
    sent_prompt = [
        ComposedItem(id=one.id, kind=one.kind, group=one.group, fidelity=one.fidelity, tokens=one.tokens)
        for one in prompt
        if one.fidelity is not UNSET and one.tokens is not UNSET
    ]
    sent_messages = _sent(given, choice)
    groups = (
        Group(
            name=_SYSTEM,
            min=0,
            max=parts.system_tokens,
            used=choice.system_tokens,
            available=given.system_tokens,
            selected=len(sent_prompt),
            rejected=len(prompt) - len(sent_prompt),
        ),
        Group(
            name=_MESSAGES,
            min=0,
            max=parts.messages_tokens,
            used=sum(item.tokens for item in sent_messages),
            available=sum(given.costs),
            selected=len(sent_messages),
            rejected=len(messages) - len(sent_messages),
        ),
    )
    return Account(prompt + messages, (*sent_prompt, *sent_messages), groups)


def _system_prompt(given: Given, choice: Choice, reason: Reason) -> list[Entry]:
    if not given.system_prompt:
        return []
    outcome, tokens = Outcome.OMITTED, given.system_tokens
    fidelity: Opt[Fidelity] = UNSET
    left_out: Opt[Reason] = Reason.NO_ROOM if choice.sent else reason
    if choice.system_prompt:
        outcome, tokens, left_out = Outcome.SELECTED, choice.system_tokens, UNSET
        fidelity = Fidelity.FULL if choice.system_prompt == given.system_prompt else Fidelity.TRUNCATED
    return [
        Entry(
            _PROMPT_ID,
            _PROMPT_ID,
            _SYSTEM,
            1,
            outcome,
            tokens=tokens or UNSET,
            fidelity=fidelity,
            reason=left_out,
            margin=choice.system_margin or UNSET,
        )
    ]


def _messages(given: Given, choice: Choice, reason: Reason, rank: int) -> list[Entry]:
    """Return the new message, then the history, newest first: by columns, for they may be many."""
    number = len(given.ids)
    outcomes = [Outcome.OMITTED] * number
    tokens: list[Opt[int]] = [cost or UNSET for cost in given.costs] or [UNSET] * number
    fidelities: list[Opt[Fidelity]] = [UNSET] * number
    reasons: list[Opt[Reason]] = [reason] * number
    margins: list[Opt[Margin]] = [UNSET] * number
    for at in given.unsuitable:
        reasons[at] = Reason.UNSUITABLE
    for at, margin in choice.margins.items():
        margins[at] = margin
    for at in (number - 1, *choice.kept) if choice.sent else ():
        outcomes[at], fidelities[at], reasons[at] = Outcome.SELECTED, Fidelity.FULL, UNSET
        tokens[at] = given.costs[at]
    entries = map(
        Entry,
        given.ids,
        given.roles,
        repeat(_MESSAGES),
        range(rank + number - 1, rank - 1, -1),
        outcomes,
        repeat(UNSET),  # no score,
        repeat(UNSET),  # so no parts of one
        tokens,
        fidelities,
        reasons,
        margins,
    )
    return [*entries][::-1]


def _sent(given: Given, choice: Choice) -> list[ComposedItem]:
    """Return the messages that go, as they stand."""
    if not choice.sent:
        return []
    ids, roles, costs, full = given.ids, given.roles, given.costs, Fidelity.FULL
    return [
        ComposedItem(id=ids[at], kind=roles[at], group=_MESSAGES, fidelity=full, tokens=costs[at])
        for at in (*reversed(choice.kept), len(roles) - 1)
    ]
