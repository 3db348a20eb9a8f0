"""The key under which a composition is remembered: a digest of all that it depends on.

From inputs alone, before selection. A file save, a commit, changed rules, constraints or configuration,
and a session that starts afresh each change it, through their own fields.
"""

from msgspec import UNSET, to_builtins
from msgspec.structs import replace

from apportion.core.accept import Accepted
from apportion.core.candidates import NO_CONSTRAINTS, Preparation, Prepared, digest_of
from apportion.core.engine import Engine
from apportion.core.events import Trigger
from apportion.core.identity import canonical_json, canonical_json_of_any, digest
from apportion.core.recency import recency_bucket


def cache_key(accepted: Accepted, engine: Engine) -> str:
    """Return the digest; the tenant's secret enters by its own.

    Candidates enter by all that selection and rendering read, without those set aside.
    """
    request = accepted.request
    secret = engine.secrets.of(request.tenant)
    parts = (
        request.tenant,
        None if secret is None else digest(secret),
        Trigger() if request.trigger is UNSET else request.trigger,
        _candidates_digest(accepted.prepared, accepted.event_us),
        NO_CONSTRAINTS if request.constraints is UNSET else request.constraints,
        None if request.vitals is UNSET else canonical_json_of_any(to_builtins(request.vitals)).decode(),
        accepted.limit_tokens,
        accepted.policy.digest,
        engine.version,
        accepted.before.start_us,
    )
    return digest(canonical_json(parts))


def _candidates_digest(prepared: Preparation, event_us: int) -> str:
    """Return the digest of what the strategy sees: times as recency buckets.

    Where an id stands twice, beside them: then times, too, may decide which of the two stays.
    """
    candidates = prepared.candidates
    if not any("created_at" in one.rounded for one in candidates):
        return digest_of(candidates) if prepared.backed_off else prepared.digest
    view = _timed_and_bucketed if prepared.repeated else _bucketed
    views = (view(one, event_us) if "created_at" in one.rounded else one.canonical for one in candidates)
    return digest(b"[" + b",".join(sorted(views)) + b"]")


def _bucketed(one: Prepared, event_us: int) -> bytes:
    bucket = recency_bucket(event_us - one.rounded["created_at"])
    seen = {**one.rounded, "created_at": UNSET, "recency_bucket": bucket}
    return canonical_json(replace(one.candidate, **seen))


def _timed_and_bucketed(one: Prepared, event_us: int) -> bytes:
    return b"[%b,%d]" % (one.canonical, recency_bucket(event_us - one.rounded["created_at"]))
