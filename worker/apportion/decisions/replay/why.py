"""Search for the smallest change that would have admitted an omitted candidate, by composing again.

The changes are the total, the ceiling and the score that the strategy names, and a pin, each by itself. The
smallest of each is searched in doubling steps up from what was, then by bisection. Exact counts are not
monotone, so that a smaller one may be missed: what is found admits, one less does not, and more is not
claimed. Never changes what is recorded.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.canonical import named
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
from apportion.core.results import Entry, Fidelity, Reason
from apportion.core.rounding import thousandths
from apportion.core.session.row import session_at
from apportion.core.strategies import STRATEGIES, meaning_of, parse_policy
from apportion.core.strategy_api.levers import Ceiling, Lever, ScoreField
from apportion.core.strategy_api.policy import Policy, PolicyError
from apportion.decisions.replay.changed_row import row_under
from apportion.decisions.replay.origin import Origin

RECOMPOSITIONS_MAX = 256
_COUNTS_MAX = 1 << 14


class Searched(StrEnum):
    """How a search ended: with a change that admits, with none up to `most`, or at the limit of work."""

    ADMITTED = "admitted"
    REFUSED = "refused"
    STOPPED = "stopped"


class AdmittingChange(Struct, frozen=True, kw_only=True):
    """One change, by itself: of `key`, from what was `now` to what is `needed`, where that was found.

    Tokens, or what the ceiling's key counts; of a score thousandths; of a pin 0 and 1. `most` is the highest
    value of the key. `displaced` stood in the context and then do not, in the order of its text. A search
    that was stopped may tell what is `needed`: it admits, and a smaller one was not ruled out. Where none
    was found, `reason` is why it was left out under the most, if that can be composed.
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
    """What was tried, in the order of `Lever`; none where no change of these can help."""

    changes: tuple[AdmittingChange, ...]
    recompositions: int


class _Case(Struct, frozen=True):
    request: ContextRequest
    policy: Policy


class _Way(Struct, frozen=True):
    """A lever, how far it moves, its first step, and the case that a value makes of the recorded one."""

    lever: Lever
    key: str
    now: int
    most: int
    step: int
    case: Callable[[int], _Case]


class _TooManyError(Exception):
    """The limit of recompositions is reached."""


def can_help(strategy: str, reason: Reason) -> bool:
    """Tell whether there is a change to look for."""
    return bool(_helpful(strategy, reason))


def why(origin: Origin, engine: Engine, entry: Entry, recompositions_max: int = RECOMPOSITIONS_MAX) -> Why:
    """Return the smallest change found of each kind that would have admitted an omitted candidate.

    Pure: the same arguments give the same answer. The limit is that of all searches together; the change
    that each one ends with is composed once more beyond it, with nothing remembered.
    """
    assert entry.reason is not UNSET, "it was left out"
    search = _AdmissionSearch(origin, engine, entry.id, recompositions_max)
    helpful = _helpful(origin.policy.strategy, entry.reason)
    ways = [way for way in _ways(origin, engine, entry) if way.lever in helpful]
    return Why(tuple([search.smallest(way) for way in ways]), search.recompositions)


def _helpful(strategy: str, reason: Reason) -> tuple[Lever, ...]:
    """Return the levers that may help against a reason: all, if its meaning is not known."""
    meaning = meaning_of(strategy, reason)
    return tuple(Lever) if meaning is None else meaning.helps


