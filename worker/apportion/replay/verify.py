"""Events composed again, and their decisions compared: each verified, different, or unverifiable by name.

Decides which policy an event is composed under (that of the digest that its decision names), and why a
decision that is not alike says nothing of the engine. A session's row is rebuilt from its first event, or
goes on from the one that it starts with.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.canonical import named
from apportion.core.comparison import Different, NotJsonError, compare, read
from apportion.core.compose import Answered, compose
from apportion.core.composer import Composer
from apportion.core.detail import in_detail
from apportion.core.engine import Engine
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import (
    ContextArtifact,
    ContextRequest,
    ContextRetraction,
    Event,
    Opt,
    session_key,
)
from apportion.core.identity import event_time_us
from apportion.core.lru import Bounded
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.policies.timeline import Timeline
from apportion.core.policy import Policy
from apportion.core.results import ContextDecision
from apportion.core.session.row import Session, session_at
from apportion.core.wire import codec
from apportion.core.wire.dead_letter import holding
from apportion.offline.answers import UNKNOWN_MS
from apportion.offline.lines import Line
from apportion.offline.rows import SessionRows
from apportion.policies import builtin_policies
from apportion.replay.findings import Finding, Found, VerificationSummary, summary
from apportion.replay.log import RecordedLog
from apportion.replay.reading import Reading
from apportion.replay.recorded import Recorded, parse_decision, request_name

DECISIONS = "decisions"
DEAD_LETTERS = "dead_letters"

_RUN = ("run",)
_PLACE = ("source", "key", "headers")
"""What a file of events does not tell of the records that a worker refused."""
_COUNTS_MAX = 1 << 14
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


class Recomposed(Struct, frozen=True):
    """An event that was composed again, after the row `before`.

    `policy` is that of a request, and the default one of an artifact; a retraction has none. Only requests
    are `answered`; `found` is what is wrong with the decision that was made of it: None where it is verified,
    or was not `asked` about, for the event is composed for its session's row alone.
    """

    event: Event
    before: Session
    policy: Policy | None = None
    answered: Answered | None = None
    found: Found | None = None
    asked: bool = True


class Verification:
    """One run over recorded events; what it counted is its `summary`."""

    def __init__(
        self,
        engine: Engine,
        timeline: Timeline,
        default_policy: str,
        reading: Reading,
        decisions: Iterable[Line],
        dead_letters: Iterable[Line] | None = None,
    ) -> None:
        """Start with no session; without `dead_letters` nobody looks at what is refused."""
        self.engine = engine
        self._timeline = timeline
        self._default_policy = default_policy
        self._reading = reading
        self.memory = Memory(compositions_max=0, counts_max=_COUNTS_MAX)
        self._composer = Composer(engine, timeline.catalogue_at(UNKNOWN_MS), default_policy, self.memory)
        self.policies = {policy.digest: policy for policy in (*builtin_policies(), *timeline)}
        self._rows = SessionRows()
        self._without_secret: set[str] = set()
        self._refused: Bounded[bytes, Found] = Bounded(_REFUSED_MAX)
        self._found: list[Finding] = []
        self._counts: Counter[Found] = Counter()
        self._verified = {DECISIONS: 0, DEAD_LETTERS: 0}
        self._in_flight = 0
        self._decisions = RecordedLog(
            DECISIONS, decisions, parse_decision, _RUN, self._found.append, self._is_of_this_run
        )
        self._dead_letters = None
        if dead_letters is not None:
            self._dead_letters = RecordedLog(
                DEAD_LETTERS,
                dead_letters,
                reading.parse_dead_letter,
                _PLACE,
                self._found.append,
                self._is_of_this_run,
            )

    def start_from(self, rows: SessionRows) -> None:
        """Go on from these rows; up to where they have seen events, the reading's extent tells."""
        self._rows = rows

    @property
    def summary(self) -> VerificationSummary:
        """What was counted so far."""
        repeated = sum(log.repeated for log in self._logs)
        whole = summary(self._verified[DECISIONS], self._verified[DEAD_LETTERS], repeated, self._counts)
        return replace(whole, in_flight=self._in_flight)

    def run(self, events: Iterable[Line]) -> Iterator[Finding]:
        """Yield what is wrong, as it is met; at last the recorded lines for which no event was found."""
        return (each for each in self.recompose(events) if isinstance(each, Finding))

    def recompose(self, events: Iterable[Line]) -> Iterator[Finding | Recomposed]:
        """Yield what `run` does, and behind what is wrong with an event the event, if it is not refused."""
        try:
            for line in events:
                recomposed = self._take(line)
                yield from self._told()
                if recomposed is not None:
                    yield recomposed
            for log in self._logs:
                for recorded in log.rest():
                    if not 0 <= recorded.source < self._reading.extent.asked:
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

    def _tell(
        self, found: Found, recorded: Recorded, event_line: Opt[int] = UNSET, log: RecordedLog | None = None
    ) -> None:
        log = log or self._decisions
        identity = recorded.identity if log is self._decisions else UNSET
        self._found.append(Finding(found, log.name, recorded.number + 1, event_line, decision_id=identity))

    def _is_of_this_run(self, log: RecordedLog, recorded: Recorded) -> bool:
        """Tell whether the event of a record is composed in this run; where it is gone, say so."""
        extent, source = self._reading.extent, recorded.source
        if extent.asked <= source < extent.first:
            self._tell(Found.EVENT_GONE, recorded, log=log)
        if source < 0:
            return True
        return extent.first <= source < extent.end and source > extent.seen.get(recorded.key, -1)

    def _take(self, line: Line) -> Recomposed | None:
        event = None
        try:
            event = self._reading.event_of(line)
            return None if self._is_set_aside(line) else self._handle(event, line)
        except EventError as error:
            if event is not None:
                self._remember_refusal(event, error)
            self._check_dead_letter(line, error)
            return None

    def _handle(self, event: Event, line: Line) -> Recomposed:
        """Move the session's row on, and judge the decision that was made of a request."""
        key = session_key(event.tenant, event.session_id)
        before = self._rows.get(key)
        self._go_by(self._timeline.catalogue_at(self._reading.recorded_ms(line)))
        asked = self._is_asked(line)
        if isinstance(event, ContextRequest):
            answered, recorded = self._composed(event, before)
            if asked:
                found = self._judge(event, line, answered.decision, recorded)
            else:
                found = None
                self._pass_over(self._decisions, recorded)
            policy = self.policies[answered.decision.policy.digest]
            self._rows.put(key, answered.session)
            return Recomposed(event, before, policy, answered, found, asked)
        after, _ = self._composer.handle(event, before)
        self._rows.put(key, after)
        return Recomposed(event, before, self._default_of(event), asked=asked)

    def _go_by(self, catalogue: Catalogue) -> None:
        if self._composer.catalogue is not catalogue:
            self._composer = Composer(self.engine, catalogue, self._default_policy, self.memory)

    def _is_asked(self, line: Line) -> bool:
        return line.number >= self._reading.extent.asked

    def _pass_over(self, log: RecordedLog, recorded: Recorded | None) -> None:
        if recorded is not None:
            log.answered(recorded, None)

    def _default_of(self, event: ContextArtifact | ContextRetraction) -> Policy | None:
        if isinstance(event, ContextRetraction):
            return None
        return self._composer.catalogue.resolve(self._default_policy, event_time_us(event.published_at))

    def _composed(self, request: ContextRequest, session: Session) -> tuple[Answered, Recorded | None]:
        """Compose under the policy of the recorded decision, or under today's where there is none."""
        name = request_name(request.tenant, request.session_id, request.request_id)
        recorded = self._decisions.at_hand(name)
        answered = self._compose(request, session, recorded)
        if recorded is None:
            recorded = self._decisions.find(name)
            if recorded is not None and recorded.policy_digest != answered.decision.policy.digest:
                answered = self._compose(request, session, recorded)
        return answered, recorded

    def _compose(self, request: ContextRequest, session: Session, recorded: Recorded | None) -> Answered:
        policy = None if recorded is None else self._recorded_policy(request, session, recorded)
        if policy is not None:
            return compose(request, session, policy, self.engine, self.memory)
        _, answered = self._composer.handle(request, session)
        assert answered is not None, "requests are answered"
        return answered

    def _recorded_policy(
        self, request: ContextRequest, session: Session, recorded: Recorded
    ) -> Policy | None:
        """Return the policy that the decision names, if the request may have been composed under it."""
        policy = self.policies.get(recorded.policy_digest)
        names = {self._default_policy if request.policy is UNSET else request.policy}
        if session_at(session, event_time_us(request.requested_at)).seen(request.request_id) is not None:
            names.add(self._default_policy)  # of a request that is sent again it may be gone
        return policy if policy is not None and policy.name in names else None

    def _judge(
        self, request: ContextRequest, line: Line, decision: ContextDecision, recorded: Recorded | None
    ) -> Found | None:
        """Tell what is wrong with the decision that was made of a request, and return it."""
        event_line = line.number + 1
        if recorded is None:
            self._miss(Found.NO_DECISION, self._decisions, line, decision.decision_id)
            return Found.NO_DECISION
        different: Different | None = None
        reason: Found | None = None
        decision = in_detail(decision, recorded.detail)
        if recorded.engine_version != self.engine.version:
            reason = Found.ENGINE_VERSION
        elif recorded.policy_digest not in self.policies:
            reason = Found.UNKNOWN_POLICY
        else:
            try:
                different = compare(recorded.value, codec.encode(decision), _RUN)
            except NotJsonError:
                reason = Found.NOT_JSON
            else:
                if different is not None:
                    reason = self._why_incomparable(request, decision, recorded)
        self._decisions.answered(recorded, decision if reason is None else None)
        if reason is not None:
            self._tell(reason, recorded, event_line)
        elif different is not None:
            reason = Found.DIFFERENCE
            self._differ(DECISIONS, recorded, event_line, different)
        else:
            self._verified[DECISIONS] += 1
        return reason

    def _miss(self, found: Found, log: RecordedLog, line: Line, decision_id: Opt[str] = UNSET) -> None:
        """Tell that nothing was recorded for an event, unless that may still come."""
        extent = self._reading.extent
        decided = max(extent.decided, self._decisions.last_source + 1) if extent.in_order else extent.decided
        if line.number >= decided:
            self._in_flight += 1
        else:
            self._found.append(Finding(found, log.name, event_line=line.number + 1, decision_id=decision_id))

    def _why_incomparable(
        self, request: ContextRequest, decision: ContextDecision, recorded: Recorded
    ) -> Found | None:
        """Return why a decision that is not alike cannot be judged; nothing where it can."""
        secrets = self.engine.secrets
        secret = secrets.of(request.tenant, event_time_us(decision.session.before.started_at))
        fields = read(recorded.value)
        key = fields.get("fingerprint_key_id")
        if isinstance(key, str) and key not in secrets.key_ids(request.tenant):
            if secret is None:
                return Found.NO_SECRET
            if not _has_ids_of(secret, request, fields):  # or else it was the key's id that was altered
                return Found.OTHER_SECRET
        digests = decision.digests
        if (
            recorded.session_before == digests.session_before
            or recorded.session_after == digests.session_after
        ):
            return None
        if session_key(request.tenant, request.session_id) in self._without_secret:
            return Found.NO_SECRET
        return Found.SESSION_HISTORY

    def _differ(self, log: str, recorded: Recorded, event_line: int, different: Different) -> None:
        self._found.append(
            Finding(
                Found.DIFFERENCE,
                log,
                recorded.number + 1,
                event_line,
                decision_id=recorded.identity,
                place=different.place,
                recorded=different.recorded,
                composed=different.composed,
            )
        )

    def _remember_refusal(self, event: Event, error: EventError) -> None:
        """Know later why a decision's event was not composed, or an artifact is not in its row."""
        if isinstance(event, ContextRequest):
            name = request_name(event.tenant, event.session_id, event.request_id)
            self._refused.put(name, _REASON_OF_REFUSAL.get(error.code, Found.EVENT_REFUSED))
        elif error.code is ErrorCode.NO_SECRET:
            self._without_secret.add(session_key(event.tenant, event.session_id))

    def _is_set_aside(self, line: Line) -> bool:
        """Tell whether the worker refused an event for what it alone had to go by, and say so."""
        log = self._dead_letters
        recorded = None if log is None else log.at_hand(self._reading.letter_name(line))
        if log is None or recorded is None or recorded.code not in _OF_THE_SHELL:
            return False
        if self._is_asked(line):
            self._tell(Found.SET_ASIDE, recorded, line.number + 1, log)
        log.answered(recorded, None)
        return True

    def _check_dead_letter(self, line: Line, error: EventError) -> None:
        log = self._dead_letters
        if log is None:
            return
        recorded = log.find(self._reading.letter_name(line))
        if not self._is_asked(line):
            self._pass_over(log, recorded)
            return
        if recorded is None:
            self._miss(Found.NO_DEAD_LETTER, log, line)
            return
        letter = holding(self._reading.refused(line, error, self.engine.version), recorded.dead_letter_value)
        reason: Found | None = None
        different: Different | None = None
        try:
            beside = () if recorded.is_placed else _PLACE
            different = compare(recorded.value, codec.encode(letter), beside)
        except NotJsonError:
            reason = Found.NOT_JSON
        if recorded.engine_version != self.engine.version:
            reason = Found.ENGINE_VERSION
        log.answered(recorded, None)
        if reason is not None:
            self._tell(reason, recorded, line.number + 1, log)
        elif different is not None:
            self._differ(DEAD_LETTERS, recorded, line.number + 1, different)
        else:
            self._verified[DEAD_LETTERS] += 1


def _has_ids_of(secret: bytes, request: ContextRequest, fields: dict[str, object]) -> bool:
    """Tell whether the decision names a candidate by the id that this secret makes of its path."""
    entries = fields.get("candidates")
    if request.candidates is UNSET or not isinstance(entries, list):
        return False
    ours = {named(one, secret)[0] for one in request.candidates if one.id is UNSET}
    theirs = [entry.get("id") for entry in entries if isinstance(entry, dict)]
    return any(one in ours for one in theirs if isinstance(one, str))
