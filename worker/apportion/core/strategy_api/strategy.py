"""Interface of a strategy, through which `compose` calls each way to choose.

A strategy is a value without state. It sees one task at a time, returns verdicts, and records nothing itself.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from msgspec import UNSET, Struct

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate, ContextRequest
from apportion.core.results import Reason
from apportion.core.strategy_api.levers import Levers, Meaning
from apportion.core.strategy_api.policy import Policy
from apportion.core.strategy_api.task import OwnPart, Prepared, SessionPart, Task
from apportion.core.strategy_api.verdict import Verdicts

P = TypeVar("P", bound=Policy)
T = TypeVar("T", bound=OwnPart | None)


class CandidateNeeds(Struct, frozen=True):
    """The fields that a strategy's candidates have: all of `every`, and all of one of `alternatives`, if any.

    In a request with a query, a candidate may leave out those of `unless_query`.
    The schemas say them, and a test holds `unsuitable` to what the schemas say.
    """

    every: tuple[str, ...] = ()
    alternatives: tuple[tuple[str, ...], ...] = ()
    unless_query: tuple[str, ...] = ()


class Strategy(Protocol[P, T]):
    """A way to choose. `reads` names the request's fields that it reads, `constraints.…` included."""

    @property
    def name(self) -> str:
        """The name in policies."""

    @property
    def policy_type(self) -> type[P]:
        """The policy with this strategy's tables."""

    @property
    def reads(self) -> frozenset[str]:
        """The fields of a request that this strategy reads beside those that all do."""

    @property
    def needs(self) -> frozenset[str]:
        """Those of them without which there is nothing to do."""

    @property
    def candidate_needs(self) -> CandidateNeeds:
        """The fields that its candidates have."""

    @property
    def meanings(self) -> Mapping[Reason, Meaning]:
        """The meanings of reasons that it alone gives, or gives in another sense than `levers.MEANINGS`."""

    def levers(self, policy: P, group: str) -> Levers:
        """Return the levers that may admit an omitted candidate of a group."""

    def unsuitable(self, candidate: Candidate, policy: P) -> EventError | None:
        """Return why this candidate cannot be used, its pointer relative (`.lane`); None if it can."""

    def read_own(self, request: ContextRequest, session: SessionPart) -> T:
        """Return what this strategy alone reads; of the request no other fields than those in `reads`."""

    def compose(self, task: Task[P, T]) -> Verdicts:
        """Choose and render; never passes the limit.

        Raises:
            EventError: the request lacks what the strategy needs.
        """


class WithoutCandidates:
    """The part of a strategy that reads no candidates."""

    name: str
    candidate_needs = CandidateNeeds()

    def levers(self, policy: Policy, group: str) -> Levers:  # noqa: ARG002 - the protocol's
        """Return none: only the total can be changed."""
        return Levers()

    def unsuitable(self, candidate: Candidate, policy: Policy) -> EventError | None:  # noqa: ARG002 - likewise
        """Return that no candidate can be used."""
        return EventError(ErrorCode.UNSUPPORTED_FIELD, f"strategy {self.name} reads no candidates", "")


class Priced(Protocol):
    """A candidate with a selection cost."""

    cost: int

    @property
    def prepared(self) -> Prepared:
        """The candidate."""


def set_costs(candidates: Sequence[Priced], count: Callable[[Sequence[Prepared]], list[int]]) -> None:
    """Set the cost of each candidate: its token estimate, or else the count of its content."""
    prepared = [candidate.prepared for candidate in candidates]
    counts = iter(count([each for each in prepared if each.facts.token_estimate is UNSET]))
    for candidate, each in zip(candidates, prepared, strict=True):
        estimate = each.facts.token_estimate
        candidate.cost = next(counts) if estimate is UNSET else estimate


def missing(candidate: Candidate, fields: tuple[str, ...]) -> EventError | None:
    """Return the error for these fields that the candidate lacks: it points at the first and names all."""
    absent = [field for field in fields if getattr(candidate, field) is UNSET]
    if not absent:
        return None
    more = f"; the candidate also lacks {', '.join(absent[1:])}" if absent[1:] else ""
    return EventError(
        ErrorCode.MISSING_FIELD, f"this policy's strategy needs this field{more}", f".{absent[0]}"
    )
