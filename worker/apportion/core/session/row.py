"""Session rows: an immutable ledger of each session, and the transitions from one row to the next.

Times are event times in microseconds since 1970. Partitions and offsets are kept by the shell.
"""

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from apportion.core.canonical_json import canonical_json
from apportion.core.digests import digest
from apportion.core.session.pool import Pooled

RECENT_REQUESTS_MAX = 64
INJECTIONS_MAX = 1_000
INJECTIONS_MAX_BYTES = 280 << 10
"""Bytes in the row: enough for a thousand ids of 256 ASCII characters, or for fewer of other characters."""
EVICTED_MAX = 1_000
EVICTED_MAX_BYTES = 128 << 10
CARRIED_MAX = 4
CARRIED_MAX_BYTES = 64 << 10
"""Bytes of all carried values together, before base64."""
ROW_MAX_BYTES = 1 << 20
"""Bytes of a row in JSON. The bounds of the parts besides the pool leave room for the largest artifact."""

_DIGEST_BYTES = len('"sha256:"') + 64
_OWN_DIGEST_BYTES = len('"own_digest":,') + _DIGEST_BYTES

_MICROSECONDS = 1_000_000


T = TypeVar("T")


class SeenRequest(Struct, frozen=True, array_like=True):
    """An answered request: its canonical digest, and the id of the decision."""

    request_id: str
    digest: str
    decision_id: str


class Injection(Struct, frozen=True, array_like=True):
    """An injected id: how often it was injected, and the number of the last prompt that injected it."""

    id: str
    count: int
    prompt: int


class Carried(Struct, frozen=True, array_like=True):
    """A value that a strategy keeps for the session's next request under the same policy.

    `requested_us` is the event time of the request that set it. If there are too many values, or they are too
    large together, the oldest are dropped.
    """

    policy: str
    policy_digest: str
    value: bytes
    requested_us: int = 0
    """Rows written before this field existed read as 0, that is, long ago."""


class Session(Struct, frozen=True, omit_defaults=True):
    """A row of the session table, bounded in size."""

    start_us: int | None = None
    """The time of the first event; None before it."""
    last_event_us: int = 0
    idle_timeout_s: int = 0
    """The timeout of the latest request's policy; before the first request, of the default policy."""
    prompts: int = 0
    """The number of accepted requests, without duplicates."""
    sequence: int = 0
    """The number of answers, with duplicates."""
    spent_tokens: int = 0
    recent: tuple[SeenRequest, ...] = ()
    injections: tuple[Injection, ...] = ()
    """The injected ids, the last injected last, ties by id."""
    pool: tuple[Pooled, ...] = ()
    evicted: tuple[str, ...] = ()
    """The last ids that were evicted from the pool since the last decision."""
    evicted_unlisted: int = 0
    """The number of ids that were evicted since the last decision, before the listed ones."""
    carried: tuple[Carried, ...] = ()
    """At most one value for each policy name, newest last."""
    own_digest: str = ""
    """The digest of all other fields, with pooled artifacts as their digests; empty if never written."""

    @property
    def expires_us(self) -> int | None:
        """The event time at which the session expires; None: never."""
        if self.start_us is None or not self.idle_timeout_s:
            return None
        return self.last_event_us + self.idle_timeout_s * _MICROSECONDS

    @property
    def digest(self) -> str:
        """The digest of the row; a row that was never written computes it from its fields."""
        return self.own_digest or digest(_canonical(self))

    def seen(self, request_id: str) -> SeenRequest | None:
        """Return the remembered request of that id, or None."""
        return next((request for request in self.recent if request.request_id == request_id), None)

    def carried_under(self, policy: str) -> Carried | None:
        """Return the value that is carried under a policy of that name, or None."""
        return next((carried for carried in self.carried if carried.policy == policy), None)

    def backed_off(self, backoff_prompts: int) -> frozenset[str]:
        """Return the ids that the next prompt may not inject.

        An id that was injected n times waits n times the backoff: with 5, prompts 1, 6 and 16 inject it.
        """
        prompt = self.prompts + 1
        return frozenset(
            injection.id
            for injection in self.injections
            if prompt - injection.prompt < injection.count * backoff_prompts
        )


class Charge(Struct, frozen=True):
    """The effect of an answered request on its session; without `carried`, earlier values stay."""

    event_us: int
    idle_timeout_s: int
    spent_tokens: int
    request: SeenRequest
    injected: frozenset[str]
    expired: frozenset[str]
    carried: Carried | None = None


EMPTY = Session()


