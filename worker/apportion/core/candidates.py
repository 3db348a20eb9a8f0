"""A request's candidates made ready for any strategy: named, checked, digested, matched, set aside.

Decides which candidates are out before a strategy ranks them, and which are protected. Never ranks and
never counts tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.canonical import canonical_of, named
from apportion.core.constraints import ConstraintList, match_paths
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate, Constraints
from apportion.core.identity import digest, normalised_path
from apportion.core.pool import Pooled
from apportion.core.results import ConstraintCount, Reason

Check = Callable[[Candidate, Any], EventError | None]
"""Tells why a candidate cannot be used under a policy, if it cannot."""

_Named: TypeAlias = tuple[Candidate, str, str | None]
"""A candidate, its id, and its path in its one form."""

NO_CONSTRAINTS = Constraints()
_CONSTRAINT_LISTS = ("must_exclude", "pinned", "must_include")
_NEVER_BACKED_OFF = "constraint"
"""Candidates of this kind may come again with every prompt."""


class Prepared(Struct, frozen=True, gc=False):
    """A candidate with its id and canonical JSON; an absent kind, lane or content is empty.

    `rounded` holds those of its fields that digests and scores see otherwise than they came.
    `omitted` is set where it is already out; `constraint` is the place of the constraint that excluded,
    pinned or included it, and `protected` tells that it is pinned or must-included.
    """

    candidate: Candidate
    id: str
    kind: str
    lane: str
    content: str
    rounded: Mapping[str, Any]
    canonical: bytes
    omitted: Reason | None
    constraint: str
    protected: bool


class Aside(Struct, frozen=True):
    """A candidate that no strategy sees, and why."""

    id: str
    kind: str
    group: str
    reason: Reason


class Preparation(Struct, frozen=True):
    """What a request has to choose from.

    `own_digest` is over the request's own candidates, `digest` over these and the pool's; both take
    canonical JSON in its own order. `backed_off` tells that some of them have been set aside since,
    `repeated` that an id stands twice.
    """

    candidates: tuple[Prepared, ...] = ()
    aside: tuple[Aside, ...] = ()
    own_digest: str = digest(b"[]")
    digest: str = digest(b"[]")
    constraints: Mapping[str, ConstraintCount] = {}
    backed_off: bool = False
    repeated: bool = False


class Preparer:
    """Prepares candidates under one request's constraints and one policy's check.

    Raises:
        EventError: a constraint's pattern is invalid.
    """

    def __init__(self, constraints: Constraints, check: Check, policy: Any, secret: bytes | None) -> None:
        """Compile the constraints; `check` tells what the policy's strategy cannot use."""
        self._constrained = constraints is not NO_CONSTRAINTS
        names = _CONSTRAINT_LISTS if self._constrained else ()
        self._lists = [ConstraintList(name, getattr(constraints, name)) for name in names]
        self._check = check
        self._policy = policy
        self._secret = secret

    def prepare(self, own: Sequence[Candidate], pool: Sequence[Pooled], event_us: int) -> Preparation:
        """Return the request's own candidates and the pool's, prepared.

        A pool artifact is aside where the request has its id (`superseded`), where the strategy cannot
        use it (`unsuitable`), or where it has expired by the request's time.

        Raises:
            EventError: an own candidate cannot be used, cannot be named, or shares its id with another
                content, kind, lane or category, or patterns and paths are too long. The pointer is absolute.
        """
        taken, ids = self._own(own)
        aside: list[Aside] = []
        for pooled in pool:
            artifact = pooled.artifact
            if pooled.id in ids:
                reason = Reason.SUPERSEDED
            elif self._check(artifact, self._policy) is not None:
                reason = Reason.UNSUITABLE
            elif pooled.expires_us is not None and pooled.expires_us <= event_us:
                reason = Reason.EXPIRED
            else:
                path = None if artifact.path is UNSET else normalised_path(artifact.path, ".path")
                taken.append((artifact, pooled.id, path))
                continue
            group = artifact.lane or artifact.category or ""
            aside.append(Aside(pooled.id, artifact.kind or "", group, reason))
        match_paths(self._lists, [path for _, _, path in taken])
        prepared = [self._one(*each) for each in taken]
        own_digest = digest_of(prepared[: len(own)])
        whole_digest = own_digest if len(prepared) == len(own) else digest_of(prepared)
        counts = {each.name: each.count() for each in self._lists}
        repeated = len(ids) < len(own)
        return Preparation(tuple(prepared), tuple(aside), own_digest, whole_digest, counts, repeated=repeated)

    def _own(self, own: Sequence[Candidate]) -> tuple[list[_Named], Mapping[str, int]]:
        firsts: dict[str, int] = {}
        taken: list[_Named] = []
        check, policy = self._check, self._policy
        for index, candidate in enumerate(own):
            error = check(candidate, policy)
            if error is not None:
                _raise_at(error, index)
            try:
                name, path = named(candidate, self._secret)
            except EventError as refusal:
                _raise_at(refusal, index)
            first = firsts.setdefault(name, index)
            if first != index:
                _require_equal(own[first], candidate, index)
            taken.append((candidate, name, path))
        return taken, firsts

    def _one(self, candidate: Candidate, name: str, path: str | None) -> Prepared:
        kind, lane, content = candidate.kind or "", candidate.lane or "", candidate.content or ""
        omitted, constraint, protected = None, "", False
        if self._constrained:
            excluded, pinned, included = (each.first(name, kind, lane, path) for each in self._lists)
            omitted = Reason.EXCLUDED_BY_POLICY if excluded else None
            constraint = excluded or pinned or included
            protected = not excluded and bool(constraint)
        if omitted is None and not content:
            omitted = Reason.NO_CONTENT
        rounded, canonical = canonical_of(candidate, name, path)
        return Prepared(
            candidate, name, kind, lane, content, rounded, canonical, omitted, constraint, protected
        )


