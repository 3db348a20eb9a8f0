"""Preparation of a request's candidates for any strategy: ids, digests, constraints and exclusions."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NoReturn

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.candidates.constraints import ConstraintList, match_paths
from apportion.core.canonical import CanonicalCandidate, canonical_of, named
from apportion.core.digests import digest
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate, Constraints
from apportion.core.results import ConstraintCount, Reason
from apportion.core.session.pool import Pooled, least_trust
from apportion.core.strategy_api.task import NO_AGE, Prepared, age_of
from apportion.core.strategy_api.verdict import Bound

NO_CONSTRAINTS = Constraints()
_CONSTRAINT_LISTS = ("must_exclude", "pinned", "must_include")
_EQUAL_FIELDS = ("content", "kind", "lane", "category", "subject", "source_label")
"""Fields in which candidates with the same id are equal."""
_NEVER_BACKED_OFF = "constraint"
"""The kind of candidates that are exempt from backoff."""


class RequestCandidates(Struct, frozen=True):
    """A request's own candidates in its order, and their common digest, which ignores the order."""

    candidates: tuple[CanonicalCandidate, ...] = ()
    ids: frozenset[str] = frozenset()
    digest: str = digest(b"[]")

    @property
    def repeated(self) -> bool:
        """Whether two candidates have the same id."""
        return len(self.ids) < len(self.candidates)


class Excluded(Struct, frozen=True):
    """A candidate that is excluded before the strategy runs, and the reason."""

    id: str
    kind: str
    group: str
    reason: Reason


class Preparation(Struct, frozen=True):
    """The candidates of a request; `aside` are candidates that no strategy sees.

    `digest` is over the request's own candidates and the artifacts of the pool that are not excluded.
    """

    candidates: tuple[Prepared, ...] = ()
    aside: tuple[Excluded, ...] = ()
    digest: str = digest(b"[]")
    constraints: tuple[ConstraintCount, ...] = ()


def own_candidates(given: Sequence[Candidate], secret: bytes | None) -> RequestCandidates:
    """Return a request's own candidates in canonical form; no policy has checked them yet.

    Raises:
        EventError: a candidate gets no id or has an invalid path, or two candidates with one id differ in
            content, kind, lane, category, subject or source label. If they have a subject, their paths may
            not differ either. The pointer is absolute.
    """
    firsts: dict[str, Candidate] = {}
    own: list[CanonicalCandidate] = []
    for index, candidate in enumerate(given):
        try:
            name, path = named(candidate, secret)
        except EventError as refusal:
            _raise_at(refusal, index)
        first = firsts.setdefault(name, candidate)
        if first is not candidate:
            _require_equal(first, candidate, index)
        own.append(canonical_of(candidate, name, path))
    return RequestCandidates(
        tuple(own), frozenset(firsts), _digest_of([candidate.canonical for candidate in own])
    )


class Judge(Struct, frozen=True):
    """The rules for candidates: a check that returns why one cannot be used, and the edges of ages in µs."""

    check: Callable[[Candidate], EventError | None]
    age_edges_us: Sequence[int]


def prepare(
    own: RequestCandidates, pool: Sequence[Pooled], constraints: Constraints, judge: Judge, event_us: int
) -> Preparation:
    """Return the prepared candidates of the request and of the pool.

    A pool artifact is excluded if the request has a candidate of its id (`superseded`), if the strategy
    cannot use it (`unsuitable`), or if it has expired at the request's time (`expired`), in this order.

    Raises:
        EventError: a candidate of the request cannot be used, a constraint's pattern is invalid, or patterns
            and paths are too long. The pointer is absolute.
    """
    lists: Sequence[ConstraintList] = ()
    if constraints is not NO_CONSTRAINTS:
        lists = [ConstraintList(name, getattr(constraints, name)) for name in _CONSTRAINT_LISTS]
    for index, candidate in enumerate(own.candidates):
        error = judge.check(candidate.candidate)
        if error is not None:
            _raise_at(error, index)
    in_pool, aside = _of_pool(own.ids, pool, judge, event_us) if pool else ((), ())
    if lists:
        match_paths(lists, [candidate.path for candidate in (*own.candidates, *in_pool)])
    prepared, whole_digest = _prepared(own.candidates, lists, judge, event_us, tied=own.repeated), own.digest
    if pool:
        _inherit_distrust(prepared, pool)
    if in_pool:
        whole_digest = _digest_of([candidate.canonical for candidate in (*own.candidates, *in_pool)])
        prepared += _prepared(in_pool, lists, judge, event_us, tied=False)
    if any(candidate.facts.subject is not UNSET for candidate in prepared):
        prepared = _dated(prepared, own.candidates, in_pool)
    counts = tuple([named_list.count() for named_list in lists if named_list.given]) if lists else ()
    return Preparation(tuple(prepared), aside, whole_digest, counts)


def _of_pool(
    own_ids: frozenset[str], pool: Sequence[Pooled], judge: Judge, event_us: int
) -> tuple[Sequence[CanonicalCandidate], tuple[Excluded, ...]]:
    usable: list[CanonicalCandidate] = []
    aside: list[Excluded] = []
    for pooled in pool:
        if pooled.id in own_ids:
            reason = Reason.SUPERSEDED
        elif judge.check(pooled.artifact) is not None:
            reason = Reason.UNSUITABLE
        elif pooled.expires_us is not None and pooled.expires_us <= event_us:
            reason = Reason.EXPIRED
        else:
            usable.append(pooled.prepared)
            continue
        aside.append(_excluded(pooled.id, pooled.artifact, reason))
    return usable, tuple(aside)


