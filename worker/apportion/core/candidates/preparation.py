"""A request's candidates made ready for any strategy: named, digested, matched, checked, set aside.

Decides which candidates are out before a strategy ranks them, and which are protected. Never ranks and
never counts tokens.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.candidates.constraints import ConstraintList, match_paths
from apportion.core.canonical import CanonicalCandidate, canonical_of, named
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate, Constraints
from apportion.core.identity import digest
from apportion.core.recency import age_of
from apportion.core.results import ConstraintCount, Reason
from apportion.core.session.pool import Pooled
from apportion.core.task import NO_AGE, Prepared
from apportion.core.verdict import Bound

Check = Callable[[Candidate, Any], EventError | None]
"""Tells why a candidate cannot be used under a policy, if it cannot."""

NO_CONSTRAINTS = Constraints()
_CONSTRAINT_LISTS = ("must_exclude", "pinned", "must_include")
_NEVER_BACKED_OFF = "constraint"
"""Candidates of this kind may come again with every prompt."""


class RequestCandidates(Struct, frozen=True):
    """A request's own candidates as they came, and the digest of them all, whatever their order.

    `ids` are theirs; `repeated` tells that one of them stands twice.
    """

    candidates: tuple[CanonicalCandidate, ...] = ()
    ids: frozenset[str] = frozenset()
    digest: str = digest(b"[]")

    @property
    def repeated(self) -> bool:
        """Whether an id stands twice."""
        return len(self.ids) < len(self.candidates)


class Excluded(Struct, frozen=True):
    """A candidate that no strategy sees, and why."""

    id: str
    kind: str
    group: str
    reason: Reason


class Preparation(Struct, frozen=True):
    """What a request has to choose from; `digest` is over all candidates, the pool's included."""

    candidates: tuple[Prepared, ...] = ()
    aside: tuple[Excluded, ...] = ()
    digest: str = digest(b"[]")
    constraints: tuple[ConstraintCount, ...] = ()


def own_candidates(given: Sequence[Candidate], secret: bytes | None) -> RequestCandidates:
    """Return a request's own candidates, named and digested; no policy has judged them yet.

    Raises:
        EventError: one cannot be named, or shares its id with another content, kind, lane or category.
            The pointer is absolute.
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
    return RequestCandidates(tuple(own), frozenset(firsts), _digest_of([one.canonical for one in own]))


class Judge(Struct, frozen=True):
    """How one request's candidates are judged: by a policy's check, and by its strategy's age classes."""

    check: Check
    policy: Any
    edges_us: Sequence[int]


def prepare(
    own: RequestCandidates, pool: Sequence[Pooled], constraints: Constraints, judge: Judge, event_us: int
) -> Preparation:
    """Return the request's own candidates and the pool's, prepared.

    A pool artifact is aside where the request has its id (`superseded`), where the strategy cannot
    use it (`unsuitable`), or where it has expired by the request's time.

    Raises:
        EventError: an own candidate cannot be used, a constraint's pattern is invalid, or patterns and paths
            are too long. The pointer is absolute.
    """
    lists: Sequence[ConstraintList] = ()
    if constraints is not NO_CONSTRAINTS:
        lists = [ConstraintList(name, getattr(constraints, name)) for name in _CONSTRAINT_LISTS]
    check, policy = judge.check, judge.policy
    for index, one in enumerate(own.candidates):
        error = check(one.candidate, policy)
        if error is not None:
            _raise_at(error, index)
    in_pool, aside = _of_pool(own.ids, pool, judge, event_us) if pool else ((), ())
    if lists:
        match_paths(lists, [one.path for one in (*own.candidates, *in_pool)])
    prepared, whole_digest = _prepared(own.candidates, lists, judge, event_us, tied=own.repeated), own.digest
    if in_pool:
        whole_digest = _digest_of([one.canonical for one in (*own.candidates, *in_pool)])
        prepared += _prepared(in_pool, lists, judge, event_us, tied=False)
    counts = tuple([each.count() for each in lists if each.given]) if lists else ()
    return Preparation(tuple(prepared), aside, whole_digest, counts)


