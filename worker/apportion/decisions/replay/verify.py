"""Verification: recorded events are composed again, and their decisions and dead letters are compared."""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import ContextRequest, Event, Opt, session_key
from apportion.core.lru import Bounded
from apportion.core.wire.record import Record
from apportion.decisions.replay.findings import Finding, FindingKind, VerificationSummary, by_kind, finding_at
from apportion.decisions.replay.judging import RUN, SOURCE, Judgement, judge_dead_letter, judge_decision
from apportion.decisions.replay.log import RecordedLog
from apportion.decisions.replay.reading import Reading
from apportion.decisions.replay.recomposing import Recomposed, Recomposer
from apportion.decisions.replay.recorded import Recorded, parse_decision, request_name

DECISIONS = "decisions"
DEAD_LETTERS = "dead_letters"

_REFUSED_MAX = 1 << 16
_REFUSED_BY_WORKER = frozenset(
    (
        ErrorCode.EVENT_FAILED,
        ErrorCode.IN_FUTURE,
        ErrorCode.TOO_LARGE,
        ErrorCode.TOO_LATE,
        ErrorCode.WRONG_KEY,
        ErrorCode.WRONG_PARTITION,
    )
)
"""Reasons why a worker may refuse an event that composes here: they depend on more than the event."""
_KIND_OF_REFUSAL = {
    ErrorCode.NO_SECRET: FindingKind.NO_SECRET,
    ErrorCode.UNKNOWN_POLICY: FindingKind.UNKNOWN_POLICY,
}


class JudgedEvent(Struct, frozen=True):
    """An event that was composed again, and the finding about its decision, if it was `asked` for."""

    recomposed: Recomposed
    found: FindingKind | None
    asked: bool


