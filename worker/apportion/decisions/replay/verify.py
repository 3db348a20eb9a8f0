"""A verification: recorded events are composed again, and the records that were made of them are judged.

Finds the record of each event, the events without a record and the records without an event, and counts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import ContextRequest, Event, Opt, session_key
from apportion.core.lru import Bounded
from apportion.core.wire.record import Record
from apportion.decisions.replay.findings import Finding, Found, VerificationSummary, finding_at, summary
from apportion.decisions.replay.judging import PLACE, RUN, Judgement, judge_dead_letter, judge_decision
from apportion.decisions.replay.log import RecordedLog
from apportion.decisions.replay.reading import Reading
from apportion.decisions.replay.recomposing import Recomposed, Recomposer
from apportion.decisions.replay.recorded import Recorded, parse_decision, request_name

DECISIONS = "decisions"
DEAD_LETTERS = "dead_letters"

_REFUSED_MAX = 1 << 16
_OF_THE_SHELL = frozenset(
    (
        ErrorCode.EVENT_FAILED,
        ErrorCode.IN_FUTURE,
        ErrorCode.TOO_LARGE,
        ErrorCode.TOO_LATE,
        ErrorCode.WRONG_KEY,
        ErrorCode.WRONG_PARTITION,
    )
)
"""Why a worker may have refused an event that can be composed: it had more to go by."""
_REASON_OF_REFUSAL = {
    ErrorCode.NO_SECRET: Found.NO_SECRET,
    ErrorCode.UNKNOWN_POLICY: Found.UNKNOWN_POLICY,
}


class JudgedEvent(Struct, frozen=True):
    """An event that was composed again, and what is wrong with its decision (`found`), if anything.

    If it is not `asked` about, it was composed for its session's row alone, and nothing was judged.
    """

    recomposed: Recomposed
    found: Found | None
    asked: bool


class Verification:
    """One run over recorded events; what it counted is its `summary`."""

    def __init__(
        self,
        recomposer: Recomposer,
        reading: Reading,
        decisions: Iterable[Record],
        dead_letters: Iterable[Record] | None = None,
    ) -> None:
        """Go on from the recomposer's rows. Without `dead_letters` refused events are not looked at."""
        self.recomposer = recomposer
        self._engine = recomposer.engine
        self._reading = reading
        self._without_secret: set[str] = set()
        self._refused: Bounded[bytes, Found] = Bounded(_REFUSED_MAX)
        self._found: list[Finding] = []
        self._counts: Counter[Found] = Counter()
        self._verified = {DECISIONS: 0, DEAD_LETTERS: 0}
        self._in_flight = 0
        self._decisions = RecordedLog(
            DECISIONS, decisions, parse_decision, RUN, self._found.append, self._is_of_this_run
        )
        self._dead_letters = None
        if dead_letters is not None:
            self._dead_letters = RecordedLog(
                DEAD_LETTERS,
                dead_letters,
                reading.parse_dead_letter,
                PLACE,
                self._found.append,
                self._is_of_this_run,
            )

    @property
    def summary(self) -> VerificationSummary:
        """What was counted so far."""
        repeated = sum(log.repeated for log in self._logs)
        whole = summary(self._verified[DECISIONS], self._verified[DEAD_LETTERS], repeated, self._counts)
        return replace(whole, in_flight=self._in_flight)

    def run(self, events: Iterable[Record]) -> Iterator[Finding]:
        """Yield what is wrong, as it is met; at last the records for which no event was found."""
        return (each for each in self.recompose(events) if isinstance(each, Finding))

    def recompose(self, events: Iterable[Record]) -> Iterator[Finding | JudgedEvent]:
        """Yield what `run` does, and behind what is wrong with an event the event, if it is not refused."""
        try:
            for record in events:
                judged = self._take(record)
                yield from self._told()
                if judged is not None:
                    yield judged
            for log in self._logs:
                for recorded in log.rest():
                    if not 0 <= recorded.event_offset < self._reading.extent.asked:
                        self._tell(self._refused.get(recorded.name) or Found.NO_EVENT, recorded, log=log)
                    yield from self._told()
            yield from self._told()
        finally:
            for log in self._logs:
                log.close()

    @property
    def _logs(self) -> tuple[RecordedLog, ...]:
        return (self._decisions,) if self._dead_letters is None else (self._decisions, self._dead_letters)

    def _told(self) -> Iterator[Finding]:
        for finding in self._found:
            self._counts[finding.found] += 1
            yield finding
        self._found.clear()

    def _tell(self, found: Found, recorded: Recorded, log: RecordedLog, event: Record | None = None) -> None:
        identity = recorded.identity if log is self._decisions else UNSET
        self._found.append(finding_at(found, log.name, recorded.record, event, identity))

    def _is_of_this_run(self, log: RecordedLog, recorded: Recorded) -> bool:
        """Tell whether the event of a record is composed in this run; where it is gone, say so."""
        extent, offset = self._reading.extent, recorded.event_offset
        if extent.asked <= offset < extent.first:
            self._tell(Found.EVENT_GONE, recorded, log)
        if offset < 0:
            return True
        return extent.first <= offset < extent.end and offset > extent.seen.get(recorded.key, -1)

    def _is_asked(self, record: Record) -> bool:
        return record.offset >= self._reading.extent.asked

    def _take(self, record: Record) -> JudgedEvent | None:
        event = None
        try:
            event = self._reading.event_of(record)
            return None if self._is_set_aside(record) else self._judge(event, record)
        except EventError as error:
            if event is not None:
                self._remember_refusal(event, error)
            self._check_dead_letter(record, error)
            return None

    def _judge(self, event: Event, record: Record) -> JudgedEvent:
        """Move the session's row on, and judge the decision that was made of a request."""
        recomposed, recorded = self._recomposed(event, record)
        is_asked = self._is_asked(record)
        found = None
        if is_asked and recomposed.answered is not None:
            found = self._check_decision(recomposed, record, recorded)
        elif recorded is not None:
            self._decisions.answered(recorded, None)
        self.recomposer.advance(recomposed)
        return JudgedEvent(recomposed, found, is_asked)

    def _recomposed(self, event: Event, record: Record) -> tuple[Recomposed, Recorded | None]:
        """Compose under the policy of the recorded decision; return that decision, if there is one.

        The log is read on only for a request that is not refused: a refused one has no decision to find.
        """
        recorded_ms = record.timestamp_ms
        if not isinstance(event, ContextRequest):
            return self.recomposer.recompose(event, recorded_ms), None
        name = request_name(event.tenant, event.session_id, event.request_id)
        recorded = self._decisions.at_hand(name)
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
    ) -> Found | None:
        """Tell what is wrong with the decision that was made of a request, and return it."""
        request, answered = recomposed.event, recomposed.answered
        assert isinstance(request, ContextRequest), "only requests are answered"
        assert answered is not None, "requests are answered"
        if recorded is None:
            self._miss(Found.NO_DECISION, self._decisions, record, answered.decision.decision_id)
            return Found.NO_DECISION
        judgement = judge_decision(
            recorded,
            request,
            answered.decision,
            engine=self._engine,
            policies=self.recomposer.policies,
            lacks_artifacts=session_key(request.tenant, request.session_id) in self._without_secret,
        )
        self._enter(self._decisions, recorded, record, judgement)
        return judgement.found

    def _check_dead_letter(self, record: Record, error: EventError) -> None:
        """Tell what is wrong with the dead letter of an event that is refused."""
        log = self._dead_letters
        if log is None:
            return
        recorded = log.find(self._reading.letter_name(record))
        if not self._is_asked(record):
            if recorded is not None:
                log.answered(recorded, None)
        elif recorded is None:
            self._miss(Found.NO_DEAD_LETTER, log, record)
        else:
            letter = self._reading.refused(record, error, self._engine.version)
            self._enter(log, recorded, record, judge_dead_letter(recorded, letter, self._engine))

    def _enter(self, log: RecordedLog, recorded: Recorded, event: Record, judgement: Judgement) -> None:
        """Count a judged record, and tell what is wrong with it."""
        log.answered(recorded, judgement.composed)
        different = judgement.different
        if judgement.found is None:
            self._verified[log.name] += 1
        elif different is None:
            self._tell(judgement.found, recorded, log, event)
        else:
            finding = finding_at(judgement.found, log.name, recorded.record, event, recorded.identity)
            self._found.append(
                replace(
                    finding,
                    place=different.place,
                    recorded=different.recorded,
                    composed=different.composed,
                )
            )

    def _miss(self, found: Found, log: RecordedLog, event: Record, decision_id: Opt[str] = UNSET) -> None:
        """Tell that nothing was recorded for an event, unless that may still come."""
        extent, decided = self._reading.extent, self._reading.extent.decided
        if extent.in_order:
            decided = max(decided, self._decisions.last_event_offset + 1)
        if event.offset >= decided:
            self._in_flight += 1
        else:
            self._found.append(finding_at(found, log.name, None, event, decision_id))

    def _remember_refusal(self, event: Event, error: EventError) -> None:
        """Know later why a decision's event was not composed, or an artifact is not in its row."""
        if isinstance(event, ContextRequest):
            name = request_name(event.tenant, event.session_id, event.request_id)
            self._refused.put(name, _REASON_OF_REFUSAL.get(error.code, Found.EVENT_REFUSED))
        elif error.code is ErrorCode.NO_SECRET:
            self._without_secret.add(session_key(event.tenant, event.session_id))

    def _is_set_aside(self, record: Record) -> bool:
        """Tell whether the worker refused an event for what it alone had to go by, and say so."""
        log = self._dead_letters
        recorded = None if log is None else log.at_hand(self._reading.letter_name(record))
        if log is None or recorded is None or recorded.code not in _OF_THE_SHELL:
            return False
        if self._is_asked(record):
            self._tell(Found.SET_ASIDE, recorded, log, record)
        log.answered(recorded, None)
        return True
