"""Search for the smallest change that would have admitted an omitted candidate, by composing again.

Only one value changes at a time: the total, a ceiling, quota or score that the strategy names, or a pin. The
search doubles its steps from the recorded value, then bisects. The value found admits the candidate, the
value below does not; a smaller one may exist, because exact counts are not monotone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.canonical import named
from apportion.core.canonical_json import thousandths
from apportion.core.compose import Answered, compose
from apportion.core.engine import Engine
from apportion.core.errors import EventError
from apportion.core.event_time import event_time_us
from apportion.core.events import (
    MAX_INTEGER,
    Candidate,
    Constraint,
    Constraints,
    ContextRequest,
    Match,
    MatchType,
    Opt,
)
from apportion.core.memory import Memory
from apportion.core.results import ContextDecision, Detail, Entry, Fidelity, Reason
from apportion.core.session.row import session_at
from apportion.core.strategies import STRATEGIES, meaning_of, parse_policy
from apportion.core.strategy_api.levers import Ceiling, Lever, ScoreField
from apportion.core.strategy_api.policy import Policy, PolicyError
from apportion.decisions.replay.origin import Origin
from apportion.decisions.replay.recomposing import row_under

RECOMPOSITIONS_MAX = 256
_COUNTS_MAX = 1 << 14


class Searched(StrEnum):
    """The end of a search: a value that admits, none up to the maximum, or the limit of recompositions."""

    ADMITTED = "admitted"
    REFUSED = "refused"
    STOPPED = "stopped"


class AdmittingChange(Struct, frozen=True, kw_only=True):
    """One change alone. Values are tokens, or the unit of the key; thousandths of a score; 0 or 1 for a pin.

    - `now`, `most`: the recorded value and the largest possible value of `key`.
    - `needed`: the value found. If the search was stopped, it admits, but a smaller one is not excluded.
    - `fidelity`: the fidelity with which it admits the candidate.
    - `displaced`: ids of items that it removes from the context, in the order of the text.
    - `reason`: without a value found, the reason of the omission at `most`, if that can be composed.
    """

    lever: Lever
    key: str
    now: int
    most: int
    ended: Searched
    needed: Opt[int] = UNSET
    fidelity: Opt[Fidelity] = UNSET
    displaced: tuple[str, ...] = ()
    reason: Opt[Reason] = UNSET


class Why(Struct, frozen=True):
    """The changes that were searched, in the order of `Lever`; empty if no change can help."""

    changes: tuple[AdmittingChange, ...]
    recompositions: int


class _Case(Struct, frozen=True):
    request: ContextRequest
    policy: Policy


class _Search(Struct, frozen=True):
    """A lever with its range and first step; `case` returns the recorded case with another value."""

    lever: Lever
    key: str
    now: int
    most: int
    step: int
    case: Callable[[int], _Case]


class _TooManyError(Exception):
    """The limit of recompositions is reached."""


def can_help(strategy: str, reason: Reason) -> bool:
    """Return whether a change may help against a reason, so that a search makes sense."""
    return bool(_helpful(strategy, reason))


class UnknownCandidateError(Exception):
    """The decision does not list a candidate with this id."""

    code = "unknown_candidate"
    exit_code = 2


def entries_of(decision: ContextDecision, candidate_id: str) -> list[Entry]:
    """Return the entries of an id, duplicates and superseded ones last, or raise UnknownCandidateError."""
    entries = [entry for entry in decision.candidates if entry.id == candidate_id]
    if not entries:
        unlisted = sum(omitted.count for omitted in decision.unlisted)
        setting = "decision_omitted_max" if decision.detail is Detail.FULL else "decision_detail"
        hint = f"; {unlisted:,} that were left out are not listed ({setting})" if unlisted else ""
        raise UnknownCandidateError(f"the decision lists no candidate with this id{hint}")
    return sorted(entries, key=lambda entry: entry.reason in {Reason.DUPLICATE, Reason.SUPERSEDED})


def is_open(decision: ContextDecision, entry: Entry) -> bool:
    """Return whether a change may admit an omitted candidate, so that a search for it makes sense."""
    return entry.reason is not UNSET and can_help(decision.policy.strategy, entry.reason)


def why(origin: Origin, engine: Engine, entry: Entry, recompositions_max: int = RECOMPOSITIONS_MAX) -> Why:
    """Return the smallest change found of each kind that would have admitted an omitted candidate.

    Pure: the same arguments give the same answer. All searches share the limit of recompositions. Each value
    found is checked by one more recomposition, without a cache, which the limit does not count.
    """
    assert entry.reason is not UNSET, "it was left out"
    admission = _AdmissionSearch(origin, engine, entry.id, recompositions_max)
    helpful = _helpful(origin.policy.strategy, entry.reason)
    searches = [search for search in _searches(origin, engine, entry) if search.lever in helpful]
    return Why(tuple([admission.smallest(search) for search in searches]), admission.recompositions)


def _helpful(strategy: str, reason: Reason) -> tuple[Lever, ...]:
    """Return the levers that may help against a reason; all if its meaning is unknown."""
    meaning = meaning_of(strategy, reason)
    return tuple(Lever) if meaning is None else meaning.helps


class _AdmissionSearch:
    """Counted recompositions of one request."""

    def __init__(self, origin: Origin, engine: Engine, candidate_id: str, recompositions_max: int) -> None:
        self.recompositions = 0
        self._origin = origin
        self._engine = engine
        self._id = candidate_id
        self._max = recompositions_max
        self._memory = Memory(compositions_max=0, counts_max=_COUNTS_MAX)
        before = compose(origin.request, origin.session, origin.policy, engine, self._memory)
        self._reason: Opt[Reason] = UNSET
        self._ids_before = [item.id for item in before.composed.items]

    def smallest(self, search: _Search) -> AdmittingChange:
        """Return the smallest change found of one kind."""
        self._reason = UNSET
        most, step, ended = search.most, search.step, Searched.REFUSED
        refused, admitted = search.now, most + 1
        try:
            # double the steps up to a value that admits, or to the maximum
            while admitted > most and refused < most:
                value = min(refused + step, most)
                refused, admitted = (refused, value) if self._admits(search, value) else (value, admitted)
                step *= 2
            if admitted <= most:
                ended = Searched.ADMITTED
            # bisect between the last value that does not admit and the first that does
            while ended is Searched.ADMITTED and admitted - refused > 1:
                value = (refused + admitted) // 2
                refused, admitted = (refused, value) if self._admits(search, value) else (value, admitted)
        except _TooManyError:
            ended = Searched.STOPPED
        change = AdmittingChange(lever=search.lever, key=search.key, now=search.now, most=most, ended=ended)
        if admitted <= most:
            return self._checked(change, search, admitted)
        return replace(change, reason=self._reason) if ended is Searched.REFUSED else change

    def _checked(self, change: AdmittingChange, search: _Search, needed: int) -> AdmittingChange:
        """Compose once more; add the value found, the candidate's fidelity and the displaced items."""
        items = self._composed(search.case(needed), None).composed.items
        [fidelity] = [item.fidelity for item in items if item.id == self._id]
        ids_after = {item.id for item in items}
        displaced = tuple([item_id for item_id in self._ids_before if item_id not in ids_after])
        return replace(change, needed=needed, fidelity=fidelity, displaced=displaced)

    def _admits(self, search: _Search, value: int) -> bool:
        if self.recompositions >= self._max:
            raise _TooManyError
        self.recompositions += 1
        try:
            answered = self._composed(search.case(value), self._memory)
        except (EventError, PolicyError):
            self._reason = UNSET
            return False  # such a request or policy is invalid
        reasons = [entry.reason for entry in answered.decision.candidates if entry.id == self._id]
        self._reason = next((reason for reason in reasons if reason is not Reason.DUPLICATE), UNSET)
        return any(item.id == self._id for item in answered.composed.items)

    def _composed(self, case: _Case, memory: Memory | None) -> Answered:
        session = row_under(self._origin.session, self._origin.policy, case.policy)
        return compose(case.request, session, case.policy, self._engine, memory)


