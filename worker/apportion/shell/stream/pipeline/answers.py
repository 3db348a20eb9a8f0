"""Answers: everything that leaves for one record, made from it and its session's row, without I/O.

Decides the headers of each message, and how large it may be. The core decides the content of an answer, the
pipeline its order and time.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from time import perf_counter_ns

from msgspec import UNSET, Struct, json, to_builtins

from apportion.core.compose import Answered
from apportion.core.composer import TimelineComposer
from apportion.core.detail import in_detail
from apportion.core.engine import Engine
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Event
from apportion.core.memory import Memory
from apportion.core.policies.timeline import Timeline
from apportion.core.results import Detail
from apportion.core.session.row import EMPTY, Session
from apportion.core.wire import codec
from apportion.core.wire.cloudevents import EventHeaders
from apportion.core.wire.dead_letter import dead_letter, holding
from apportion.core.wire.record import Record
from apportion.settings import Settings
from apportion.shell.kafka.outbound import OutboundRecord
from apportion.shell.kafka.output_ownership import source_of
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES
from apportion.shell.stream.pipeline.verifier import ShareVerifier
from apportion.shell.stream.state.row_format import Row
from apportion.shell.stream.state.stream_time import StreamTime, event_of

VALUE_MAX_BYTES = MESSAGE_MAX_BYTES - (64 << 10)
"""What a value may have, so that it fits into its topic with its key and headers."""


class Answer(Struct, frozen=True):
    """What an event gives: the row that says that it is answered, and what its messages are made of.

    `outcome` is what they tell of a request, as `composed` event and as `decision` without its `run`; an
    artifact has none. It took `took_s`, and `clock` tells its phases.
    """

    record: Record
    row: Row
    outcome: Answered | None = None
    composed: bytes = b""
    decision: bytes = b""
    clock: "_Clock | None" = None
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
        self._detail = settings.decision_detail
        self._composed_topic, self._decisions_topic = settings.composed_topic, settings.decisions_topic
        self._engine = engine
        self.memory = Memory(compositions_max_bytes=settings.compositions_max_bytes)
        self.go_by(timeline)
        self._run = _RunTemplates(settings.requests_topic, worker)
        self.name_schemas({})

    def name_schemas(self, headers: Mapping[str, tuple[str, bytes]]) -> None:
        """Give all messages of a topic this header from now on, by topic; called before the first answer."""
        settings, source = self._settings, source_of(self._settings)

        def new_headers(topic: str, event_type: str) -> EventHeaders:
            more = (headers[topic],) if topic in headers else ()
            return EventHeaders(event_type, source, more, settings.reply_headers)

        self._composed_headers = new_headers(settings.composed_topic, "context-composed.v1")
        self._decision_headers = new_headers(settings.decisions_topic, "context-decision.v1")
        self._letter_headers = new_headers(settings.dead_letters_topic, "context-dead-letter.v1")

    def go_by(self, timeline: Timeline) -> None:
        """Use these policies from now on; they include the earlier ones.

        Their counters load now, before the worker is ready, because loading one holds the interpreter's lock.
        """
        self._engine.load_counters(timeline)
        default_policy = self._settings.default_policy
        self._composers = TimelineComposer(self._engine, timeline, default_policy, self.memory)

    def answer(self, record: Record, row: Row | None, time: StreamTime | None = None) -> Answer:
        """Return what answers a record. The partition's stream time is moved on by it, and may refuse it.

        Raises:
            EventError: the record is refused; nothing has happened.
        """
        clock = _Clock()
        event = self._event_of(record, time)
        clock.phase("decode")
        before = EMPTY if row is None else row.session
        session, outcome = self._composers.at(record.timestamp_ms).handle(event, before, clock.phase)
        row = Row(record.offset, session, record.timestamp_ms)
        if outcome is None:
            return Answer(record, row)
        detailed = outcome.decision
        if self._detail is not Detail.FULL:
            detailed = in_detail(detailed, self._detail)
        composed, decision = codec.encode(outcome.composed), codec.encode(detailed)
        for what, value in (("composed", composed), ("decision", decision)):
            if len(value) > VALUE_MAX_BYTES:  # a worker that tried to send it would fail here for ever
                size = f"{len(value)} bytes, over {VALUE_MAX_BYTES}"
                message = f"its {what} event would have {size}; send less at once"
                raise EventError(ErrorCode.TOO_LARGE, message)
        if self._verifier is not None and self._verifier.is_chosen(outcome.decision):
            self._have_verified(self._verifier, record, before, outcome, decision)
        took_s = (perf_counter_ns() - clock.begun_ns) / 1e9
        return Answer(record, row, outcome, composed, decision, clock, took_s)

    def _have_verified(
        self, verifier: ShareVerifier, record: Record, before: Session, outcome: Answered, decision: bytes
    ) -> None:
        digest = outcome.decision.policy.digest
        catalogue = self._composers.at(record.timestamp_ms).catalogue
        policy = next(policy for policy in catalogue if policy.digest == digest)
        verifier.offer(record, before, policy, decision, outcome.decision.decision_id)

    def pass_over(self, record: Record, time: StreamTime) -> None:
        """Move stream time on by a record that is not answered, for its row has seen it."""
        if time.is_bounded:
            with suppress(EventError):
                self._event_of(record, time)

    def _event_of(self, record: Record, time: StreamTime | None) -> Event:
        partitioner, partitions = self._settings.partitioner, self._settings.partitions
        return event_of(record, time, self._bounds, partitioner=partitioner, partitions=partitions)

    def refuse(self, record: Record, error: EventError) -> OutboundRecord:
        """Return the dead letter of a record. Its id is the record's place, for that alone is sure."""
        letter = dead_letter(record, error, self._engine.version)
        letter = holding(letter, self._settings.dead_letter_value)
        headers = self._letter_headers.build(str(record), record.headers)
        topic = self._settings.dead_letters_topic
        return OutboundRecord(topic, record.partition, letter.key, codec.encode(letter), headers)

    def messages(self, answer: Answer) -> tuple[OutboundRecord, ...]:
        """Return what leaves of an answer; none for an artifact.

        Apart from `answer`, for many at once: a processor does one thing again faster than many in turn.
        """
        outcome = answer.outcome
        if outcome is None:
            return ()
        record = answer.record
        identity, received = outcome.decision.decision_id, record.headers
        time = str(to_builtins(outcome.decision.requested_at))
        assert outcome.decision.run is UNSET, "the core leaves it to the shell"
        decision = answer.decision[:-1] + self._run.of(answer, outcome)
        composed_headers = self._composed_headers.build(f"{identity}-composed", received, time)
        decision_headers = self._decision_headers.build(f"{identity}-decision", received, time)
        key, partition = record.key, record.partition
        return (
            OutboundRecord(self._composed_topic, partition, key, answer.composed, composed_headers),
            OutboundRecord(self._decisions_topic, partition, key, decision, decision_headers),
        )