class _AdmissionSearch:
    """Recompositions of one request, counted."""

    def __init__(self, origin: Origin, engine: Engine, candidate_id: str, recompositions_max: int) -> None:
        self.recompositions = 0
        self._origin = origin
        self._engine = engine
        self._id = candidate_id
        self._max = recompositions_max
        self._memory = Memory(compositions_max=0, counts_max=_COUNTS_MAX)
        before = compose(origin.request, origin.session, origin.policy, engine, self._memory)
        self._reason: Opt[Reason] = UNSET
        self._stood = [item.id for item in before.composed.items]

    def smallest(self, way: _Way) -> AdmittingChange:
        """Return the smallest change found of one kind."""
        self._reason = UNSET
        refused, admitted, step, ended = way.now, way.most + 1, way.step, Searched.REFUSED
        try:
            while admitted > way.most and refused < way.most:
                value = min(refused + step, way.most)
                refused, admitted = (refused, value) if self._admits(way, value) else (value, admitted)
                step *= 2
            if admitted <= way.most:
                ended = Searched.ADMITTED
            while ended is Searched.ADMITTED and admitted - refused > 1:
                value = (refused + admitted) // 2
                refused, admitted = (refused, value) if self._admits(way, value) else (value, admitted)
        except _TooManyError:
            ended = Searched.STOPPED
        change = AdmittingChange(lever=way.lever, key=way.key, now=way.now, most=way.most, ended=ended)
        if admitted <= way.most:
            return self._checked(change, way, admitted)
        return replace(change, reason=self._reason) if ended is Searched.REFUSED else change

    def _checked(self, change: AdmittingChange, way: _Way, needed: int) -> AdmittingChange:
        """Compose once more, and tell how the candidate stands then, and who does not."""
        items = self._composed(way.case(needed), None).composed.items
        [fidelity] = [item.fidelity for item in items if item.id == self._id]
        standing = {item.id for item in items}
        displaced = tuple([item_id for item_id in self._stood if item_id not in standing])
        return replace(change, needed=needed, fidelity=fidelity, displaced=displaced)

    def _admits(self, way: _Way, value: int) -> bool:
        if self.recompositions >= self._max:
            raise _TooManyError
        self.recompositions += 1
        try:
            answered = self._composed(way.case(value), self._memory)
        except (EventError, PolicyError):
            self._reason = UNSET
            return False  # nobody could ask for that
        reasons = [entry.reason for entry in answered.decision.candidates if entry.id == self._id]
        self._reason = next((reason for reason in reasons if reason is not Reason.DUPLICATE), UNSET)
        return any(item.id == self._id for item in answered.composed.items)

    def _composed(self, case: _Case, memory: Memory | None) -> Answered:
        session = row_under(self._origin.session, self._origin.policy, case.policy)
        return compose(case.request, session, case.policy, self._engine, memory)


def _ways(origin: Origin, engine: Engine, entry: Entry) -> Iterator[_Way]:
    request, policy = origin.request, origin.policy
    step = 1 if entry.margin is None else max(1, entry.margin.needed - entry.margin.left)
    total = policy.total_tokens(request.budget_tokens)
    yield _Way(
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
        yield _number(origin, Lever.CEILING, levers.ceiling, step)
    for quota in levers.quotas:
        yield _number(origin, Lever.QUOTA, quota, 1)
    began_us = session_at(origin.session, event_time_us(request.requested_at)).start_us or 0
    yield from _score(origin, engine.secrets.of(request.tenant, began_us), entry.id, levers.scores)
    if "constraints.pinned" in strategy.reads:
        yield _Way(
            Lever.PIN, "constraints.pinned", 0, 1, 1, lambda _: _Case(_pinned(request, entry.id), policy)
        )


def _number(origin: Origin, lever: Lever, ceiling: Ceiling, step: int) -> _Way:
    raw = origin.policy.model_dump()

    def case(value: int) -> _Case:
        return _Case(origin.request, parse_policy(_with(raw, ceiling.keys, value)))

    return _Way(lever, ".".join(ceiling.keys), ceiling.now, ceiling.most, step, case)


def _with(table: Mapping[str, Any], keys: Sequence[str], value: int) -> Mapping[str, Any]:
    """Return a copy of a table with another value at the end of these keys."""
    first, *rest = keys
    return {**table, first: _with(table[first], rest, value) if rest else value}


def _score(
    origin: Origin, secret: bytes | None, candidate_id: str, fields: Sequence[ScoreField]
) -> Iterator[_Way]:
    """Yield what moves a candidate up; one of the pool is sent with the request, in place of itself."""
    request, policy = origin.request, origin.policy
    candidates = request.candidates or ()
    if not any(_is(candidate, candidate_id, secret) for candidate in candidates):
        pool = [pooled.artifact for pooled in origin.session.pool if pooled.id == candidate_id]
        candidates += tuple([replace(artifact, id=candidate_id) for artifact in pool])
    own = [candidate for candidate in candidates if _is(candidate, candidate_id, secret)]
    for field in fields:
        given = [
            thousandths(value) for candidate in own if (value := getattr(candidate, field.name)) is not UNSET
        ]
        if given:
            break
    else:
        return

    def case(value: int) -> _Case:
        changed = tuple(
            [
                replace(candidate, **{field.name: value / 1_000})
                if _is(candidate, candidate_id, secret)
                else candidate
                for candidate in candidates
            ]
        )
        return _Case(replace(request, candidates=changed), policy)

    yield _Way(Lever.SCORE, field.name, max(given), field.most, 1, case)


def _is(candidate: Candidate, candidate_id: str, secret: bytes | None) -> bool:
    return named(candidate, secret)[0] == candidate_id


def _pinned(request: ContextRequest, candidate_id: str) -> ContextRequest:
    constraints = Constraints() if request.constraints is UNSET else request.constraints
    pin = Constraint(Match(MatchType.ID, candidate_id))
    return replace(request, constraints=replace(constraints, pinned=(*constraints.pinned, pin)))
