"""From a record and its session's row to everything that leaves: bytes in, bytes out, no I/O.

Decides what is sent under which headers, and how large it may be. What stands in an
answer, the core decides; when it is sent and in which order, the agent.
"""

from contextlib import suppress
from time import perf_counter_ns

from msgspec import UNSET, Struct, json, to_builtins

from apportion.core import wire
from apportion.core.cloudevents import EventHeaders, event_value
from apportion.core.compose import Answered
from apportion.core.composer import Composer
from apportion.core.dead_letter import dead_letter, holding
from apportion.core.detail import in_detail
from apportion.core.engine import Engine
from apportion.core.errors import ErrorCode, EventError
from apportion.core.memory import Memory
from apportion.core.record import Record
from apportion.core.results import ContextDecision
from apportion.core.session import EMPTY, Session
from apportion.core.timeline import Timeline
from apportion.settings import Settings
from apportion.stream.lateness import StreamTime
from apportion.stream.message import Message
from apportion.stream.outputs import source_of
from apportion.stream.partitions import check_place
from apportion.stream.row_format import Row
from apportion.stream.topics import MESSAGE_MAX_BYTES
from apportion.stream.verifier import ShareVerifier

VALUE_MAX_BYTES = MESSAGE_MAX_BYTES - (64 << 10)
"""What a value may have, so that it fits into its topic with its key and headers."""


class Answer(Struct, frozen=True):
    """The messages of one event, none for an artifact, and the row that says that it is answered.

    `outcome` is what the messages tell of a request, which took `took_s`.
    """

    messages: tuple[Message, ...]
    row: Row
    outcome: Answered | None = None
    took_s: float = 0.0


