"""Interface of a strategy, and helpers for strategies."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from msgspec import UNSET, Struct

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate, ContextRequest
from apportion.core.results import Reason
from apportion.core.strategy_api.levers import Levers, Meaning
from apportion.core.strategy_api.policy import Policy
from apportion.core.strategy_api.task import OwnPart, Prepared, PreparedVerdict, SessionPart, Task
from apportion.core.strategy_api.verdict import Bound, Verdicts

P = TypeVar("P", bound=Policy)
T = TypeVar("T", bound=OwnPart | None)


class CandidateNeeds(Struct, frozen=True):
    """The fields that a strategy requires of a candidate; a test checks that `unsuitable` agrees."""

    every: tuple[str, ...] = ()
    alternatives: tuple[tuple[str, ...], ...] = ()
    """Groups of fields; a candidate has all fields of at least one group."""
    unless_query: tuple[str, ...] = ()
    """Fields that a candidate may omit if the request has a query."""


class Strategy(Protocol[P, T]):
    """A way to select and render candidates; a value without state.

    For each request, `unsuitable` is called for every candidate, then `read_own`, then `compose` unless the
    composition is cached. `compose` also runs if nothing may be selected; `limit_tokens` is 0 then.
    `levers` and `meanings` are read only after a decision.
    """

    @property
    def name(self) -> str:
        """The name in policies."""

    @property
    def policy_type(self) -> type[P]:
        """The policy with this strategy's tables."""

    @property
    def reads(self) -> frozenset[str]:
        """The fields of a request that it reads, such as `constraints.pinned`, if not all strategies do."""

    @property
    def needs(self) -> frozenset[str]:
        """The fields of `reads` that a request must have."""

    @property
    def candidate_needs(self) -> CandidateNeeds:
        """The fields that a candidate must have."""

    @property
    def meanings(self) -> Mapping[Reason, Meaning]:
        """The meanings of reasons that only it gives, or that differ from `levers.MEANINGS`."""

    def levers(self, policy: P, group: str) -> Levers:
        """Return the levers that may admit an omitted candidate of a group."""

    def unsuitable(self, candidate: Candidate, policy: P) -> EventError | None:
        """Return an error with a relative pointer (`.lane`) if the candidate cannot be used."""

    def read_own(self, request: ContextRequest, session: SessionPart) -> T:
        """Return the inputs that only this strategy reads, from the request's fields in `reads`."""

    def compose(self, task: Task[P, T]) -> Verdicts:
        """Return a verdict for each candidate, and the output, within the limit; raise EventError."""


class WithoutCandidates:
    """Base of strategies that read no candidates."""

    name: str
    candidate_needs = CandidateNeeds()

    def levers(self, policy: Policy, group: str) -> Levers:  # noqa: ARG002 - the protocol's
        """Return no levers: only the total can be changed."""
        return Levers()

    def unsuitable(self, candidate: Candidate, policy: Policy) -> EventError | None:  # noqa: ARG002 - likewise
        """Return an error for every candidate."""
        return EventError(ErrorCode.UNSUPPORTED_FIELD, f"strategy {self.name} reads no candidates", "")


def set_costs(verdicts: Sequence[PreparedVerdict], count: Callable[[Sequence[Prepared]], list[int]]) -> None:
    """Set the cost of each candidate: its token estimate, or else the count of its content."""
    prepared = [verdict.prepared for verdict in verdicts]
    counts = iter(count([candidate for candidate in prepared if candidate.facts.token_estimate is UNSET]))
    for verdict, candidate in zip(verdicts, prepared, strict=True):
        estimate = candidate.facts.token_estimate
        verdict.cost = next(counts) if estimate is UNSET else estimate


def mark_superseded(ranked: Sequence[PreparedVerdict]) -> None:
    """Reject all but the newest candidate of each subject; `ranked` is in canonical order, which ends ties.

    A rejected candidate with the id of the newest one is its duplicate. Candidates that are already rejected
    are ignored. Protected candidates may be the newest and are never rejected.
    """
    dated = [verdict for verdict in ranked if verdict.prepared.newness and verdict.prepared.bound is None]
    newest: dict[object, PreparedVerdict] = {}
    for verdict in dated:
        best = newest.setdefault(verdict.prepared.facts.subject, verdict)
        if verdict.prepared.newness > best.prepared.newness:
            newest[verdict.prepared.facts.subject] = verdict
    for verdict in dated:
        best = newest[verdict.prepared.facts.subject]
        if best is verdict or verdict.prepared.protected:
            continue
        if best.id == verdict.id:
            verdict.bound = Bound.ID
        else:
            verdict.bound, verdict.superseded_by = Bound.SUBJECT, best.id


def missing(candidate: Candidate, fields: tuple[str, ...]) -> EventError | None:
    """Return an error if the candidate lacks any of these fields; it points at the first and names all."""
    absent = [field for field in fields if getattr(candidate, field) is UNSET]
    if not absent:
        return None
    more = f"; the candidate also lacks {', '.join(absent[1:])}" if absent[1:] else ""
    return EventError(
        ErrorCode.MISSING_FIELD, f"this policy's strategy needs this field{more}", f".{absent[0]}"
    )
