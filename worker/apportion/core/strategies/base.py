"""What a strategy is: the door between `compose` and the five ways to choose.

Decides the shape of a task and of its result. A strategy is a value, has no state, and sees one
request at a time; sessions, limits, digests and events are `compose`'s.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import UNSET, Struct

from apportion.core.candidates import Prepared
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate, ContextRequest, Opt
from apportion.core.policy import Policy
from apportion.core.results import (
    ComposedItem,
    Entry,
    Group,
    Reason,
    Status,
)
from apportion.core.tokens import TokenCounter

P = TypeVar("P", bound=Policy)

BEFORE_WITHHOLDING = frozenset({Reason.DUPLICATE, Reason.SUPERSEDED, Reason.UNSUITABLE, Reason.EXPIRED})
"""Reasons that stay where a limit of 0 withholds everything."""
BEYOND_INFEASIBLE = frozenset(
    {Reason.BUDGET_EXCEEDED, Reason.NO_ROOM, Reason.HISTORY_TRUNCATED, Reason.DROPPED_AFTER_RENDER}
)
"""Reasons that `infeasible` stands instead of."""


class Task(Struct, Generic[P], frozen=True):
    """One composition to make.

    `candidates` are prepared, in no order that means anything. Where `withheld` is set nothing may be
    selected, and all that is not already omitted is omitted for that reason; `limit_tokens` is 0.
    `count_contents` counts contents as `counter` does, each distinct one once.
    """

    request: ContextRequest
    policy: P
    limit_tokens: int
    counter: TokenCounter
    candidates: tuple[Prepared, ...]
    withheld: Reason | None
    count_contents: Callable[[Sequence[Prepared]], list[int]]


class Composition(Struct, frozen=True, kw_only=True):
    """What a strategy made of a task. `entries` account for every candidate, in the order of rank."""

    status: Status
    entries: list[Entry]
    groups: tuple[Group, ...]
    items: tuple[ComposedItem, ...] = ()
    text: Opt[str] = UNSET
    system_prompt: Opt[str] = UNSET
    messages: Opt[tuple[dict[str, Any], ...]] = UNSET
    estimated_tokens: int = 0
    used_tokens: int = 0
    reserved_tokens: int = 0
    truncated_messages: Opt[int] = UNSET


class CandidateNeeds(Struct, frozen=True):
    """The fields that a strategy's candidates have: all of `every`, and all of one of `alternatives`, if any.

    The schemas say them, and a test holds `unsuitable` to what the schemas say.
    """

    every: tuple[str, ...] = ()
    alternatives: tuple[tuple[str, ...], ...] = ()


class Strategy(Protocol[P]):
    """A way to choose. `reads` names the request's fields that it reads, `constraints.…` included."""

    @property
    def name(self) -> str:
        """The name in policies."""
        ...

    @property
    def policy_type(self) -> type[P]:
        """The policy with this strategy's tables."""
        ...

    @property
    def reads(self) -> frozenset[str]:
        """The fields of a request that this strategy reads beside those that all do."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """Those of them without which there is nothing to do."""
        ...

    @property
    def candidate_needs(self) -> CandidateNeeds:
        """The fields that its candidates have."""
        ...

    def unsuitable(self, candidate: Candidate, policy: P) -> EventError | None:
        """Return why this candidate cannot be used, its pointer relative (`.lane`); None if it can."""
        ...

    def compose(self, task: Task[P]) -> Composition:
        """Choose and render; never passes the limit.

        Raises:
            EventError: the request lacks what the strategy needs.
        """
        ...


def missing(candidate: Candidate, fields: tuple[str, ...]) -> EventError | None:
    """Return the error for the first of these fields that the candidate lacks."""
    for field in fields:
        if getattr(candidate, field) is UNSET:
            return EventError(ErrorCode.MISSING_FIELD, "this policy's strategy needs this field", f".{field}")
    return None


class Considered(Protocol):
    """A candidate in canonical order, and why it is out, if it is."""

    prepared: Prepared
    reason: Reason | None


def mark_repeats(ranked: Sequence[Considered]) -> None:
    """Mark candidates, the best-ranked first, as duplicates where an id comes again."""
    if len({one.prepared.id for one in ranked}) == len(ranked):
        return
    seen: set[str] = set()
    for one in ranked:
        if one.prepared.id in seen:
            one.reason = Reason.DUPLICATE
        seen.add(one.prepared.id)


def withhold(ranked: Sequence[Considered], reason: Reason) -> None:
    """Leave everything out for one reason, but what is out for one that comes before it."""
    for one in ranked:
        if one.reason not in BEFORE_WITHHOLDING:
            one.reason = reason
