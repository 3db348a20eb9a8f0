"""Batches: everything that a run of a partition's records gives, composed at once, without I/O.

Decides where a batch ends: at a bound in records, bytes or time, or before an event that can be neither
answered nor refused. No event is cut. Never decides when a batch is written: the writer does.
"""

from collections.abc import Sequence
from time import monotonic, perf_counter, thread_time

from aiokafka.structs import ConsumerRecord
from msgspec import Struct, field

from apportion.core.errors import ErrorCode, EventError
from apportion.core.wire.record import Record
from apportion.shell.kafka.faults import StreamError
from apportion.shell.kafka.outbound import OutboundRecord
from apportion.shell.kafka.record_batches import record_of
from apportion.shell.operations.log import RefusalLog
from apportion.shell.operations.tally import BatchTally
from apportion.shell.stream.faults import EventFailedError, NotInTurnError
from apportion.shell.stream.pipeline.answers import Answer, Answers
from apportion.shell.stream.pipeline.breaker import DeadLetterShare, TenantOutcome, Window, tenant_of
from apportion.shell.stream.state.row_format import Row, StateRecord
from apportion.shell.stream.state.rows import PartitionRows, Upkeep

_FLUSH_EVENTS = 64
"""How many events are flushed at once: a processor does one thing again faster than many in turn."""


class BatchBounds(Struct, frozen=True):
    """Where a batch ends, whichever comes first; it has one event at least."""

    records: int = 1_000
    bytes: int = 1 << 20
    work_s: float = 0.02


