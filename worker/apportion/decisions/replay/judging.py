"""Comparisons of recorded decisions and dead letters with newly composed ones.

A record is verified, differs in a field, or is unverifiable because a comparison would not test the engine.
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
from apportion.decisions.replay.findings import FindingKind
from apportion.decisions.replay.recorded import Recorded

RUN = ("run",)
"""The field of decisions that is not compared: it depends on the worker and the time."""
SOURCE = ("source", "key", "headers")
"""The fields of a worker's dead letters that are not compared if the events are read from a file."""


class Judgement(Struct, frozen=True):
    """The result of a comparison: the kind of finding (None: verified), and the first field that differs.

    `composed` is the decision that repeats of the record must equal; None: they must equal the record.
    """

    found: FindingKind | None = None
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
    """Compare a recorded decision with the decision that its request gives now.

    `policies` are the digests of the known policies. `lacks_artifacts` means that artifacts of the session
    were refused because a secret is missing.
    """
    if recorded.engine_version != engine.version:
        return Judgement(FindingKind.ENGINE_VERSION)
    if recorded.policy_digest not in policies:
        return Judgement(FindingKind.UNKNOWN_POLICY)
    composed = in_detail(composed, recorded.detail)
    try:
        different = compare(recorded.value, codec.encode(composed), RUN)
    except NotJsonError:
        return Judgement(FindingKind.NOT_JSON)
    if different is None:
        return Judgement(composed=composed)
    reason = _why_incomparable(recorded, request, composed, engine)
    if reason is FindingKind.SESSION_HISTORY and lacks_artifacts:
        reason = FindingKind.NO_SECRET
    if reason is not None:
        return Judgement(reason)
    return Judgement(FindingKind.DIFFERENCE, different, composed)


def judge_dead_letter(recorded: Recorded, composed: ContextDeadLetter, engine: Engine) -> Judgement:
    """Compare a recorded dead letter with the dead letter that its event gives now."""
    if recorded.engine_version != engine.version:
        return Judgement(FindingKind.ENGINE_VERSION)
    composed = holding(composed, recorded.dead_letter_value)
    try:
        different = compare(recorded.value, codec.encode(composed), () if recorded.is_placed else SOURCE)
    except NotJsonError:
        return Judgement(FindingKind.NOT_JSON)
    return Judgement() if different is None else Judgement(FindingKind.DIFFERENCE, different)


def _why_incomparable(
    recorded: Recorded, request: ContextRequest, composed: ContextDecision, engine: Engine
) -> FindingKind | None:
    """Return why a different decision does not prove a fault of the engine; None if it does."""
    secrets = engine.secrets
    secret = secrets.of(request.tenant, event_time_us(composed.session.before.started_at))
    fields = read(recorded.value)
    key = fields.get("fingerprint_key_id")
    if isinstance(key, str) and key not in secrets.key_ids(request.tenant):
        if secret is None:
            return FindingKind.NO_SECRET
        if not _has_ids_of(secret, request, fields):  # otherwise only the key id was altered
            return FindingKind.OTHER_SECRET
    digests = composed.digests
    if recorded.session_before == digests.session_before or recorded.session_after == digests.session_after:
        return None
    return FindingKind.SESSION_HISTORY


def _has_ids_of(secret: bytes, request: ContextRequest, fields: dict[str, object]) -> bool:
    """Return whether a listed candidate has an id that this secret makes from a path of the request."""
    entries = fields.get("candidates")
    if request.candidates is UNSET or not isinstance(entries, list):
        return False
    ours = {named(candidate, secret)[0] for candidate in request.candidates if candidate.id is UNSET}
    theirs = [entry.get("id") for entry in entries if isinstance(entry, dict)]
    return any(identity in ours for identity in theirs if isinstance(identity, str))
