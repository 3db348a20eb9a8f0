"""A session's ledger: one immutable row, and the transitions that lead from one row to the next.

Decides what a session has spent, which requests it has seen, what was injected when, what lies in its
pool, and when it starts afresh. Time is event time only, in microseconds since 1970. Never knows a
partition or an offset: the shell keeps those.
"""

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from apportion.core.identity import canonical_json, digest
from apportion.core.session.pool import Pooled

RECENT_REQUESTS_MAX = 64
INJECTIONS_MAX = 1_000
INJECTIONS_MAX_BYTES = 280 << 10
"""In the row: a thousand ids of 256 ASCII characters; of other characters, fewer are remembered."""
EVICTED_MAX = 1_000
EVICTED_MAX_BYTES = 128 << 10
CARRIED_MAX = 4
CARRIED_MAX_BYTES = 64 << 10
"""Of all that strategies left, before it is base64 in the row."""
ROW_MAX_BYTES = 1 << 20
"""Of a row in JSON. All that is no artifact is bounded by itself, so that the largest artifact has room."""

_DIGEST_BYTES = len('"sha256:"') + 64
_OWN_DIGEST_BYTES = len('"own_digest":,') + _DIGEST_BYTES

_MICROSECONDS = 1_000_000


T = TypeVar("T")


class SeenRequest(Struct, frozen=True, array_like=True):
    """A request that was answered: its canonical digest, and the decision that answered it."""

    request_id: str
    digest: str
    decision_id: str


class Injection(Struct, frozen=True, array_like=True):
    """An id that was injected: how often, and the number of the prompt that did so last."""

    id: str
    count: int
    prompt: int


class Carried(Struct, frozen=True, array_like=True):
    """What a strategy left for the session's next request under a policy: its name, its digest, the value.

    `requested_us` is the event time of the request that left it. A value that is too large for the row is
    forgotten, as is the oldest where all are.
    """

    policy: str
    policy_digest: str
    value: bytes
    requested_us: int = 0
    """A row that was written before this was told has a time long ago."""


class Session(Struct, frozen=True, omit_defaults=True):
    """A row of the session table, bounded in size. `start_us` is None until the first event.

    `prompts` counts accepted requests that are no duplicates, `sequence` the answers given, duplicates
    included. `recent` holds the newest last, `injections` the last injected last (ties by id), `pool`
    the newest published last. `idle_timeout_s` is that of the latest request's policy. `evicted` are the
    ids that were pushed out of the pool since the last decision, the last of them, `evicted_unlisted` how
    many went before these. `carried` is what strategies left, the newest last, one a policy's name.
    `own_digest` is over all other fields, a pooled artifact by its own digest.
    """

    start_us: int | None = None
    last_event_us: int = 0
    idle_timeout_s: int = 0
    prompts: int = 0
    sequence: int = 0
    spent_tokens: int = 0
    recent: tuple[SeenRequest, ...] = ()
    injections: tuple[Injection, ...] = ()
    pool: tuple[Pooled, ...] = ()
    evicted: tuple[str, ...] = ()
    evicted_unlisted: int = 0
    carried: tuple[Carried, ...] = ()
    own_digest: str = ""

    @property
    def expires_us(self) -> int | None:
        """The event time from which the session is a fresh one; None: never."""
        if self.start_us is None or not self.idle_timeout_s:
            return None
        return self.last_event_us + self.idle_timeout_s * _MICROSECONDS

    @property
    def digest(self) -> str:
        """The digest of the row; a row that was never written has that of its fields."""
        return self.own_digest or digest(_canonical(self))

    def seen(self, request_id: str) -> SeenRequest | None:
        """Return the remembered request of that id."""
        for request in self.recent:
            if request.request_id == request_id:
                return request
        return None

    def carried_under(self, policy: str) -> Carried | None:
        """Return what a strategy left under a policy of that name."""
        for one in self.carried:
            if one.policy == policy:
                return one
        return None

    def backed_off(self, backoff_prompts: int) -> frozenset[str]:
        """Return the ids that the next prompt may not inject again.

        An id injected n times waits n times the backoff: with 5, injected at 1, again at 6, then at 16.
        """
        prompt = self.prompts + 1
        return frozenset(
            one.id for one in self.injections if prompt - one.prompt < one.count * backoff_prompts
        )


