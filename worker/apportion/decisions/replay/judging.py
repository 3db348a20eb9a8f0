"""Recorded decisions and dead letters held against those that are composed again.

A record is verified, different in a field, or unverifiable for a reason that says nothing of the engine.
"""

from collections.abc import Container

from msgspec import UNSET, Struct

from apportion.core.canonical import named
from apportion.core.comparison import Different, NotJsonError, compare, read
from apportion.core.detail import in_detail
from apportion.core.engine import Engine
from apportion.core.event_time import event_time_us
from apportion.core.events import ContextRequest
from apportion.core.results import ContextDeadLetter, ContextDecision
from apportion.core.wire import codec
from apportion.core.wire.dead_letter import holding
from apportion.decisions.replay.findings import Found
from apportion.decisions.replay.recorded import Recorded

RUN = ("run",)
"""The field of decisions that is not compared."""
PLACE = ("source", "key", "headers")
"""The fields of dead letters that a file of events does not know of the records that a worker refused."""


class Judgement(Struct, frozen=True):
    """The result of a comparison: `found` is what is wrong, None if the record is verified.

    `different` is the first field that differs. `composed` is what repeats of the record must be like; None
    if the record could not be compared.
    """

    found: Found | None = None
    different: Different | None = None
    composed: Struct | None = None


def judge_decision(
    recorded: Recorded,
    request: ContextRequest,
    composed: ContextDecision,
    *,
    engine: Engine,
    policies: Container[str],
    lacks_artifacts: bool,
) -> Judgement:
    """Compare a recorded decision with the one that its request gives now.

    `policies` are the digests of known policies. A row that `lacks_artifacts` is without those that could not
    be composed again for want of a secret.
    """
    if recorded.engine_version != engine.version:
        return Judgement(Found.ENGINE_VERSION)
    if recorded.policy_digest not in policies:
        return Judgement(Found.UNKNOWN_POLICY)
    composed = in_detail(composed, recorded.detail)
    try:
        different = compare(recorded.value, codec.encode(composed), RUN)
    except NotJsonError:
        return Judgement(Found.NOT_JSON)
    if different is None:
        return Judgement(composed=composed)
    reason = _why_incomparable(recorded, request, composed, engine)
    if reason is Found.SESSION_HISTORY and lacks_artifacts:
        reason = Found.NO_SECRET
    if reason is not None:
        return Judgement(reason)
    return Judgement(Found.DIFFERENCE, different, composed)


def judge_dead_letter(recorded: Recorded, composed: ContextDeadLetter, engine: Engine) -> Judgement:
    """Compare a recorded dead letter with the one that its event gives now."""
    if recorded.engine_version != engine.version:
        return Judgement(Found.ENGINE_VERSION)
    composed = holding(composed, recorded.dead_letter_value)
    try:
        different = compare(recorded.value, codec.encode(composed), () if recorded.is_placed else PLACE)
    except NotJsonError:
        return Judgement(Found.NOT_JSON)
    return Judgement() if different is None else Judgement(Found.DIFFERENCE, different)


def _why_incomparable(
    recorded: Recorded, request: ContextRequest, composed: ContextDecision, engine: Engine
) -> Found | None:
    """Return why a decision that differs cannot be judged; None if it can."""
    secrets = engine.secrets
    secret = secrets.of(request.tenant, event_time_us(composed.session.before.started_at))
    fields = read(recorded.value)
    key = fields.get("fingerprint_key_id")
    if isinstance(key, str) and key not in secrets.key_ids(request.tenant):
        if secret is None:
            return Found.NO_SECRET
        if not _has_ids_of(secret, request, fields):  # or else it was the key's id that was altered
            return Found.OTHER_SECRET
    digests = composed.digests
    if recorded.session_before == digests.session_before or recorded.session_after == digests.session_after:
        return None
    return Found.SESSION_HISTORY


def _has_ids_of(secret: bytes, request: ContextRequest, fields: dict[str, object]) -> bool:
    """Tell whether the decision names a candidate by the id that this secret makes of its path."""
    entries = fields.get("candidates")
    if request.candidates is UNSET or not isinstance(entries, list):
        return False
    ours = {named(candidate, secret)[0] for candidate in request.candidates if candidate.id is UNSET}
    theirs = [entry.get("id") for entry in entries if isinstance(entry, dict)]
    return any(identity in ours for identity in theirs if isinstance(identity, str))