def _inherit_distrust(own: Sequence[Prepared], pool: Sequence[Pooled]) -> None:
    """Lower the trust of the request's candidates to that of artifacts that they supersede by id."""
    older = {pooled.id: pooled.artifact.trust for pooled in pool if pooled.artifact.trust is not UNSET}
    for candidate in own if older else ():
        candidate.facts.trust = least_trust(candidate.facts.trust, older.get(candidate.id, UNSET))


def _excluded(name: str, candidate: Candidate, reason: Reason) -> Excluded:
    return Excluded(name, candidate.kind or "", candidate.lane or candidate.category or "", reason)


def _prepared(
    candidates: Sequence[CanonicalCandidate],
    lists: Sequence[ConstraintList],
    judge: Judge,
    event_us: int,
    *,
    tied: bool,
) -> list[Prepared]:
    prepared: list[Prepared] = []
    bound: Bound | None
    for canonical in candidates:
        candidate, name = canonical.candidate, canonical.id
        kind, lane, content = candidate.kind or "", candidate.lane or "", candidate.content or ""
        bound, constraint, protected = None, "", False
        if lists:
            excluded, pinned, included = (each.first(name, kind, lane, canonical.path) for each in lists)
            bound = Bound.EXCLUSION if excluded else None
            constraint = excluded or pinned or included
            protected = not excluded and bool(constraint)
        if bound is None and not content:
            bound = Bound.CONTENT
        age = NO_AGE
        if (created_us := canonical.created_us) is not UNSET:
            age = bisect_right(judge.age_edges_us, event_us - created_us)
        elif (bucket := candidate.recency_bucket) is not UNSET:
            age = age_of(bucket)
        tie = canonical.canonical if tied else b""
        prepared.append(
            Prepared(name, kind, lane, content, canonical.facts, age, bound, constraint, protected, tie)
        )
    return prepared


def _dated(
    prepared: Sequence[Prepared], own: Sequence[CanonicalCandidate], in_pool: Sequence[CanonicalCandidate]
) -> list[Prepared]:
    """Return the candidates, in the order of `own` and then `in_pool`, with the newness of their subjects.

    A later creation time is newer; a candidate without a creation time is oldest. At equal times, the
    request's own candidates are newer than artifacts, and a later published artifact is newer.
    """
    times = [(*_time_of(candidate), len(in_pool)) for candidate in own]
    times += [(*_time_of(candidate), index) for index, candidate in enumerate(in_pool)]
    newness = {time: rank for rank, time in enumerate(sorted(set(times)), 1)}
    return [
        candidate if candidate.facts.subject is UNSET else replace(candidate, newness=newness[time])
        for candidate, time in zip(prepared, times, strict=True)
    ]


def _time_of(candidate: CanonicalCandidate) -> tuple[bool, int]:
    created_us = candidate.created_us
    return (False, 0) if created_us is UNSET else (True, created_us)


def without_backed_off(prepared: Preparation, backed_off: frozenset[str]) -> Preparation:
    """Return the preparation with the backed-off candidates excluded; the digest stays the same.

    Pinned, must-included and excluded candidates are exempt, and so is the kind `constraint`. If a candidate
    is exempt, all candidates with its id are. Of several candidates of an id, the first is backed off
    and the others are duplicates.
    """
    if not backed_off:
        return prepared
    out = backed_off - {candidate.id for candidate in prepared.candidates if _is_exempt(candidate)}
    kept: list[Prepared] = []
    aside = [*prepared.aside]
    seen: set[str] = set()
    for candidate in prepared.candidates:
        if candidate.id not in out:
            kept.append(candidate)
            continue
        group = candidate.lane or candidate.facts.category or ""
        reason = Reason.DUPLICATE if candidate.id in seen else Reason.BACKOFF
        aside.append(Excluded(candidate.id, candidate.kind, group, reason))
        seen.add(candidate.id)
    return replace(prepared, candidates=tuple(kept), aside=tuple(aside))


def sent_again(own: RequestCandidates) -> Preparation:
    """Return a preparation in which all own candidates are excluded as duplicates, without any check."""
    repeated = [_excluded(each.id, each.candidate, Reason.DUPLICATE) for each in own.candidates]
    return Preparation(aside=tuple(repeated), digest=own.digest)


def _is_exempt(candidate: Prepared) -> bool:
    return candidate.protected or candidate.bound is Bound.EXCLUSION or candidate.kind == _NEVER_BACKED_OFF


def _digest_of(canonical: list[bytes]) -> str:
    """Return the digest of the JSON array of candidates, sorted by their canonical JSON."""
    return digest(b"[" + b",".join(sorted(canonical)) + b"]")


def _require_equal(first: Candidate, other: Candidate, index: int) -> None:
    fields = _EQUAL_FIELDS if first.subject is UNSET else (*_EQUAL_FIELDS, "path")
    for field in fields:
        if getattr(first, field) != getattr(other, field):
            message = f"an earlier candidate has the same id and another {field}"
            raise EventError(ErrorCode.CONFLICTING_CANDIDATES, message, f"$.candidates[{index}].{field}")


def _raise_at(error: EventError, index: int) -> NoReturn:
    raise EventError(error.code, error.message, f"$.candidates[{index}]{error.pointer}") from None