def _searches(origin: Origin, engine: Engine, entry: Entry) -> Iterator[_Search]:
    request, policy = origin.request, origin.policy
    step = 1 if entry.margin is None else max(1, entry.margin.needed - entry.margin.left)
    total = policy.total_tokens(request.budget_tokens)
    yield _Search(
        Lever.TOTAL,
        "budget_tokens",
        total,
        policy.budget_tokens_max or MAX_INTEGER,
        step,
        lambda value: _Case(replace(request, budget_tokens=value), policy),
    )
    strategy = STRATEGIES[policy.strategy]
    levers = strategy.levers(policy, entry.group)
    if levers.ceiling is not None:
        yield _policy_search(origin, Lever.CEILING, levers.ceiling, step)
    for quota in levers.quotas:
        yield _policy_search(origin, Lever.QUOTA, quota, 1)
    began_us = session_at(origin.session, event_time_us(request.requested_at)).start_us or 0
    yield from _score_search(origin, engine.secrets.of(request.tenant, began_us), entry.id, levers.scores)
    if "constraints.pinned" in strategy.reads:
        pinned = _Case(_pinned(request, entry.id), policy)
        yield _Search(Lever.PIN, "constraints.pinned", 0, 1, 1, lambda _: pinned)


def _policy_search(origin: Origin, lever: Lever, ceiling: Ceiling, step: int) -> _Search:
    raw = origin.policy.model_dump()

    def case(value: int) -> _Case:
        return _Case(origin.request, parse_policy(_with(raw, ceiling.keys, value)))

    return _Search(lever, ".".join(ceiling.keys), ceiling.now, ceiling.most, step, case)


