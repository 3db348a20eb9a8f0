"""Tasks: all inputs of a strategy, immutable, and the key under which a composition is cached.

A test checks that every input is in the key. A task has no event, no session and no identifier of either.
Inputs that only one strategy reads are its own part.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Struct

from apportion.core.canonical import Facts
from apportion.core.canonical_json import canonical_json_of_any
from apportion.core.digests import digest
from apportion.core.events import Opt
from apportion.core.models import NO_FRAME, NO_SCALE, Frame, Model, Scale
from apportion.core.overlap.selection_order import Overlap
from apportion.core.query.passages import ContentTerms
from apportion.core.strategy_api.policy import Policy
from apportion.core.strategy_api.verdict import Bound
from apportion.core.text import labelled
from apportion.core.text.tokens import TokenCounter

P = TypeVar("P", bound=Policy)
T = TypeVar("T", bound="OwnPart | None")

AGE_EDGES_S = (60, 300, 1_800, 7_200, 86_400)
"""Upper edges of the age classes 0 to 4, exclusive; class 5 is all above. Source: the Composer.

The classes are coarse, so that a few seconds rarely change a score.
"""
NO_AGE = -1
"""The age class of a candidate that gives neither a creation time nor a recency bucket."""

_encode = msgspec.json.Encoder().encode
_by_id = attrgetter("id", "tie")


def recency_bucket(age: int) -> int:
    """Return the bucket of an age class: 5 for class 0 (the most recent) to 0 for class 5."""
    return len(AGE_EDGES_S) - age


def age_of(recency_bucket: int) -> int:
    """Return the age class of a bucket."""
    return len(AGE_EDGES_S) - recency_bucket


class Prepared(Struct, frozen=True, gc=False):
    """A candidate with its id and its facts; an absent kind, lane or content is empty."""

    id: str
    kind: str
    lane: str
    content: str
    facts: Facts
    """Without creation time and recency bucket, which `age` replaces."""
    age: int
    """The age class, by the edges of the policy, or `NO_AGE`."""
    bound: Bound | None
    """Set if the candidate is already rejected."""
    constraint: str
    """The constraint that excluded, pinned or included it, such as `pinned[0]`."""
    protected: bool
    """True if the candidate is pinned or must-included."""
    tie: bytes
    """The canonical JSON, which orders candidates of equal rank; empty if all ids of the request differ."""
    newness: int = 0
    """The rank by time of a candidate with a subject, newest highest; 0 without a subject."""

    @property
    def labelled(self) -> str:
        """The content with the source label before it."""
        return labelled(self.content, self.facts.source_label)


class PreparedVerdict(Protocol):
    """A verdict on a prepared candidate."""

    id: str
    bound: Bound | None
    superseded_by: str
    cost: int

    @property
    def prepared(self) -> Prepared:
        """The candidate."""


class OwnPart(Struct, frozen=True):
    """Inputs that only one strategy reads, made by its `read_own`."""

    def key(self) -> Sequence[Any]:
        """Return all fields for the key of a task."""
        return [in_key(getattr(self, name)) for name in self.__struct_fields__]


class SessionPart(OwnPart, frozen=True, kw_only=True):
    """The part of a session that a strategy may read."""

    carried: bytes
    """The state from the session's last task under this policy; empty if there is none."""
    is_cold: bool = False
    """True if the carried state is too old for a provider's cache, or of a later time."""
    is_outdated: bool = False
    """True if the session carries state of another version of this policy, which is not passed on."""
    marking_key: bytes = b""
    """The key of the session's marks; empty if the policy marks no items."""
    sequence: int = 0
    """The number of this answer; 0 if the policy does not read it."""

    def key(self) -> Sequence[Any]:
        """Return the fields that are set, and always `carried`, as in the keys of earlier versions."""
        flags = self.is_cold, self.is_outdated
        carried = (self.carried, *flags) if any(flags) else self.carried
        marks = [digest(self.marking_key)] if self.marking_key else []
        return [carried, *marks, *([self.sequence] if self.sequence else [])]


class Task(Struct, Generic[P, T], frozen=True, kw_only=True):
    """The inputs of one composition."""

    policy: P
    limit_tokens: int
    """If 0, nothing may be selected, and nothing needs to be counted."""
    total_tokens: int
    """The configured total, for strategies that read `budget_tokens`, else 0."""
    counter: TokenCounter
    model: Model | None = None
    """The row of the model, if the policy counts by it: its counter is `counter`."""
    candidates: tuple[Prepared, ...]
    """In no particular order."""
    own: T
    """The inputs that only this strategy reads; None if there are none."""
    count_contents: Callable[[Sequence[Prepared]], list[int]]
    """Counts contents with their source labels by `counter`, each distinct text once."""
    terms_of_contents: Callable[[Sequence[Prepared], Sequence[int], Sequence[int], bool], list[ContentTerms]]
    """Returns the terms of each content, in passages of at most these characters; 0: one passage.

    The last numbers are the most characters of a line that is not cut. If the last argument is true, terms
    are stems.
    """
    overlap_of: Callable[[Sequence[Prepared], int], Overlap]
    """Returns the overlaps of candidates in canonical order, by a threshold in thousandths."""

    @property
    def frame(self) -> Frame:
        """The frame of the model; all zero without a model."""
        return NO_FRAME if self.model is None else self.model.frame

    @property
    def scale(self) -> Scale:
        """The correction of counts; it changes nothing without a model or its correction."""
        return NO_SCALE if self.model is None else self.model.scale or NO_SCALE

    @property
    def mark_ttl(self) -> Opt[str]:
        """The time to live of marks for a provider's cache; absent if the model has none."""
        rules = None if self.model is None else self.model.cache
        return UNSET if rules is None else rules.ttl(self.policy.prefix_ttl_s) or UNSET

    def key(self, scope: Sequence[Any]) -> str:
        """Return the digest of all inputs and of a scope; the order of the candidates does not matter."""
        read = [
            self.policy.digest,
            self.limit_tokens,
            self.total_tokens,
            (self.counter.name, self.counter.digest),
            *([] if self.model is None else [self.model.digest]),
            _candidates(self),
            *([] if self.own is None else self.own.key()),
        ]
        return digest(_encode((scope, read)))


def in_key(value: Any) -> Any:
    """Return a value of an own part for the key: its canonical JSON, or null if it is absent."""
    return None if value is UNSET else msgspec.Raw(canonical_json_of_any(msgspec.to_builtins(value)))


def _candidates(task: Task[Any, Any]) -> Any:
    """Return the fields of candidates for the key; the facts have the id and the content's digest."""
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
