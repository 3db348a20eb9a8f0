"""The origin of one recorded decision: its request, the session's row before it, and its policy."""

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile

import msgspec
from msgspec import Struct

from apportion.core.events import ContextRequest
from apportion.core.results import ContextDecision
from apportion.core.session.row import Session
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.record import Record
from apportion.decisions.replay.findings import Finding, FindingKind
from apportion.decisions.replay.recorded import Recorded, parse_decision
from apportion.decisions.replay.verify import DECISIONS, Verification
from apportion.engine.offline.lines import FILE_TOPIC, CutRecord
from apportion.printable import printable

_SHOWN_MAX_CHARACTERS = 60
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Origin(Struct, frozen=True):
    """The inputs of a decision; `session` is the session's row before the request."""

    request: ContextRequest
    session: Session
    policy: Policy


class UnknownDecisionError(Exception):
    """No decision has an id with this beginning."""

    code = "unknown_decision"
    exit_code = 2


class AmbiguousDecisionError(Exception):
    """Several decisions have an id with this beginning."""

    code = "ambiguous_decision"
    exit_code = 2


class UnreadableDecisionError(Exception):
    """This version cannot read the record."""

    code = "unreadable_decision"


class _Keyed(Struct, frozen=True):
    session_id: str
    tenant: str = "default"


_keyed_decoder = msgspec.json.Decoder(_Keyed)
_decision_decoder = msgspec.json.Decoder(ContextDecision)


def find_decision(records: Iterable[Record], prefix: str) -> ContextDecision:
    """Return the first record of the decision whose id begins with `prefix`.

    Raises UnknownDecisionError, AmbiguousDecisionError or UnreadableDecisionError.
    """
    found: Recorded | None = None
    unreadable = 0
    for record in records:
        try:
            recorded = None if isinstance(record, CutRecord) else parse_decision(record)
        except _UNREADABLE:
            recorded = None
        if recorded is None:
            unreadable += 1
        elif recorded.identity.startswith(prefix):
            if found is not None and found.identity != recorded.identity:
                both = f"{_shown(found.identity)} and {_shown(recorded.identity)}"
                raise AmbiguousDecisionError(
                    f"several ids begin so, as {both}; give more of the one you mean"
                )
            found = found or recorded
    if found is None:
        hint = f"; {unreadable:,} of its lines are no decisions" if unreadable else ""
        raise UnknownDecisionError(f"there is no decision whose id begins so{hint}")
    try:
        return _decision_decoder.decode(found.value)
    except _UNREADABLE:
        record, version = found.record, _shown(found.engine_version)
        where = f"line {record.offset + 1}" if record.topic == FILE_TOPIC else str(record)
        message = f"{where} is of another form; it says engine version {version}"
        raise UnreadableDecisionError(message) from None


def origin_of(
    decision: ContextDecision,
    events: Iterable[Record],
    decisions: Iterable[Record],
    verification_of: Callable[[Iterable[Record]], Verification],
) -> Origin | Finding:
    """Return the origin of a decision, or the finding that explains why it is unknown.

    The events and decisions are of its session. They are composed again up to the decision's request.
    """
    found: list[Origin] = []
    findings: list[Finding] = []
    for judged in verification_of(decisions).recompose(takewhile(lambda _: not found, events)):
        if isinstance(judged, Finding):
            if judged.decision_id == decision.decision_id and judged.found is not FindingKind.ALTERED_REPEAT:
                findings.append(judged)
            continue
        recomposed = judged.recomposed
        answered, request = recomposed.answered, recomposed.event
        if answered is not None and answered.decision.decision_id == decision.decision_id:
            assert isinstance(request, ContextRequest), "only requests are answered"
            assert recomposed.policy is not None, "requests have a policy"
            found.append(Origin(request, recomposed.before, recomposed.policy))
    if findings:
        return findings[0]
    return found[0] if found else Finding(FindingKind.NO_EVENT, DECISIONS, decision_id=decision.decision_id)


def of_session(records: Iterable[Record], decision: ContextDecision) -> Iterator[Record]:
    """Yield the readable records of a decision's session."""
    own = _Keyed(decision.session_id, decision.tenant)
    for record in records:
        try:
            if not isinstance(record, CutRecord) and _keyed_decoder.decode(record.value or b"") == own:
                yield record
        except _UNREADABLE:
            continue


def _shown(text: str) -> str:
    return printable(text[:_SHOWN_MAX_CHARACTERS])
