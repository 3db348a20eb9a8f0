"""One recorded decision found by its id, and what it was made of: its request, its row, its policy.

Decides which record is meant, and that nothing is said of a request that does not give this very record:
what `verify` would not call right has no origin here, but a finding.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import Struct

from apportion.core.events import ContextRequest
from apportion.core.results import ContextDecision
from apportion.core.session.row import Session
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.record import Record
from apportion.decisions.replay.findings import Finding, Found
from apportion.decisions.replay.recorded import Recorded, parse_decision
from apportion.decisions.replay.verify import DECISIONS, Verification
from apportion.engine.offline.lines import FILE_TOPIC, CutRecord
from apportion.printable import printable

_SHOWN_MAX_CHARACTERS = 60
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Origin(Struct, frozen=True):
    """What a decision was made of; `session` is the row that its request met."""

    request: ContextRequest
    session: Session
    policy: Policy


class UnknownDecisionError(Exception):
    """No record's id begins so."""

    code = "unknown_decision"
    exit_code = 2


class AmbiguousDecisionError(Exception):
    """The ids of several decisions begin so."""

    code = "ambiguous_decision"
    exit_code = 2


class UnreadableDecisionError(Exception):
    """The record is of another form than this version's."""

    code = "unreadable_decision"


class _Keyed(Struct, frozen=True):
    session_id: str
    tenant: str = "default"


_keyed_decoder = msgspec.json.Decoder(_Keyed)
_decision_decoder = msgspec.json.Decoder(ContextDecision)


def find_decision(records: Iterable[Record], prefix: str) -> ContextDecision:
    """Return the one decision whose id begins so; recorded several times, the first record.

    Raises:
        UnknownDecisionError: there is none.
        AmbiguousDecisionError: there are several.
        UnreadableDecisionError: this version cannot read it.
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
        aside = f"; {unreadable:,} of its lines are no decisions" if unreadable else ""
        raise UnknownDecisionError(f"there is no decision whose id begins so{aside}")
    try:
        return _decision_decoder.decode(found.value)
    except _UNREADABLE:
        version = _shown(found.engine_version)
        record = found.record
        place = f"line {record.offset + 1}" if record.topic == FILE_TOPIC else str(record)
        message = f"{place} is of another form; it says engine version {version}"
        raise UnreadableDecisionError(message) from None


def origin_of(
    decision: ContextDecision,
    events: Iterable[Record],
    decisions: Iterable[Record],
    verification_of: Callable[[Iterable[Record]], Verification],
) -> Origin | Finding:
    """Return what a decision was made of, or why that is unknown.

    The events, those of its session, are composed again, up to its request, by the verification of the
    decisions that are given to it.
    """
    met: list[Origin] = []
    about: list[Finding] = []
    verification = verification_of(decisions)
    for judged in verification.recompose(_until(events, met)):
        if isinstance(judged, Finding):
            if judged.decision_id == decision.decision_id and judged.found is not Found.ALTERED_REPEAT:
                about.append(judged)
            continue
        recomposed = judged.recomposed
        answered, request = recomposed.answered, recomposed.event
        if answered is not None and answered.decision.decision_id == decision.decision_id:
            assert isinstance(request, ContextRequest), "only requests are answered"
            assert recomposed.policy is not None, "requests have a policy"
            met.append(Origin(request, recomposed.before, recomposed.policy))
    if about:
        return about[0]
    return met[0] if met else Finding(Found.NO_EVENT, DECISIONS, decision_id=decision.decision_id)


def of_session(records: Iterable[Record], decision: ContextDecision) -> Iterator[Record]:
    """Yield the records of a decision's session; one that cannot be read is of none."""
    own = _Keyed(decision.session_id, decision.tenant)
    for record in records:
        try:
            if not isinstance(record, CutRecord) and _keyed_decoder.decode(record.value or b"") == own:
                yield record
        except _UNREADABLE:
            continue


def _until(records: Iterable[Record], met: list[Origin]) -> Iterator[Record]:
    for record in records:
        yield record
        if met:
            return


def _shown(text: str) -> str:
    return printable(text[:_SHOWN_MAX_CHARACTERS])