class Answers:
    """Answers and refuses: the same record from the same row always with the same bytes outside `run`."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        timeline: Timeline,
        worker: str,
        verifier: ShareVerifier | None = None,
    ) -> None:
        """Start without a memory of earlier answers; `worker` is whom a decision names.

        A `verifier` is offered the decisions that it chooses.
        """
        self._verifier = verifier
        self._settings = settings
        self._bounds = settings.bounds
        self._partitioner, self._partitions = settings.partitioner, settings.partitions
        self._detail = settings.decision_detail
        self._composed_topic, self._decisions_topic = settings.composed_topic, settings.decisions_topic
        self._engine = engine
        self.memory = Memory()
        self.go_by(timeline)
        topic, worker_name = (json.encode(one).decode() for one in (settings.requests_topic, worker))
        self._run_before = f',"run":{{"source":{{"topic":{topic},"partition":'
        self._run_between = f'}},"worker":{worker_name},"phases":['
        source = source_of(settings)
        self._composed_headers = EventHeaders("context-composed.v1", source)
        self._decision_headers = EventHeaders("context-decision.v1", source)
        self._letter_headers = EventHeaders("context-dead-letter.v1", source)

    def go_by(self, timeline: Timeline) -> None:
        """Go by these policies from now on: those of before, and what was read since."""
        self._timeline = timeline
        self._composer: Composer | None = None

    def _composer_of(self, record: Record) -> Composer:
        """Return what composes by the policies that an event of that record's time meets."""
        catalogue = self._timeline.at(record.timestamp_ms)
        composer = self._composer
        if composer is None or composer.catalogue is not catalogue:
            composer = Composer(self._engine, catalogue, self._settings.default_policy, self.memory)
            self._composer = composer
        return composer

    def answer(self, record: Record, row: Row | None, time: StreamTime | None = None) -> Answer:
        """Return what answers a record. The partition's stream time is moved on by it, and may refuse it.

        Raises:
            EventError: the record is refused; nothing has happened.
        """
        clock = _Clock()
        event = wire.decode(event_value(record, self._bounds), self._bounds)
        check_place(event, record, self._partitioner, self._partitions)
        if time is not None:
            time.see(event, record)
        clock.phase("decode")
        before = EMPTY if row is None else row.session
        session, outcome = self._composer_of(record).handle(event, before, clock.phase)
        messages = () if outcome is None else self._messages(record, outcome, clock)
        if self._verifier is not None and outcome is not None and self._verifier.is_chosen(outcome.decision):
            self._have_verified(self._verifier, record, before, outcome, messages[-1].value)
        return Answer(messages, Row(record.offset, session, record.timestamp_ms), outcome, clock.passed_s)

    def _have_verified(
        self, verifier: ShareVerifier, record: Record, before: Session, outcome: Answered, decision: bytes
    ) -> None:
        digest = outcome.decision.policy.digest
        policy = next(one for one in self._composer_of(record).catalogue if one.digest == digest)
        verifier.offer(record, before, policy, decision, outcome.decision.decision_id)

    def pass_over(self, record: Record, time: StreamTime) -> None:
        """Move stream time on by a record that is not answered, for its row has seen it."""
        if time.is_bounded:
            with suppress(EventError):
                event = wire.decode(event_value(record, self._bounds), self._bounds)
                check_place(event, record, self._partitioner, self._partitions)
                time.see(event, record)

    def refuse(self, record: Record, error: EventError) -> Message:
        """Return the dead letter of a record. Its id is the record's place, for that alone is sure."""
        letter = dead_letter(record, error, self._engine.version)
        letter = holding(letter, self._settings.dead_letter_value)
        headers = self._letter_headers.of(str(record), record.headers)
        topic = self._settings.dead_letters_topic
        return Message(topic, record.partition, letter.key, wire.encode(letter), headers)

    def _messages(self, record: Record, outcome: Answered, clock: "_Clock") -> tuple[Message, ...]:
        identity = outcome.decision.decision_id
        time = str(to_builtins(outcome.decision.requested_at))

        told = in_detail(outcome.decision, self._detail)
        composed = _sized("composed event", wire.encode(outcome.composed))
        decision = _sized("decision event", self._with_run(told, record, outcome, clock))
        composed_headers = self._composed_headers.of(f"{identity}-composed", record.headers, time)
        decision_headers = self._decision_headers.of(f"{identity}-decision", record.headers, time)
        key, partition = record.key, record.partition
        return (
            Message(self._composed_topic, partition, key, composed, composed_headers),
            Message(self._decisions_topic, partition, key, decision, decision_headers),
        )

    def _with_run(self, told: ContextDecision, record: Record, outcome: Answered, clock: "_Clock") -> bytes:
        """Return a decision as it travels with its `run`, a `Run`, which stands last in it.

        A test compares it with encoding both as structs, which makes six objects more.
        """
        assert told.run is UNSET, "the core leaves it to the shell"
        run = (
            f'{self._run_before}{record.partition},"offset":{record.offset}{self._run_between}{clock.phases}'
            f'],"cache_hit":{"true" if outcome.cache_hit else "false"}}}}}'
        )
        return wire.encode(told)[:-1] + run.encode()


def _sized(what: str, value: bytes) -> bytes:
    """Return what fits into its topic.

    Raises:
        EventError: it does not: a worker that tried to send it would fail at this event for ever.
    """
    if len(value) > VALUE_MAX_BYTES:
        message = f"its {what} would have {len(value)} bytes, over {VALUE_MAX_BYTES}; send less at once"
        raise EventError(ErrorCode.TOO_LARGE, message)
    return value


class _Clock:
    """Times the phases of one event; the only clock near an answer, and only for its `run`."""

    __slots__ = ("_begun_ns", "_since_ns", "phases")

    def __init__(self) -> None:
        self.phases = ""
        """A `Phase` each, in JSON."""
        self._begun_ns = self._since_ns = perf_counter_ns()

    @property
    def passed_s(self) -> float:
        """How long it has been since the beginning."""
        return (perf_counter_ns() - self._begun_ns) / 1e9

    def phase(self, name: str) -> None:
        """Count the time since the last phase under this name."""
        now_ns = perf_counter_ns()
        comma = "," if self.phases else ""
        self.phases += f'{comma}{{"name":"{name}","duration_us":{(now_ns - self._since_ns) // 1000}}}'
        self._since_ns = now_ns