class _Clock:
    """Times the phases of one event; the only clock near an answer, and only for its `run`."""

    __slots__ = ("begun_ns", "ends_ns")

    def __init__(self) -> None:
        self.ends_ns: dict[str, int] = {}
        """When each phase ended, in their order; each begins where the one before ended."""
        self.begun_ns = perf_counter_ns()

    def phase(self, name: str) -> None:
        """Count the time since the last phase under this name."""
        self.ends_ns[name] = perf_counter_ns()


class _RunTemplates:
    """The `run` with which decisions travel, a `Run`, which stands last in them: few numbers of it vary.

    A test compares it with encoding both as structs, which makes six objects more.
    """

    def __init__(self, topic: str, worker: str) -> None:
        quoted = (json.encode(text).replace(b"%", b"%%") for text in (topic, worker))
        self._topic, self._worker = quoted
        self._known: dict[tuple[str, ...], bytes] = {}

    def of(self, answer: Answer, outcome: Answered) -> bytes:
        """Return it, and the end of its decision."""
        record, clock = answer.record, answer.clock
        assert clock is not None, "a request has phases"
        phases = tuple(clock.ends_ns)
        template = self._known.get(phases)
        if template is None:
            template = self._known[phases] = self._template(phases)
        moments_ns = (clock.begun_ns, *clock.ends_ns.values())
        took_us = [(end - begin) // 1_000 for begin, end in pairwise(moments_ns)]
        is_hit = b"true" if outcome.cache_hit else b"false"
        return template % (record.partition, record.offset, *took_us, is_hit)

    def _template(self, phases: Sequence[str]) -> bytes:
        timed = b",".join([b'{"name":%b,"duration_us":%%d}' % json.encode(name) for name in phases])
        return (
            b',"run":{"source":{"topic":%b,"partition":%%d,"offset":%%d},"worker":%b,"phases":[%b],'
            b'"cache_hit":%%b}}' % (self._topic, self._worker, timed)
        )