class Batch(Struct):
    """What the events of a partition from `offset` to before `next_offset` give, in their order.

    One that `is_ahead` of events that wait has answers alone, and ends before an event that is to be refused.
    `before` are the rows that were held of each session that changed. `states` are the records that make
    durable what they are now, and those of the `upkeep`; the records of a session stand together. `failure`
    is why the batch ended before the event at `next_offset`, or behind it where that was refused: what is in
    the batch stands all the same. `outcomes` tell whose its events were and which were refused.
    `tally` is what it adds to the metrics; it took `work_s`, and was composed at `composed_s` of the clock
    that only goes forward.
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

    def undo(self, rows: PartitionRows) -> None:
        """Take back what the batch has changed in the rows; batches behind it were taken back before."""
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

    def remember(self, window: Window) -> None:
        """Count what was seen of a partition before it came here."""
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
        """Return what the records from `start` on give; `batch.events` tells how many of them were taken.

        The rows hold what it changes from now on. The event at the offset `set_aside` is refused untried.
        Where the batch `is_ahead`, events before it wait.
        """
        first, began_s = records[start], monotonic()
        batch = Batch(first.partition, first.offset, first.offset, 0, {}, {}, [], 0)
        batch.is_ahead = is_ahead
        batch.stream_time_before_us = rows.time.seen_us
        bounds = self._bounds
        work = _Work(bounds.work_s)
        pending = _Pending()
        last = min(len(records), start + bounds.records)
        for index in range(start, last):
            read = records[index]
            self._take(batch, rows, pending, read, set_aside=read.offset == set_aside)
            if len(pending.records) >= _FLUSH_EVENTS:
                self._flush(batch, pending)
            if batch.failure or batch.size_bytes >= bounds.bytes or work.is_done:
                break
        self._flush(batch, pending)
        batch.states = rows.changes(batch.before)
        batch.upkeep = rows.upkeep()
        batch.states += batch.upkeep.groups
        batch.size_bytes += sum([len(value or b"") for state in batch.states for _, value, _ in state])
        batch.stream_time_us = rows.time.seen_us
        taken = records[start : start + batch.events]
        batch.tally.recorded_ms = [ms for record in taken if (ms := record.timestamp) is not None and ms >= 0]
        batch.composed_s = monotonic()
        batch.work_s = batch.composed_s - began_s
        return batch

    def keep_up(self, rows: PartitionRows, partition: int, offset: int, stream_time_us: int) -> Batch:
        """Return a batch without events: repairs of the changelog alone, which no event brings.

        `offset` and `stream_time_us` are those of the batch before, and stay what may be committed.
        """
        batch = Batch(partition, offset, offset, 0, {}, {}, [], 0)
        batch.stream_time_us, batch.stream_time_before_us = stream_time_us, rows.time.seen_us
        batch.upkeep = rows.upkeep()
        batch.states = batch.upkeep.groups
        batch.size_bytes = sum([len(value or b"") for state in batch.states for _, value, _ in state])
        batch.composed_s = monotonic()
        return batch

    def _take(
        self, batch: Batch, rows: PartitionRows, pending: "_Pending", read: ConsumerRecord, *, set_aside: bool
    ) -> None:
        """Take an event into a batch, or say there why not."""
        record = record_of(read)
        try:
            self._answer(batch, rows, pending, record, set_aside=set_aside)
        except EventError as error:  # kept no longer than here: it holds this frame, and all that was fetched
            if batch.is_ahead:
                batch.failure = NotInTurnError(record)
                return
            self._flush(batch, pending)
            self._refuse(batch, record, error)
        except StreamError as error:
            batch.failure = error
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, going on would lose the event
            batch.failure = EventFailedError(record, error)
            return
        else:
            pending.records.append(record)
        batch.events += 1
        batch.next_offset = record.offset + 1

    def _answer(
        self, batch: Batch, rows: PartitionRows, pending: "_Pending", record: Record, *, set_aside: bool
    ) -> None:
        """Hold the row that an event leads to, and the answer; pass it over if its row has seen it.

        Raises:
            EventError: it is refused; nothing has happened.
        """
        key = record.key
        row = rows.row(key) if key else None
        if row is not None and row.seen_offset >= record.offset:
            self._answers.pass_over(record, rows.time)
            return
        if set_aside:
            message = "the worker has ended at this event as often as event_failures_max says"
            raise EventError(ErrorCode.EVENT_FAILED, message)
        answer = self._answers.answer(record, row, rows.time)
        assert key is not None, "only a record under its session's key is answered"
        batch.before.setdefault(key, row)
        rows.hold(key, answer.row)
        pending.answers.append(answer)
        batch.size_bytes += len(answer.composed) + len(answer.decision)

    def _flush(self, batch: Batch, pending: "_Pending") -> None:
        """Put what the last events give into the batch: one thing for all of them, then the next."""
        for answer in pending.answers:
            for message in self._answers.messages(answer):
                batch.messages.setdefault(message.topic, []).append(message)
        batch.tally.answered(
            [(answer.outcome, answer.took_s) for answer in pending.answers if answer.outcome]
        )
        tenants = [tenant_of(record, None) for record in pending.records]
        batch.outcomes += [(tenant, False) for tenant in tenants]
        self._share.answered(tenants)
        pending.clear()

    def _refuse(self, batch: Batch, record: Record, error: EventError) -> None:
        """Put the dead letter of an event into the batch; one too many ends it behind that event."""
        letter = self._answers.refuse(record, error)
        batch.messages.setdefault(letter.topic, []).append(letter)
        batch.size_bytes += len(letter.value)
        self._refusals.tell(error.code, str(record))
        batch.tally.refused[error.code] += 1
        tenant = tenant_of(record, error.code)
        batch.outcomes.append((self._share.name_of(tenant), True))
        try:
            self._share.refused(tenant)
        except StreamError as failure:
            batch.failure = failure


class _Work:
    """How long a batch is being composed: time of this thread, so that a busy machine makes none smaller."""

    def __init__(self, work_s: float) -> None:
        self._until_s = thread_time() + work_s
        self._look_s = perf_counter() + work_s

    @property
    def is_done(self) -> bool:
        """Whether it has been long enough; the thread's clock is dear, and asked when that is over."""
        now_s = perf_counter()
        if now_s < self._look_s:
            return False
        left_s = self._until_s - thread_time()
        self._look_s = now_s + left_s
        return left_s <= 0


class _Pending:
    """Events of a batch that are answered, or passed over, and not yet flushed: records and answers."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.answers: list[Answer] = []

    def clear(self) -> None:
        """Remove them: they are flushed."""
        self.records.clear()
        self.answers.clear()
