"""Batches: the composed results of some records of one partition, without I/O.

A batch ends at a bound in records, bytes or time, or before an event that can be neither answered nor
refused. An event is never split. The writer decides when a batch is written.
"""

from collections.abc import Sequence
from time import monotonic, thread_time

from aiokafka.structs import ConsumerRecord
from msgspec import UNSET, Struct, field

from apportion.core.errors import ErrorCode, EventError
from apportion.core.wire.record import Record
from apportion.shell.kafka.faults import StreamError
from apportion.shell.kafka.producer import OutboundRecord
from apportion.shell.kafka.record_batches import record_of
from apportion.shell.operations.log import MismatchLog, RefusalLog
from apportion.shell.operations.tally import BatchTally
from apportion.shell.stream.faults import EventFailedError, NotInTurnError
from apportion.shell.stream.pipeline.answers import Answers
from apportion.shell.stream.pipeline.breaker import DeadLetterShare, TenantOutcome, Window, tenant_of
from apportion.shell.stream.state.row_format import Row, StateRecord
from apportion.shell.stream.state.rows import PartitionRows, Upkeep


class BatchBounds(Struct, frozen=True):
    """Limits of a batch in events, output bytes and CPU seconds; a batch has at least one event."""

    records: int = 1_000
    bytes: int = 1 << 20
    work_s: float = 0.02


class Batch(Struct):
    """Results of a partition's events, in their order.

    Attributes:
        next_offset: Offset after the last event. A `TurnQueue` replaces it by the first waiting event's.
        messages: Outputs by topic.
        before: For each changed session, its row before the batch; None: it had none.
        states: Changelog records of the changed sessions and of the `upkeep`, grouped by session.
        size_bytes: Bytes of the values of all records.
        failure: Why the batch ended early; the batch itself is valid. Set by the event after the batch, or by
            its last event if too many were refused.
        stream_time_us: Stream time after the batch; 0 with a `TurnQueue`.
        outcomes: For each event, its tenant's name in the dead letter share, and whether it was refused.
        composed_s: Monotonic time at which the composition ended.
        is_ahead: True if older events still wait. The batch then has answers only, and stops before an event
            that would be refused.
    """

    partition: int
    offset: int
    next_offset: int
    events: int
    messages: dict[str, list[OutboundRecord]]
    before: dict[bytes, Row | None]
    states: list[list[StateRecord]]
    size_bytes: int
    failure: Exception | None = None
    stream_time_us: int = 0
    stream_time_before_us: int = 0
    outcomes: list[TenantOutcome] = []
    tally: BatchTally = field(default_factory=BatchTally)
    work_s: float = 0.0
    composed_s: float = 0.0
    is_ahead: bool = False
    upkeep: Upkeep = field(default_factory=Upkeep)

    def add(self, message: OutboundRecord) -> None:
        """Add an output."""
        self.messages.setdefault(message.topic, []).append(message)
        self.size_bytes += len(message.value)

    def undo(self, rows: PartitionRows) -> None:
        """Restore the rows and the stream time from before the batch, after all later batches were undone."""
        rows.undo(self.upkeep)
        rows.restore(self.before)
        rows.time.seen_us = self.stream_time_before_us