def _of_pool(
    own_ids: frozenset[str], pool: Sequence[Pooled], judge: Judge, event_us: int
) -> tuple[Sequence[CanonicalCandidate], tuple[Excluded, ...]]:
    usable: list[CanonicalCandidate] = []
    aside: list[Excluded] = []
    for pooled in pool:
        artifact = pooled.artifact
        if pooled.id in own_ids:
            reason = Reason.SUPERSEDED
        elif judge.check(artifact, judge.policy) is not None:
            reason = Reason.UNSUITABLE
        elif pooled.expires_us is not None and pooled.expires_us <= event_us:
            reason = Reason.EXPIRED
        else:
            usable.append(pooled.prepared)
            continue
        group = artifact.lane or artifact.category or ""
        aside.append(Excluded(pooled.id, artifact.kind or "", group, reason))
    return usable, tuple(aside)


def _prepared(
    those: Sequence[CanonicalCandidate],
    lists: Sequence[ConstraintList],
    judge: Judge,
    event_us: int,
    *,
    tied: bool,
) -> list[Prepared]:
    prepared: list[Prepared] = []
    edges_us = judge.edges_us
    bound: Bound | None
    for one in those:
        candidate, name = one.candidate, one.id
        kind, lane, content = candidate.kind or "", candidate.lane or "", candidate.content or ""
        bound, constraint, protected = None, "", False
        if lists:
            excluded, pinned, included = (each.first(name, kind, lane, one.path) for each in lists)
            bound = Bound.EXCLUSION if excluded else None
            constraint = excluded or pinned or included
            protected = not excluded and bool(constraint)
        if bound is None and not content:
            bound = Bound.CONTENT
        age = NO_AGE
        if (created_us := one.created_us) is not UNSET:
            age = bisect_right(edges_us, event_us - created_us)
        elif (bucket := candidate.recency_bucket) is not UNSET:
            age = age_of(bucket)
        tie = one.canonical if tied else b""
        prepared.append(
            Prepared(name, kind, lane, content, one.facts, age, bound, constraint, protected, tie)
        )
    return prepared


def without_backed_off(prepared: Preparation, backed_off: frozenset[str]) -> Preparation:
    """Return the preparation with the backed-off candidates aside; the digest stays.

    Exempt are candidates of kind `constraint`, pinned and must-included ones; exclusion comes first. Of
    equal ids one is exempt as soon as another is, and only one is backed off: the others are duplicates.
    """
    if not backed_off:
        return prepared
    exempt = {one.id for one in prepared.candidates if _is_exempt(one)}
    out = backed_off - exempt
    kept: list[Prepared] = []
    new: dict[str, Excluded] = {}
    repeats: list[Excluded] = []
    for one in prepared.candidates:
        if one.id not in out:
            kept.append(one)
        else:
            group = one.lane or one.facts.category or ""
            if one.id in new:
                repeats.append(Excluded(one.id, one.kind, group, Reason.DUPLICATE))
            else:
                new[one.id] = Excluded(one.id, one.kind, group, Reason.BACKOFF)
    return replace(prepared, candidates=tuple(kept), aside=(*prepared.aside, *new.values(), *repeats))


def sent_again(own: RequestCandidates) -> Preparation:
    """Return a preparation in which all own candidates are aside as duplicates: nothing judges them again."""
    return Preparation(
        aside=tuple(
            Excluded(
                one.id,
                one.candidate.kind or "",
                one.candidate.lane or one.candidate.category or "",
                Reason.DUPLICATE,
            )
            for one in own.candidates
        ),
        digest=own.digest,
    )


def _is_exempt(one: Prepared) -> bool:
    return one.protected or one.bound is Bound.EXCLUSION or one.kind == _NEVER_BACKED_OFF


def _digest_of(canonical: list[bytes]) -> str:
    """Return the digest of the JSON array of candidates, in the order of their canonical JSON."""
    return digest(b"[" + b",".join(sorted(canonical)) + b"]")


def _require_equal(one: Candidate, other: Candidate, index: int) -> None:
    for field in ("content", "kind", "lane", "category"):
        if getattr(one, field) != getattr(other, field):
            message = f"an earlier candidate has the same id and another {field}"
            raise EventError(ErrorCode.CONFLICTING_CANDIDATES, message, f"$.candidates[{index}].{field}")


def _raise_at(error: EventError, index: int) -> NoReturn:
    raise EventError(error.code, error.message, f"$.candidates[{index}]{error.pointer}") from None