def _with(table: Mapping[str, Any], keys: Sequence[str], value: int) -> Mapping[str, Any]:
    """Return a copy of a table with another value at this path of keys."""
    first, *rest = keys
    return {**table, first: _with(table[first], rest, value) if rest else value}


def _score_search(
    origin: Origin, secret: bytes | None, candidate_id: str, fields: Sequence[ScoreField]
) -> Iterator[_Search]:
    """Yield the search for a higher score, if the candidate has one of the fields.

    An artifact of the pool is sent as a candidate of the request, which replaces it.
    """
    request, policy = origin.request, origin.policy
    candidates = request.candidates or ()
    own = [candidate for candidate in candidates if _is(candidate, candidate_id, secret)]
    if not own:
        pool = [pooled.artifact for pooled in origin.session.pool if pooled.id == candidate_id]
        own = [replace(artifact, id=candidate_id) for artifact in pool]
        candidates += tuple(own)
    for field in fields:
        given = [
            thousandths(value) for candidate in own if (value := getattr(candidate, field.name)) is not UNSET
        ]
        if given:
            break
    else:
        return

    def case(value: int) -> _Case:
        changed = [
            replace(candidate, **{field.name: value / 1_000})
            if _is(candidate, candidate_id, secret)
            else candidate
            for candidate in candidates
        ]
        return _Case(replace(request, candidates=tuple(changed)), policy)

    yield _Search(Lever.SCORE, field.name, max(given), field.most, 1, case)


def _is(candidate: Candidate, candidate_id: str, secret: bytes | None) -> bool:
    return named(candidate, secret)[0] == candidate_id


def _pinned(request: ContextRequest, candidate_id: str) -> ContextRequest:
    constraints = Constraints() if request.constraints is UNSET else request.constraints
    pin = Constraint(Match(MatchType.ID, candidate_id))
    return replace(request, constraints=replace(constraints, pinned=(*constraints.pinned, pin)))