class BatchComposer:
    """Answers or refuses records, one after another."""

    def __init__(self, answers: Answers, share: DeadLetterShare, bounds: BatchBounds) -> None:
        self._answers = answers
        self._share = share
        self._bounds = bounds
        self._refusals = RefusalLog()
        self._mismatches = MismatchLog()

    def remember(self, window: Window) -> None:
        """Count the events of a partition's committed window, which a previous owner has processed."""
        self._share.restore(window)

    def compose(
        self,
        rows: PartitionRows,
        records: Sequence[ConsumerRecord],
        start: int,
        set_aside: int | None = None,
        *,
        is_ahead: bool = False,
    ) -> Batch:
        """Return a batch from index `start` on, applied to the rows; refuse the event at `set_aside`."""
        first, began_s = records[start], monotonic()
        batch = Batch(first.partition, first.offset, first.offset, 0, {}, {}, [], 0)
        batch.is_ahead = is_ahead
        batch.stream_time_before_us = rows.time.seen_us
        bounds = self._bounds
        until_s = thread_time() + bounds.work_s  # of CPU time: a busy machine does not make batches smaller
        for read in records[start : start + bounds.records]:
            self._take(batch, rows, record_of(read), set_aside=read.offset == set_aside)
            if batch.failure or batch.size_bytes >= bounds.bytes or thread_time() >= until_s:
                break
        batch.stream_time_us = rows.time.seen_us
        taken = records[start : start + batch.events]
        batch.tally.recorded_ms = [ms for record in taken if (ms := record.timestamp) is not None and ms >= 0]
        self._close(batch, rows)
        batch.work_s = batch.composed_s - began_s
        return batch

    def compose_repairs(self, rows: PartitionRows, partition: int, offset: int, stream_time_us: int) -> Batch:
        """Return a batch of changelog repairs only; the offset and time are the previous batch's."""
        batch = Batch(partition, offset, offset, 0, {}, {}, [], 0)
        batch.stream_time_us, batch.stream_time_before_us = stream_time_us, rows.time.seen_us
        self._close(batch, rows)
        return batch

    def _close(self, batch: Batch, rows: PartitionRows) -> None:
        states = rows.changes(batch.before)
        batch.upkeep = rows.upkeep()
        batch.states = [*states, *batch.upkeep.groups]
        batch.size_bytes += sum([len(value or b"") for state in batch.states for _, value, _ in state])
        batch.composed_s = monotonic()

    def _take(self, batch: Batch, rows: PartitionRows, record: Record, *, set_aside: bool) -> None:
        try:
            self._answer(batch, rows, record, set_aside=set_aside)
        except EventError as error:  # not kept: its traceback would hold this frame and all fetched records
            if batch.is_ahead:
                batch.failure = NotInTurnError(record)
                return
            self._refuse(batch, record, error)
        except StreamError as error:
            batch.failure = error
            return
        except Exception as error:  # noqa: BLE001 - continuing after any error would lose the event
            batch.failure = EventFailedError(record, error)
            return
        else:
            tenant = tenant_of(record, None)
            batch.outcomes.append((tenant, False))
            self._share.answered(tenant)
        batch.events += 1
        batch.next_offset = record.offset + 1

    def _answer(self, batch: Batch, rows: PartitionRows, record: Record, *, set_aside: bool) -> None:
        """Store an event's answer and new row, unless the row has processed it; raise EventError."""
        key = record.key
        row = rows.row(key) if key else None
        if row is not None and row.seen_offset >= record.offset:
            self._answers.pass_over(record, rows.time)
            return
        if set_aside:
            why = "the worker has ended at this event as often as event_failures_max says"
            raise EventError(ErrorCode.EVENT_FAILED, why)
        answer = self._answers.answer(record, row, rows.time)
        assert key is not None, "only a record under its session's key is answered"
        batch.before.setdefault(key, row)
        rows.hold(key, answer.row)
        if answer.outcome is not None:
            batch.tally.answered(answer.outcome, answer.took_s)
            decision = answer.outcome.decision
            if decision.counter_mismatch:
                model = "" if decision.model is UNSET else decision.model.name
                self._mismatches.tell(decision.policy.name, decision.counter.name, model)
        for message in answer.messages:
            batch.add(message)

    def _refuse(self, batch: Batch, record: Record, error: EventError) -> None:
        """Put the dead letter of an event into the batch; too many dead letters end the batch."""
        letter = self._answers.refuse(record, error)
        batch.add(letter)
        self._refusals.tell(error.code, str(record))
        batch.tally.refused[error.code] += 1
        tenant = tenant_of(record, error.code)
        batch.outcomes.append((self._share.name_of(tenant), True))
        try:
            self._share.refused(tenant)
        except StreamError as failure:
            batch.failure = failure
