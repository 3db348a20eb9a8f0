"""The path of all partitions' events, from the requests topic to the offsets that may be committed.

`Pipeline.run` is one loop: it reads, composes, and hands batches to the writer. The pipeline limits the
batches in flight, and abandons them if a partition is revoked or the worker stops. The next offset to commit
is the `next_offset` of the last durable batch. This module uses neither Faust nor the group.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from aiokafka.errors import MessageSizeTooLargeError, RecordListTooLargeError
from aiokafka.structs import ConsumerRecord

from apportion.shell.kafka.commit_metadata import CommitMetadata, decode_metadata, encode_metadata
from apportion.shell.kafka.faults import StreamError
from apportion.shell.kafka.policies_topic import PolicyReader
from apportion.shell.kafka.reader import RequestReader
from apportion.shell.stream.faults import EventFailedError, NotDurableError
from apportion.shell.stream.pipeline.batch import Batch, BatchComposer
from apportion.shell.stream.pipeline.flow import Flow
from apportion.shell.stream.pipeline.membership import Membership
from apportion.shell.stream.pipeline.queues import NewQueue
from apportion.shell.stream.pipeline.writer import Writer, Writing
from apportion.shell.stream.state.rows import PartitionRows

IN_FLIGHT_MAX_BYTES = 64 << 20
"""Limit for all partitions together; one batch may exceed it."""
_READ_TIMEOUT_S = 0.2
"""Time that a read waits for records. A rebalance may wait as long for the read."""
_FULL_TIMEOUT_S = 0.005
"""Wait of a read for records if it leaves out a full partition, which may soon have room."""
_AGAIN_S = 0.05
"""Pause before the retry of a commit that a rebalancing group refused."""


class Pipeline:
    """Reads, composes and writes the events of all partitions of this worker.

    Attributes:
        flows: The partitions, by number. They stay after `abandon`, until `end`.
        position_lock: Held during a read, and by a caller that moves the reader's positions: otherwise
            records of an earlier read would be taken for records at the new position.
    """

    def __init__(  # noqa: PLR0913 - they are the parts of a pipeline
        self,
        *,
        topic: str,
        reader: RequestReader,
        composer: BatchComposer,
        writer: Writer,
        membership: Membership,
        policies: PolicyReader,
        commit: Callable[[], Awaitable[bool]],
        durable: Callable[[Batch], None],
        failed: Callable[[Exception], None],
        new_queue: NewQueue,
        linger_s: float = 0.0,
        event_failures_max: int = 0,
    ) -> None:
        """Start without partitions; `topic` is the requests topic.

        `commit` commits the `committable` offsets, and returns whether the group accepted them. `durable` is
        called with each durable batch. `failed` is called with the reason if a batch cannot be written; its
        partition then writes no more. `linger_s`: pause between reads. `event_failures_max`: see `Flow`.
        """
        self._topic = topic
        self._reader = reader
        self._composer = composer
        self._writer = writer
        self._membership = membership
        self._policies = policies
        self._commit = commit
        self._durable = durable
        self._failed = failed
        self._new_queue = new_queue
        self._linger_s = linger_s
        self._event_failures_max = event_failures_max
        self._seen: set[int] = set()
        self.flows: dict[int, Flow] = {}
        self.in_flight_bytes = 0
        self._woken = asyncio.Event()
        """Set when there may be something to read or to compose."""
        self.position_lock = asyncio.Lock()

    @property
    def in_flight(self) -> int:
        """Number of batches that are being written."""
        return sum(len(flow.in_flight) for flow in self.flows.values())

    @property
    def waiting(self) -> Mapping[int, tuple[int, int]]:
        """Number and bytes of the events that wait for turns, by partition; empty without tenant limits."""
        return {
            partition: (flow.waiting, size_bytes)
            for partition, flow in self.flows.items()
            if (size_bytes := flow.queue.size_bytes) is not None
        }

    def begin(self, partition: int, rows: PartitionRows, offset: int | None, metadata: str = "") -> None:
        """Begin a partition at its committed offset, with the metadata of that commit; None: no commit."""
        assert partition not in self.flows, "a flow ends before it begins again"
        known = decode_metadata(metadata)
        rows.time.begin(known.stream_time_us)
        queue = self._new_queue(rows, self._woken.set)
        flow = self.flows[partition] = Flow(partition, rows, offset, known, queue, self._event_failures_max)
        if partition not in self._seen:  # this worker's own events are counted already
            self._seen.add(partition)
            self._composer.remember(flow.window)
        self._woken.set()

    def has_room(self, partition: int) -> bool:
        """Return whether events of a partition may be fetched."""
        flow = self.flows.get(partition)
        if flow is None or flow.is_over or not flow.queue.has_room(is_writing_full=flow.is_full):
            return False
        return self.in_flight_bytes < IN_FLIGHT_MAX_BYTES

    async def run(self) -> None:
        """Read, compose, and hand batches to the writer, until cancelled.

        Raises:
            StreamError, PoliciesUnreadError: an event was neither answered nor refused, or too many were
                refused. Earlier events are being written.
            OffsetOutOfRangeError: the next offset to read is not in its topic.
        """
        reading: asyncio.Task[None] | None = None
        try:
            while True:
                self._woken.clear()
                await self.compose_waiting()
                if reading is None and any(map(self.has_room, self.flows)):
                    reading = asyncio.create_task(self._read())
                    reading.add_done_callback(lambda _: self._woken.set())
                await self._woken.wait()
                if reading is not None and reading.done():
                    reading.result()
                    reading = None
        finally:
            if reading is not None:
                reading.cancel()

    async def _read(self) -> None:
        """Read once, from all partitions that have room; records of revoked ones are dropped."""
        async with self.position_lock:
            partitions = [partition for partition in self.flows if self.has_room(partition)]
            if not partitions:
                return
            within_s = _FULL_TIMEOUT_S if len(partitions) < len(self.flows) else _READ_TIMEOUT_S
            read = await self._reader.read(partitions, within_s)
            for partition, records in read.items():
                flow = self.flows.get(partition)
                if flow is not None and not flow.is_over:
                    self.fetched(partition, records)
        if self._linger_s:
            await asyncio.sleep(self._linger_s)

    def fetched(self, partition: int, records: Sequence[ConsumerRecord]) -> None:
        """Queue the records of a fetch."""
        self.flows[partition].add_records(records)
        self._woken.set()

    async def compose_waiting(self) -> None:
        """Compose waiting events of each partition while it has room; raises the errors of `run`."""
        for flow in list(self.flows.values()):
            if not flow.is_over:
                await self._compose(flow)

    async def _compose(self, flow: Flow) -> None:
        while flow.queue.is_due and not flow.is_full:
            await self.wait_until_marked(flow)
            await self._policies.current()
            await self._membership.held()
            if flow.is_over:
                return
            self._compose_next(flow)
            await asyncio.sleep(0)
            if flow.is_over or not flow.queue.plan(is_alone=flow.is_alone and not flow.in_flight):
                return

    def _compose_next(self, flow: Flow) -> None:
        picked = flow.queue.pick(is_alone=flow.is_alone)
        if not picked.records:
            return
        set_aside = None if picked.is_ahead else flow.set_aside
        batch = self._composer.compose(
            flow.rows, picked.records, picked.start, set_aside, is_ahead=picked.is_ahead
        )
        if not self._membership.is_held:
            batch.undo(flow.rows)
            return
        flow.queue.take(picked, batch)
        if batch.events or (batch.is_ahead and batch.states):
            self.hand_over(flow, batch)
        if batch.failure is not None:
            if isinstance(batch.failure, EventFailedError):
                flow.failed_offset = batch.failure.offset
            raise batch.failure

    async def wait_until_marked(self, flow: Flow) -> None:
        """Wait until the in-progress marker is committed or the partition is revoked."""
        while not (flow.is_marked or flow.is_over):
            if not await self._commit() and not flow.is_marked:
                await asyncio.sleep(_AGAIN_S)

    def hand_over(self, flow: Flow, batch: Batch) -> None:
        """Hand a batch to the writer, and start the partition's writing task if there is none."""
        writing = Writing(batch, flow.rows, flow.commit_after)
        self._writer.begin(writing)
        flow.in_flight.append(writing)
        self.in_flight_bytes += batch.size_bytes
        if flow.writing is None:
            flow.writing = asyncio.create_task(self._write(flow))

    def write_repairs(self, flow: Flow) -> None:
        """Write repairs of a partition's changelog, unless batches are in flight: the next has them."""
        offset = flow.durable_offset
        if flow.is_over or flow.in_flight or flow.failed_offset is not None or offset is None:
            return
        if flow.rows.has_repairs and self._membership.is_held:
            stream_time_us = flow.metadata.stream_time_us
            repairs = self._composer.compose_repairs(flow.rows, flow.partition, offset, stream_time_us)
            self.hand_over(flow, repairs)

    async def _write(self, flow: Flow) -> None:
        """Write a partition's batches one after another, until none is left or one cannot be written."""
        while flow.in_flight:
            writing = flow.in_flight[0]
            batch = writing.batch
            try:
                if flow.is_alone:
                    await self.wait_until_marked(flow)
                flow.may_move = self._writer.moves_offsets
                await self._writer.finish(writing)
            except StreamError as error:
                self._failed(error)
                return
            except Exception as error:  # noqa: BLE001 - continuing after any error would lose the batch
                if isinstance(error, MessageSizeTooLargeError | RecordListTooLargeError):
                    flow.record_too_large(batch)
                self._failed(NotDurableError(self._topic, flow.partition, batch.offset, error))
                return
            flow.may_move = False
            flow.in_flight.popleft()
            self.in_flight_bytes -= batch.size_bytes
            flow.record_durable(batch)
            self._durable(batch)
            if writing.is_committed:
                flow.record_commit(batch.next_offset, CommitMetadata(stream_time_us=batch.stream_time_us))
            self._woken.set()  # the partition has room again
        flow.writing = None

    def committable(self) -> Mapping[int, tuple[int, str]]:
        """Return the new offsets to commit now by partition, with their encoded metadata."""
        offsets: dict[int, tuple[int, str]] = {}
        for partition, flow in self.flows.items():
            if (commit := flow.next_commit()) is not None:
                offset, metadata = commit
                offsets[partition] = offset, encode_metadata(metadata)
        return offsets

    def record_commits(self, offsets: Mapping[int, int]) -> None:
        """Record that the offsets of the last `committable` are committed."""
        for partition, offset in offsets.items():
            if flow := self.flows.get(partition):
                flow.record_commit(offset, flow.committing)

    def abandon(self) -> None:
        """Stop the work on all partitions before a revocation. Durable batches may still be committed."""
        for flow in self.flows.values():
            flow.is_over = True
            flow.queue.close()
            if flow.writing is not None:
                flow.writing.cancel()
                flow.writing = None
            if flow.in_flight and flow.failed_offset != flow.in_flight[0].batch.offset:
                flow.failed_offset = None
            while flow.in_flight:
                writing = flow.in_flight.pop()
                self._writer.abandon(writing)
                writing.batch.undo(flow.rows)
                self.in_flight_bytes -= writing.batch.size_bytes

    def end(self) -> None:
        """Remove all partitions, after `abandon`."""
        self.flows.clear()

    async def finish(self, within_s: float) -> None:
        """Compose nothing more, wait up to `within_s` for the batches in flight, and abandon the rest."""
        writing = [flow.writing for flow in self.flows.values() if flow.writing is not None]
        for flow in self.flows.values():
            flow.is_over = True
        if writing:
            await asyncio.wait(writing, timeout=within_s)
        self.abandon()