def session_at(session: Session, event_us: int) -> Session:
    """Return the session at an event's time: this one, or a fresh one if it is new or has expired."""
    expires_us = session.expires_us
    if session.start_us is None or (expires_us is not None and event_us >= expires_us):
        return Session(start_us=event_us, last_event_us=event_us)
    return session


def after_answer(session: Session, charge: Charge) -> Session:
    """Return the row after an accepted request that is no duplicate; its status does not matter.

    Expired artifacts leave the pool, and the list of evicted ids is emptied first.
    """
    prompt = session.prompts + 1
    pool = session.pool
    if charge.expired:
        pool = tuple(artifact for artifact in pool if artifact.id not in charge.expired)
    return _sealed(
        Session(
            start_us=session.start_us,
            last_event_us=max(session.last_event_us, charge.event_us),
            idle_timeout_s=charge.idle_timeout_s,
            prompts=prompt,
            sequence=session.sequence + 1,
            spent_tokens=session.spent_tokens + charge.spent_tokens,
            recent=(*session.recent, charge.request)[-RECENT_REQUESTS_MAX:],
            injections=_injected(session.injections, charge.injected, prompt)
            if charge.injected
            else session.injections,
            pool=pool,
            carried=session.carried if charge.carried is None else _carried(session.carried, charge.carried),
        )
    )


def after_duplicate(session: Session) -> Session:
    """Return the row after a duplicate: `sequence` grows by 1, all else stays."""
    return _sealed(replace(session, sequence=session.sequence + 1))


def after_artifact(
    session: Session, event_us: int, idle_timeout_s: int, pool: tuple[Pooled, ...], evicted: tuple[str, ...]
) -> Session:
    """Return the row after an artifact; the default policy's `idle_timeout_s` applies until a request."""
    published = replace(
        session,
        last_event_us=max(session.last_event_us, event_us),
        idle_timeout_s=session.idle_timeout_s if session.prompts else idle_timeout_s,
        pool=pool,
    )
    return _sealed(_naming(published, evicted))


def after_retraction(session: Session, pool: tuple[Pooled, ...]) -> Session:
    """Return the row after a retraction; its times stay."""
    return _sealed(replace(session, pool=pool))


def _carried(carried: tuple[Carried, ...], new: Carried) -> tuple[Carried, ...]:
    kept = [*(value for value in carried if value.policy != new.policy), new][-CARRIED_MAX:]
    while sum(len(value.value) for value in kept) > CARRIED_MAX_BYTES:
        del kept[0]
    return tuple(kept)


def _injected(
    injections: tuple[Injection, ...], injected: frozenset[str], prompt: int
) -> tuple[Injection, ...]:
    counts = {injection.id: injection.count for injection in injections}
    kept = (injection for injection in injections if injection.id not in injected)
    new = (Injection(injected_id, counts.get(injected_id, 0) + 1, prompt) for injected_id in sorted(injected))
    return _last((*kept, *new), INJECTIONS_MAX, INJECTIONS_MAX_BYTES)


def _naming(session: Session, evicted: Sequence[str]) -> Session:
    if not evicted:
        return session
    named = (*session.evicted, *evicted)
    listed = _last(named, EVICTED_MAX, EVICTED_MAX_BYTES)
    unlisted = session.evicted_unlisted + len(named) - len(listed)
    return replace(session, evicted=listed, evicted_unlisted=unlisted)


def _last(parts: tuple[T, ...], most: int, most_bytes: int) -> tuple[T, ...]:
    """Return the last parts, at most `most` parts and `most_bytes` bytes of JSON."""
    kept = parts[-most:]
    over, first = len(canonical_json(kept)) - most_bytes, 0
    while over > 0:
        over -= len(canonical_json(kept[first])) + 1
        first += 1
    return kept[first:]


def _canonical(session: Session) -> bytes:
    return canonical_json(
        replace(session, own_digest="", pool=[artifact.digest for artifact in session.pool])
    )


def _sealed(session: Session) -> Session:
    """Return the row with its digest; the oldest artifacts are evicted until the row fits its bound."""
    while True:
        canonical, pool = _canonical(session), session.pool
        over = len(canonical) + _OWN_DIGEST_BYTES - ROW_MAX_BYTES
        if pool:
            over += sum([artifact.row_bytes for artifact in pool]) - len(pool) * (_DIGEST_BYTES + 1)
        if over <= 0:
            return replace(session, own_digest=digest(canonical))
        first = 0
        while over > 0:
            over -= session.pool[first].row_bytes
            first += 1
        gone = [artifact.id for artifact in session.pool[:first]]
        session = _naming(replace(session, pool=session.pool[first:]), gone)