class Charge(Struct, frozen=True):
    """What an answered request adds to its session, and what it takes out of the pool.

    Where nothing is `carried`, what earlier answers left stays.
    """

    event_us: int
    idle_timeout_s: int
    spent_tokens: int
    request: SeenRequest
    injected: frozenset[str]
    expired: frozenset[str]
    carried: Carried | None = None


EMPTY = Session()


def at(session: Session, event_us: int) -> Session:
    """Return the session that an event at that time meets: this one, or a fresh one if it has expired."""
    expires_us = session.expires_us
    if session.start_us is None or (expires_us is not None and event_us >= expires_us):
        return Session(start_us=event_us, last_event_us=event_us)
    return session


def after_answer(session: Session, charge: Charge) -> Session:
    """Return the row after a request that was accepted and is no duplicate, whatever its status."""
    prompt = session.prompts + 1
    pool = session.pool
    if charge.expired:
        pool = tuple(one for one in pool if one.id not in charge.expired)
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
    """Return the row after a duplicate: one answer more, and neither time nor spending moves."""
    return _sealed(replace(session, sequence=session.sequence + 1))


def after_artifact(
    session: Session,
    event_us: int,
    idle_timeout_s: int,
    pool: tuple[Pooled, ...],
    evicted: tuple[str, ...],
) -> Session:
    """Return the row after an artifact was published: the pool as it is then, and what it pushed out.

    `idle_timeout_s` is the default policy's, which counts until the first request.
    """
    published = replace(
        session,
        last_event_us=max(session.last_event_us, event_us),
        idle_timeout_s=session.idle_timeout_s if session.prompts else idle_timeout_s,
        pool=pool,
    )
    return _sealed(_naming(published, evicted))


def after_retraction(session: Session, pool: tuple[Pooled, ...]) -> Session:
    """Return the row after artifacts were taken back; time does not move."""
    return _sealed(replace(session, pool=pool))


def _carried(carried: tuple[Carried, ...], new: Carried) -> tuple[Carried, ...]:
    kept = [*(one for one in carried if one.policy != new.policy), new][-CARRIED_MAX:]
    while sum(len(one.value) for one in kept) > CARRIED_MAX_BYTES:
        del kept[0]
    return tuple(kept)


def _injected(
    injections: tuple[Injection, ...], injected: frozenset[str], prompt: int
) -> tuple[Injection, ...]:
    counts = {one.id: one.count for one in injections}
    kept = (one for one in injections if one.id not in injected)
    new = (Injection(each, counts.get(each, 0) + 1, prompt) for each in sorted(injected))
    return _last((*kept, *new), INJECTIONS_MAX, INJECTIONS_MAX_BYTES)


def _naming(session: Session, evicted: Sequence[str]) -> Session:
    """Return the row with these ids among those that were pushed out."""
    if not evicted:
        return session
    named = (*session.evicted, *evicted)
    listed = _last(named, EVICTED_MAX, EVICTED_MAX_BYTES)
    unlisted = session.evicted_unlisted + len(named) - len(listed)
    return replace(session, evicted=listed, evicted_unlisted=unlisted)


def _last(parts: tuple[T, ...], most: int, most_bytes: int) -> tuple[T, ...]:
    """Return the last parts, no more than so many, and no more than so many bytes of JSON."""
    kept = parts[-most:]
    over, first = len(canonical_json(kept)) - most_bytes, 0
    while over > 0:
        over -= len(canonical_json(kept[first])) + 1
        first += 1
    return kept[first:]


def _canonical(session: Session) -> bytes:
    return canonical_json(replace(session, own_digest="", pool=[one.digest for one in session.pool]))


def _sealed(session: Session) -> Session:
    """Return the row as it is kept: within its bytes, the oldest artifacts gone, and with its digest."""
    while True:
        canonical, pool = _canonical(session), session.pool
        over = len(canonical) + _OWN_DIGEST_BYTES - ROW_MAX_BYTES
        if pool:
            over += sum([one.row_bytes for one in pool]) - len(pool) * (_DIGEST_BYTES + 1)
        if over <= 0:
            return replace(session, own_digest=digest(canonical))
        first = 0
        while over > 0:
            over -= session.pool[first].row_bytes
            first += 1
        gone = [one.id for one in session.pool[:first]]
        session = _naming(replace(session, pool=session.pool[first:]), gone)