def without_backed_off(prepared: Preparation, backed_off: frozenset[str]) -> Preparation:
    """Return the preparation with the backed-off candidates aside; the digests stay.

    Exempt are candidates of kind `constraint`, pinned and must-included ones; exclusion comes first. Of
    equal ids one is exempt as soon as another is, and only one is backed off: the others are duplicates.
    """
    if not backed_off:
        return prepared
    exempt = {one.id for one in prepared.candidates if _is_exempt(one)}
    out = backed_off - exempt
    kept: list[Prepared] = []
    new: dict[str, Aside] = {}
    repeats: list[Aside] = []
    for one in prepared.candidates:
        if one.id not in out:
            kept.append(one)
        else:
            group = one.lane or one.candidate.category or ""
            if one.id in new:
                repeats.append(Aside(one.id, one.kind, group, Reason.DUPLICATE))
            else:
                new[one.id] = Aside(one.id, one.kind, group, Reason.BACKOFF)
    return replace(
        prepared, candidates=tuple(kept), aside=(*prepared.aside, *new.values(), *repeats), backed_off=True
    )


def _is_exempt(one: Prepared) -> bool:
    excluded = one.omitted is Reason.EXCLUDED_BY_POLICY
    return one.protected or excluded or one.kind == _NEVER_BACKED_OFF


def digest_of(prepared: Sequence[Prepared]) -> str:
    """Return the digest of the JSON array of the candidates, in the order of their canonical JSON."""
    return digest(b"[" + b",".join(sorted([one.canonical for one in prepared])) + b"]")


def _require_equal(one: Candidate, other: Candidate, index: int) -> None:
    for field in ("content", "kind", "lane", "category"):
        if getattr(one, field) != getattr(other, field):
            message = f"an earlier candidate has the same id and another {field}"
            raise EventError(ErrorCode.CONFLICTING_CANDIDATES, message, f"$.candidates[{index}].{field}")


def _raise_at(error: EventError, index: int) -> NoReturn:
    raise EventError(error.code, error.message, f"$.candidates[{index}]{error.pointer}") from None