class Verification:
    """One run over recorded events; `summary` has its counts."""

    def __init__(
        self,
        recomposer: Recomposer,
        reading: Reading,
        decisions: Iterable[Record],
        dead_letters: Iterable[Record] | None = None,
    ) -> None:
        """Start with the recomposer's rows. Without `dead_letters`, refused events are not checked."""
        self.recomposer = recomposer
        self._engine = recomposer.engine
        self._reading = reading
        self._sessions_without_secret: set[str] = set()
        self._refused: Bounded[bytes, FindingKind] = Bounded(_REFUSED_MAX)
        self._findings: list[Finding] = []
        self._counts: Counter[str] = Counter()
        self._verified = {DECISIONS: 0, DEAD_LETTERS: 0}
        self._in_flight = 0
        report, is_wanted = self._findings.append, self._is_of_this_run
        self._decisions = RecordedLog(DECISIONS, decisions, parse_decision, RUN, report, is_wanted)
        self._dead_letters = None
        self._logs = [self._decisions]
        if dead_letters is not None:
            parse = reading.parse_dead_letter
            self._dead_letters = RecordedLog(DEAD_LETTERS, dead_letters, parse, SOURCE, report, is_wanted)
            self._logs.append(self._dead_letters)

    @property
    def summary(self) -> VerificationSummary:
        """The counts so far."""
        counts = self._counts.copy()
        differences = counts.pop(FindingKind.DIFFERENCE, 0)
        return VerificationSummary(
            verified=self._verified[DECISIONS],
            dead_letters=self._verified[DEAD_LETTERS],
            repeated=sum(log.repeated for log in self._logs),
            differences=differences,
            unverifiable=by_kind(counts),
            in_flight=self._in_flight,
        )

    def run(self, events: Iterable[Record]) -> Iterator[Finding]:
        """Yield the findings in the order of the events, then the findings about records without an event."""
        return (each for each in self.recompose(events) if isinstance(each, Finding))

    def recompose(self, events: Iterable[Record]) -> Iterator[Finding | JudgedEvent]:
        """Yield the findings as `run` does. Each event that is not refused follows its own findings."""
        try:
            for record in events:
                judged = self._process(record)
                yield from self._drain_findings()
                if judged is not None:
                    yield judged
            for log in self._logs:
                for recorded in log.rest():
                    if not 0 <= recorded.event_offset < self._reading.extent.asked:
                        self._report(self._refused.get(recorded.name) or FindingKind.NO_EVENT, recorded, log)
                    yield from self._drain_findings()
            yield from self._drain_findings()
        finally:
            for log in self._logs:
                log.close()

    def _drain_findings(self) -> Iterator[Finding]:
        for finding in self._findings:
            self._counts[finding.found] += 1
            yield finding
        self._findings.clear()

    def _report(
        self, kind: FindingKind, recorded: Recorded, log: RecordedLog, event: Record | None = None
    ) -> None:
        identity = recorded.identity if log is self._decisions else UNSET
        self._findings.append(finding_at(kind, log.name, recorded.record, event, identity))

    def _is_of_this_run(self, log: RecordedLog, recorded: Recorded) -> bool:
        """Return whether this run composes the event of a record, or may do so. Report a deleted event."""
        extent, offset = self._reading.extent, recorded.event_offset
        if extent.asked <= offset < extent.first:
            self._report(FindingKind.EVENT_GONE, recorded, log)
        if offset < 0:
            return True
        return extent.first <= offset < extent.end and offset > extent.seen.get(recorded.key, -1)

    def _is_asked(self, record: Record) -> bool:
        return record.offset >= self._reading.extent.asked

    def _process(self, record: Record) -> JudgedEvent | None:
        """Compose an event and compare its records; return None if it is refused."""
        event = None
        try:
            event = self._reading.event_of(record)
            return None if self._is_refused_by_worker(record) else self._judge(event, record)
        except EventError as error:
            if event is not None:
                self._remember_refusal(event, error)
            self._check_dead_letter(record, error)
            return None

    def _judge(self, event: Event, record: Record) -> JudgedEvent:
        """Compose an event, advance its session's row, and compare the decision of a request."""
        recomposed, recorded = self._recomposed(event, record)
        is_asked = self._is_asked(record)
        found = None
        if is_asked and recomposed.answered is not None:
            found = self._check_decision(recomposed, record, recorded)
        elif recorded is not None:
            self._decisions.remove(recorded, None)
        self.recomposer.advance(recomposed)
        return JudgedEvent(recomposed, found, is_asked)

    def _recomposed(self, event: Event, record: Record) -> tuple[Recomposed, Recorded | None]:
        """Compose under the policy of the recorded decision; return that decision, too, if there is one.

        The log is read further only if the request is not refused: a refused request has no decision.
        """
        recorded_ms = record.timestamp_ms
        if not isinstance(event, ContextRequest):
            return self.recomposer.recompose(event, recorded_ms), None
        name = request_name(event.tenant, event.session_id, event.request_id)
        recorded = self._decisions.peek(name)
        if recorded is not None:
            return self.recomposer.recompose(event, recorded_ms, recorded.policy_digest), recorded
        recomposed = self.recomposer.recompose(event, recorded_ms)
        recorded = self._decisions.find(name)
        assert recomposed.policy is not None, "requests have a policy"
        if recorded is not None and recorded.policy_digest != recomposed.policy.digest:
            recomposed = self.recomposer.recompose(event, recorded_ms, recorded.policy_digest)
        return recomposed, recorded

    def _check_decision(
        self, recomposed: Recomposed, record: Record, recorded: Recorded | None
    ) -> FindingKind | None:
        """Compare the decision of a request; report a finding and return its kind. None: it is verified."""
        request, answered = recomposed.event, recomposed.answered
        assert isinstance(request, ContextRequest), "only requests are answered"
        assert answered is not None, "requests are answered"
        if recorded is None:
            self._report_missing(
                FindingKind.NO_DECISION, self._decisions, record, answered.decision.decision_id
            )
            return FindingKind.NO_DECISION
        judgement = judge_decision(
            recorded,
            request,
            answered.decision,
            engine=self._engine,
            policies=self.recomposer.policies,
            lacks_artifacts=session_key(request.tenant, request.session_id) in self._sessions_without_secret,
        )
        self._close_judged(self._decisions, recorded, record, judgement)
        return judgement.found

    def _check_dead_letter(self, record: Record, error: EventError) -> None:
        log = self._dead_letters
        if log is None:
            return
        recorded = log.find(self._reading.letter_name(record))
        if not self._is_asked(record):
            if recorded is not None:
                log.remove(recorded, None)
        elif recorded is None:
            self._report_missing(FindingKind.NO_DEAD_LETTER, log, record)
        else:
            letter = self._reading.refused(record, error, self._engine.version)
            self._close_judged(log, recorded, record, judge_dead_letter(recorded, letter, self._engine))

    def _close_judged(
        self, log: RecordedLog, recorded: Recorded, event: Record, judgement: Judgement
    ) -> None:
        """Remove a judged record from its log; count it if it is verified, else report a finding."""
        log.remove(recorded, judgement.composed)
        different = judgement.different
        if judgement.found is None:
            self._verified[log.name] += 1
        elif different is None:
            self._report(judgement.found, recorded, log, event)
        else:
            finding = finding_at(judgement.found, log.name, recorded.record, event, recorded.identity)
            values = {"recorded": different.recorded, "composed": different.composed}
            self._findings.append(replace(finding, place=different.place, **values))

    def _report_missing(
        self, kind: FindingKind, log: RecordedLog, event: Record, decision_id: Opt[str] = UNSET
    ) -> None:
        """Report that an event has no record, or count it as in flight if the record may still be written."""
        extent, decided = self._reading.extent, self._reading.extent.decided
        if extent.in_order:
            decided = max(decided, self._decisions.last_event_offset + 1)
        if event.offset >= decided:
            self._in_flight += 1
        else:
            self._findings.append(finding_at(kind, log.name, None, event, decision_id))

    def _remember_refusal(self, event: Event, error: EventError) -> None:
        """Store why a request has no new decision, or that an artifact is missing in its session's row."""
        if isinstance(event, ContextRequest):
            name = request_name(event.tenant, event.session_id, event.request_id)
            self._refused.put(name, _KIND_OF_REFUSAL.get(error.code, FindingKind.EVENT_REFUSED))
        elif error.code is ErrorCode.NO_SECRET:
            self._sessions_without_secret.add(session_key(event.tenant, event.session_id))

    def _is_refused_by_worker(self, record: Record) -> bool:
        """Return whether the event's dead letter has a reason that only a worker can have; report it."""
        log = self._dead_letters
        recorded = None if log is None else log.peek(self._reading.letter_name(record))
        if log is None or recorded is None or recorded.code not in _REFUSED_BY_WORKER:
            return False
        if self._is_asked(record):
            self._report(FindingKind.SET_ASIDE, recorded, log, record)
        log.remove(recorded, None)
        return True
