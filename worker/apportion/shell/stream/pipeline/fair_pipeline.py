"""The pipeline where tenants have limits: what was fetched waits, and is answered by turns.

Decides what may go ahead of events that wait: answers alone. Their rows say that they are answered, so after
a crash they are passed over, like any that stand behind the committed offset: that of the first event that
waits. What is refused leaves no such trace, and has its turn in the order of offsets.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiokafka.structs import ConsumerRecord
from msgspec import Struct

from apportion.shell.stream.faults import EventFailedError, NotInTurnError
from apportion.shell.stream.pipeline.flow import Flow
from apportion.shell.stream.pipeline.pipeline import IN_FLIGHT_MAX_BYTES, Pipeline
from apportion.shell.stream.pipeline.tenants import TenantQueue
from apportion.shell.stream.state.row_format import seen_offset_of
from apportion.shell.stream.state.rows import PartitionRows

_WAIT_MIN_S = 0.001
_ALONE_WAIT_S = 0.02
"""How long until the event whose turn it is, and no other may go ahead, is looked at again."""

QueueOf = Callable[[Callable[[ConsumerRecord], bool]], TenantQueue]
"""Makes a queue, given what tells of an event whether its row has seen it."""


class _WaitingEvents(Struct):
    """Events of a partition that wait, and when some of them are composed next.

    `is_due`: as soon as there is room; else when the timer `later` ends, or more is fetched. `shares` are
    what is left to events that go ahead, after events were picked in turn.
    """

    queue: TenantQueue
    shares: dict[bytes, int] | None = None
    is_due: bool = False
    later: asyncio.TimerHandle | None = None

    def pick(self, *, alone: bool) -> tuple[list[ConsumerRecord], bool]:
        """Return what is composed next, and whether it goes ahead, as it does each second time.

        `alone`: the event whose turn it is, or nothing while its tenant has had its share.
        """
        shares, self.shares = self.shares, None
        if alone:
            return self.queue.in_turn(self.queue.shares())[:1], False
        if shares is None:
            shares = self.queue.shares()
            if records := self.queue.in_turn(shares):
                self.shares = shares
                return records, False
        return self.queue.ahead(shares), True


class FairPipeline(Pipeline):
    """All partitions of this worker, each with a queue."""

    def __init__(self, *, new_queue: QueueOf, **options: Any) -> None:
        """Start without partitions; the options are those of any pipeline."""
        super().__init__(**options)
        self._new_queue = new_queue
        self._waiting: dict[int, _WaitingEvents] = {}

    @property
    def waiting(self) -> Mapping[int, tuple[int, int]]:
        """How many fetched events of each partition wait for turns, and their bytes."""
        return {
            partition: (len(events.queue), events.queue.size_bytes)
            for partition, events in self._waiting.items()
        }

    def begin(self, partition: int, rows: PartitionRows, offset: int | None, metadata: str = "") -> None:
        """Let a partition flow, with nothing that waits."""
        super().begin(partition, rows, offset, metadata)

        def is_seen(record: ConsumerRecord) -> bool:
            row = rows.values.get(record.key or b"")
            return row is not None and seen_offset_of(row) >= record.offset

        self._waiting[partition] = _WaitingEvents(self._new_queue(is_seen))

    def has_room(self, partition: int) -> bool:
        """Return whether events of a partition may be fetched: also while others of it wait."""
        flow = self.flows.get(partition)
        if flow is None or flow.is_over or self._waiting[partition].queue.is_full:
            return False
        return self.in_flight_bytes < IN_FLIGHT_MAX_BYTES

    def fetched(self, partition: int, records: Sequence[ConsumerRecord]) -> None:
        """Let the records of a fetch wait for their turns."""
        self.flows[partition].begin(records)
        waiting = self._waiting[partition]
        waiting.queue.add(records)
        self._make_due(waiting)

    def _make_due(self, waiting: _WaitingEvents) -> None:
        """Have some of a partition's events composed as soon as there is room."""
        if waiting.later is not None:
            waiting.later.cancel()
            waiting.later = None
        waiting.is_due = True
        self._woken.set()

    async def _compose(self, flow: Flow) -> None:
        """Compose some of what waits: events whose turn it is, or, the next time, some that go ahead."""
        waiting = self._waiting[flow.partition]
        if not waiting.is_due or flow.is_full or not await self._may_compose(flow):
            return
        waiting.is_due = False
        records, is_ahead = waiting.pick(alone=flow.is_alone)
        if records:
            self._compose_picked(flow, waiting.queue, records, is_ahead=is_ahead)
        await asyncio.sleep(0)
        if waiting.queue and not (waiting.is_due or flow.is_over):
            self._plan(flow, waiting)

    def _compose_picked(
        self, flow: Flow, queue: TenantQueue, records: Sequence[ConsumerRecord], *, is_ahead: bool
    ) -> None:
        """Compose events that were picked, as far as a batch goes."""
        set_aside = None if is_ahead else flow.set_aside
        batch = self._composer.compose(flow.rows, records, 0, set_aside, is_ahead=is_ahead)
        if not self._membership.is_held:
            batch.undo(flow.rows)
            return
        queue.taken(records[: batch.events])
        flow.waiting -= batch.events
        batch.next_offset = queue.next_offset
        batch.stream_time_us = 0  # that of the offset is not known: what went ahead has moved it
        if batch.events or batch.states:
            self.composed(flow, batch)
        if is_ahead and isinstance(batch.failure, NotInTurnError | EventFailedError):
            queue.hold_back(records[batch.events])
        else:
            self.require_whole(flow, batch)

    def _plan(self, flow: Flow, waiting: _WaitingEvents) -> None:
        """Have more of a partition's events composed: at once, or when a tenant may have more."""
        wait_s = _ALONE_WAIT_S if flow.is_alone and not flow.in_flight else waiting.queue.wait_s()
        if wait_s:
            loop = asyncio.get_running_loop()
            waiting.later = loop.call_later(max(_WAIT_MIN_S, wait_s), self._make_due, waiting)
        else:
            self._make_due(waiting)

    def abandon(self) -> None:
        """Stop the work on all partitions; what waits comes again."""
        for waiting in self._waiting.values():
            if waiting.later is not None:
                waiting.later.cancel()
        super().abandon()

    def end(self) -> None:
        """Forget all partitions, and what waits of them."""
        super().end()
        self._waiting.clear()
