"""A task: everything that a strategy may read, closed and immutable.

Decides what composing depends on, and so the key under which a composition may be remembered: the key is
made from the task's own fields, so that nothing which a strategy reads can be forgotten. Never knows an
event, a session, or an identifier of either. What all strategies read are fields of the task; what one alone
reads is its own part.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Struct

from apportion.core.canonical import Facts
from apportion.core.canonical_json import canonical_json_of_any
from apportion.core.digests import digest
from apportion.core.overlap.selection_order import Overlap
from apportion.core.query.content_terms import ContentTerms
from apportion.core.strategy_api.policy import Policy
from apportion.core.strategy_api.verdict import Bound
from apportion.core.text.tokens import TokenCounter

P = TypeVar("P", bound=Policy)
T = TypeVar("T", bound="OwnPart | None")

NO_AGE = -1
"""The age class of a candidate that gives neither a creation time nor a recency bucket."""

_encode = msgspec.json.Encoder().encode
_by_id = attrgetter("id", "tie")


class Prepared(Struct, frozen=True, gc=False):
    """A candidate with its id and its facts; an absent kind, lane or content is empty.

    `facts` have no creation time and no recency bucket: `age` is the class of both, by the strategy's
    edges. `bound` is set where the candidate is already out; `constraint` is the place of the constraint that
    excluded, pinned or included it, and `protected` tells that it is pinned or must-included. `tie` orders
    candidates of equal rank; it is empty where ids tell them apart. `newness` orders candidates with a
    subject by time, the newest highest; it is equal where only canonical order decides, and 0 without a
    subject.
    """

    id: str
    kind: str
    lane: str
    content: str
    facts: Facts
    age: int
    bound: Bound | None
    constraint: str
    protected: bool
    tie: bytes
    newness: int = 0


class OwnPart(Struct, frozen=True):
    """Inputs that one strategy alone reads, made by its `read_own`."""

    def key(self) -> Sequence[Any]:
        """Return all of them for the key of a task."""
        return [in_key(getattr(self, name)) for name in self.__struct_fields__]


class SessionPart(OwnPart, frozen=True, kw_only=True):
    """The session as far as a strategy may read it.

    `carried` is what the strategy left for this session's next task, empty where it left nothing under this
    policy. Under a policy that holds prefixes, `is_cold` says that it was left too long ago, or for a later
    time. `is_outdated` says that something was left under another policy of that name, and so is not here.
    `marking_key` is the key of the session's marks, empty where the policy marks no items. `sequence` is the
    number of this answer, 0 where the policy does not read it.
    """

    carried: bytes
    is_cold: bool = False
    is_outdated: bool = False
    marking_key: bytes = b""
    sequence: int = 0

    def key(self) -> Sequence[Any]:
        """Return `carried` alone if nothing else is set: so it was in keys before there was more."""
        flags = self.is_cold, self.is_outdated
        carried = (self.carried, *flags) if any(flags) else self.carried
        marks = [digest(self.marking_key)] if self.marking_key else []
        return [carried, *marks, *([self.sequence] if self.sequence else [])]


class Task(Struct, Generic[P, T], frozen=True, kw_only=True):
    """One composition to make.

    Where `limit_tokens` is 0 nothing may stand, and nothing needs to be counted. `total_tokens` is the
    configured total, for strategies that read `budget_tokens` beside the limit, else 0. `candidates` stand in
    no order that means anything. `own` is what this strategy alone reads, None if there is nothing.
    `count_contents` counts contents as `counter` does, each distinct one once. `terms_of_contents` returns
    the terms of each content in passages of at most so many characters, 0 for one passage. `overlap_of` tells
    what candidates, in canonical order, say of each other, by a threshold.
    """

    policy: P
    limit_tokens: int
    total_tokens: int
    counter: TokenCounter
    candidates: tuple[Prepared, ...]
    own: T
    count_contents: Callable[[Sequence[Prepared]], list[int]]
    terms_of_contents: Callable[[Sequence[Prepared], Sequence[int]], list[ContentTerms]]
    overlap_of: Callable[[Sequence[Prepared], int], Overlap]

    def key(self, scope: Sequence[Any]) -> str:
        """Return the digest of all that composing depends on, within a scope.

        The order of the candidates does not show.
        """
        read = [view(self) for view in _READ]
        if self.own is not None:
            read += self.own.key()
        return digest(_encode((scope, read)))


def in_key(value: Any) -> Any:
    """Return a value of an own part as a key has it: in canonical JSON, null where it is absent."""
    return None if value is UNSET else msgspec.Raw(canonical_json_of_any(msgspec.to_builtins(value)))


def _candidates(task: Task[Any, Any]) -> Any:
    """Return all that is read of candidates; a content is covered by its digest, an id by the facts."""
    ordered = sorted(task.candidates, key=_by_id)
    return [
        (
            candidate.facts,
            candidate.age,
            candidate.bound,
            candidate.constraint,
            candidate.protected,
            candidate.tie,
            *((candidate.newness,) if candidate.newness else ()),
        )
        for candidate in ordered
    ]


_VIEWS: Mapping[str, Callable[[Task[Any, Any]], Any]] = {
    "policy": attrgetter("policy.digest"),
    "counter": attrgetter("counter.name", "counter.digest"),
    "candidates": _candidates,
}
"""How a field enters the key, where not as it is."""
_ELSEWHERE = frozenset({"own", "count_contents", "terms_of_contents", "overlap_of"})
_READ = tuple(_VIEWS.get(name, attrgetter(name)) for name in Task.__struct_fields__ if name not in _ELSEWHERE)
"""How each field is read for the key; functions of what it has are no inputs of their own."""
