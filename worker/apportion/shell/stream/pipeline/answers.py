"""Answers: the output messages, with their headers, and the new session row of one record, without I/O."""

from collections.abc import Mapping
from contextlib import suppress
from time import perf_counter_ns

from msgspec import UNSET, Struct, to_builtins

from apportion.core.compose import Answered
from apportion.core.composer import TimelineComposer
from apportion.core.detail import in_detail
from apportion.core.engine import Engine
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Event
from apportion.core.memory import Memory
from apportion.core.policies.timeline import Timeline
from apportion.core.results import Phase, Run, Source
from apportion.core.session.row import EMPTY
from apportion.core.wire import codec
from apportion.core.wire.cloudevents import EventHeaders
from apportion.core.wire.dead_letter import dead_letter, holding
from apportion.core.wire.record import Record
from apportion.settings import Settings
from apportion.shell.kafka.output_ownership import source_of
from apportion.shell.kafka.producer import OutboundRecord
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES
from apportion.shell.stream.pipeline.verifier import ShareVerifier
from apportion.shell.stream.state.row_format import Row
from apportion.shell.stream.state.stream_time import StreamTime, event_of

VALUE_MAX_BYTES = MESSAGE_MAX_BYTES - (64 << 10)
"""Maximum size of a value; the rest of the message is left for its key and headers."""


class Answer(Struct, frozen=True):
    """The result of one event: the row that marks it as answered, and a request's messages."""

    row: Row
    outcome: Answered | None = None
    messages: tuple[OutboundRecord, ...] = ()
    took_s: float = 0.0


class Answers:
    """Answers or refuses records. The same record and row give the same bytes, except in `run`."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        timeline: Timeline,
        worker: str,
        verifier: ShareVerifier | None = None,
    ) -> None:
        """Start with an empty memory. A decision's `run` names the `worker`."""
        self._verifier = verifier
        self._settings = settings
        self._bounds = settings.bounds
        self._engine = engine
        self.memory = Memory(compositions_max_bytes=settings.compositions_max_bytes)
        self.use_policies(timeline)
        self._worker = worker
        self.name_schemas({})

    def name_schemas(self, headers: Mapping[str, tuple[str, bytes]]) -> None:
        """Add a header to all messages of each topic in `headers`; called before the first answer."""
        settings, source = self._settings, source_of(self._settings)

        def new_headers(topic: str, event_type: str) -> EventHeaders:
            more = (headers[topic],) if topic in headers else ()
            return EventHeaders(event_type, source, more, settings.reply_headers)

        self._composed_headers = new_headers(settings.composed_topic, "context-composed.v1")
        self._decision_headers = new_headers(settings.decisions_topic, "context-decision.v1")
        self._letter_headers = new_headers(settings.dead_letters_topic, "context-dead-letter.v1")

    def use_policies(self, timeline: Timeline) -> None:
        """Use these policies from now on; they include the earlier ones."""
        # Loading a counter holds the interpreter's lock, so it does not wait for the first event.
        self._engine.load_counters(timeline)
        default_policy = self._settings.default_policy
        self._composers = TimelineComposer(self._engine, timeline, default_policy, self.memory)

    def answer(self, record: Record, row: Row | None, time: StreamTime | None = None) -> Answer:
        """Return the answer to a record, and advance the stream time; raise EventError if it is refused."""
        clock = _Clock()
        event = self._event_of(record, time)
        clock.phase("decode")
        before = EMPTY if row is None else row.session
        session, outcome = self._composers.at(record.timestamp_ms).handle(event, before, clock.phase)
        row = Row(record.offset, session, record.timestamp_ms)
        if outcome is None:
            return Answer(row)
        detailed = in_detail(outcome.decision, self._settings.decision_detail)
        composed, decision = codec.encode(outcome.composed), codec.encode(detailed)
        for what, value in (("composed", composed), ("decision", decision)):
            if len(value) > VALUE_MAX_BYTES:  # brokers would refuse it, and the worker would fail forever
                size = f"{len(value)} bytes, over {VALUE_MAX_BYTES}"
                message = f"its {what} event would have {size}; send less at once"
                raise EventError(ErrorCode.TOO_LARGE, message)
        if self._verifier is not None and self._verifier.is_chosen(outcome.decision):
            digest = outcome.decision.policy.digest
            catalogue = self._composers.at(record.timestamp_ms).catalogue
            policy = next(policy for policy in catalogue if policy.digest == digest)
            self._verifier.offer(record, before, policy, decision, outcome.decision.decision_id)
        took_s = (perf_counter_ns() - clock.begun_ns) / 1e9
        messages = self._messages(record, outcome, composed, decision, clock)
        return Answer(row, outcome, messages, took_s)

    def _messages(
        self, record: Record, outcome: Answered, composed: bytes, decision: bytes, clock: "_Clock"
    ) -> tuple[OutboundRecord, ...]:
        assert outcome.decision.run is UNSET, "the core leaves it to the shell"
        run = Run(
            source=Source(topic=record.topic, partition=record.partition, offset=record.offset),
            worker=self._worker,
            phases=tuple(clock.phases),
            cache_hit=outcome.cache_hit,
        )
        decision = b'%b,"run":%b}' % (decision[:-1], codec.encode(run))
        identity, received = outcome.decision.decision_id, record.headers
        sent_time = str(to_builtins(outcome.decision.requested_at))
        composed_headers = self._composed_headers.build(f"{identity}-composed", received, sent_time)
        decision_headers = self._decision_headers.build(f"{identity}-decision", received, sent_time)
        key, partition, settings = record.key, record.partition, self._settings
        return (
            OutboundRecord(settings.composed_topic, partition, key, composed, composed_headers),
            OutboundRecord(settings.decisions_topic, partition, key, decision, decision_headers),
        )

    def pass_over(self, record: Record, time: StreamTime) -> None:
        """Advance stream time by a record that its row has already processed."""
        if time.is_bounded:
            with suppress(EventError):
                self._event_of(record, time)

    def _event_of(self, record: Record, time: StreamTime | None) -> Event:
        partitioner, partitions = self._settings.partitioner, self._settings.partitions
        return event_of(record, time, self._bounds, partitioner=partitioner, partitions=partitions)

    def refuse(self, record: Record, error: EventError) -> OutboundRecord:
        """Return the dead letter of a record. Its id is the record's topic, partition and offset."""
        letter = dead_letter(record, error, self._engine.version)
        letter = holding(letter, self._settings.dead_letter_value)
        headers = self._letter_headers.build(str(record), record.headers)
        topic = self._settings.dead_letters_topic
        return OutboundRecord(topic, record.partition, letter.key, codec.encode(letter), headers)


class _Clock:
    """Measures the phases of one event, for the decision's `run`."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        """The phases so far. A phase begins at the end of the previous phase."""
        self.begun_ns = self._end_ns = perf_counter_ns()

    def phase(self, name: str) -> None:
        """Record the end of a phase."""
        begin_ns, self._end_ns = self._end_ns, perf_counter_ns()
        self.phases.append(Phase(name, (self._end_ns - begin_ns) // 1_000))
