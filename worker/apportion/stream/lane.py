"""The way of a partition's events, from what was fetched to what may be committed.

Decides how many batches are under way, what becomes of them when a partition is taken away or the worker
stops, and which offset may be committed: the one behind the last batch of which all is durable. Knows neither
Faust nor the group.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from aiokafka.structs import ConsumerRecord
from msgspec import Struct

from apportion.stream.batch import Batch, BatchComposer
from apportion.stream.commit_metadata import NOTHING_KNOWN, CommitMetadata, decode_metadata, encode_metadata
from apportion.stream.faults import EventLostError, NotDurableError
from apportion.stream.membership import Membership
from apportion.stream.policies import PolicyReader
from apportion.stream.rows import PartitionRows
from apportion.stream.writer import Writer, Writing

IN_FLIGHT_MAX = 4
"""Batches of a partition that are being written at once."""
IN_FLIGHT_MAX_BYTES = 64 << 20
"""Of all partitions; one batch may go over it."""


class Flow:
    """A partition while its events flow: from the offset that was committed, until it is taken away."""

    def __init__(self, partition: int, rows: PartitionRows, offset: int | None) -> None:
        """Begin at the committed offset; None: nothing is committed."""
        self.partition = partition
        self.rows = rows
        self.committed_offset = offset
        self.durable_offset = offset
        self.metadata = self.committing = NOTHING_KNOWN
        self.in_flight: deque[Writing] = deque()
        self.waiting: Fetched | None = None
        self.handed_over = 0
        self.taken = 0
        self.writing: asyncio.Task[None] | None = None
        self.is_over = False

    @property
    def is_full(self) -> bool:
        """Whether as many batches are in flight as may be."""
        return len(self.in_flight) >= IN_FLIGHT_MAX

    @property
    def is_busy(self) -> bool:
        """Whether events that were fetched have not all been composed yet."""
        return self.handed_over > self.taken or self.is_full


class Fetched(Struct):
    """What a fetch brought of a partition; `number` counts them, `taken` how many records are composed."""

    flow: Flow
    number: int
    records: Sequence[ConsumerRecord]
    taken: int = 0


class Lane:
    """All partitions of this worker whose events flow."""

    def __init__(
        self,
        topic: str,
        composer: BatchComposer,
        writer: Writer,
        membership: Membership,
        policies: PolicyReader,
    ) -> None:
        """Begin without any; `topic` is that of the requests."""
        self._topic = topic
        self._composer = composer
        self._writer = writer
        self._membership = membership
        self._policies = policies
        self._flows: dict[int, Flow] = {}
        self._in_flight_bytes = 0
        self.deliver: Callable[[Fetched], None] = lambda _: None
        """Brings to the agent what was fetched, in order."""
        self.failed: Callable[[Exception], None] = lambda _: None
        """Is told why a batch could not be written; nothing after it is."""

    @property
    def in_flight(self) -> int:
        """How many batches are being written."""
        return sum(len(flow.in_flight) for flow in self._flows.values())

    def begin(self, partition: int, rows: PartitionRows, offset: int | None, metadata: str = "") -> None:
        """Let a partition flow from its committed offset on; None: from its beginning.

        `metadata` are those that were committed with it.
        """
        assert partition not in self._flows, "a flow ends before it begins again"
        rows.time.begin(decode_metadata(metadata).stream_time_us)
        self._flows[partition] = Flow(partition, rows, offset)

    def has_room(self, partition: int) -> bool:
        """Return whether events of a partition may be fetched."""
        flow = self._flows.get(partition)
        if flow is None or flow.is_over or flow.is_busy:
            return False
        return self._in_flight_bytes < IN_FLIGHT_MAX_BYTES

    def fetched(self, partition: int, records: Sequence[ConsumerRecord]) -> None:
        """Take what a fetch brought of a partition that flows."""
        flow = self._flows[partition]
        flow.handed_over += 1
        self.deliver(Fetched(flow, flow.handed_over, records))

    async def answer(self, fetched: Fetched) -> None:
        """Compose what was fetched, and let it be written, as far as there is room; the rest comes again.

        Raises:
            StreamError, PoliciesUnreadError: an event was neither answered nor refused, or too many were
                refused. What was before it is being written.
        """
        flow = fetched.flow
        records = fetched.records
        if flow.is_over:
            return
        if fetched.number != flow.taken + 1:
            raise EventLostError(records[0].topic, flow.partition, records[0].offset)
        while fetched.taken < len(records):
            if flow.is_full:
                flow.waiting = fetched
                return
            await self._policies.current()
            await self._membership.held()
            if flow.is_over:
                return
            batch = self._composer.compose(flow.rows, records, fetched.taken)
            if not self._membership.is_held:
                batch.undo(flow.rows)
                continue
            fetched.taken += batch.events
            if batch.events:
                self.composed(flow, batch)
            if batch.failure is not None:
                raise batch.failure
            await asyncio.sleep(0)
        flow.taken += 1

    def composed(self, flow: Flow, batch: Batch) -> None:
        """Let a batch be written."""
        writing = Writing(batch, flow.rows)
        self._writer.begin(writing)
        flow.in_flight.append(writing)
        self._in_flight_bytes += batch.size_bytes
        if flow.writing is None:
            flow.writing = asyncio.create_task(self._write(flow))

    async def _write(self, flow: Flow) -> None:
        """Write a partition's batches one after another, until there is none."""
        while flow.in_flight:
            writing = flow.in_flight[0]
            batch = writing.batch
            try:
                await self._writer.finish(writing)
            except Exception as error:  # noqa: BLE001 - whatever it is, going on would lose what it gave
                self.failed(NotDurableError(self._topic, flow.partition, batch.offset, error))
                return
            flow.in_flight.popleft()
            self._in_flight_bytes -= batch.size_bytes
            flow.durable_offset = batch.next_offset
            flow.metadata = CommitMetadata(
                stream_time_us=batch.stream_time_us,
                changelog_end_offset=flow.rows.changelog_end,
            )
            if flow.waiting is not None and not flow.is_over:
                waiting, flow.waiting = flow.waiting, None
                self.deliver(waiting)
        flow.writing = None

    def committable(self) -> Mapping[int, tuple[int, str]]:
        """Return the offsets that may be committed and are not yet, each with its metadata."""
        offsets: dict[int, tuple[int, str]] = {}
        for partition, flow in self._flows.items():
            if flow.durable_offset is not None and flow.durable_offset != flow.committed_offset:
                flow.committing = flow.metadata
                offsets[partition] = (flow.durable_offset, encode_metadata(flow.metadata))
        return offsets

    def committed(self, offsets: Mapping[int, int]) -> None:
        """Count offsets as committed."""
        for partition, offset in offsets.items():
            if flow := self._flows.get(partition):
                flow.committed_offset = offset
                flow.rows.time.committed_us = flow.committing.stream_time_us

    def abandon(self) -> None:
        """Stop the work on all partitions where it stands: they are taken away.

        What is durable may still be committed.
        """
        for flow in self._flows.values():
            flow.is_over = True
            if flow.writing is not None:
                flow.writing.cancel()
                flow.writing = None
            while flow.in_flight:
                writing = flow.in_flight.pop()
                self._writer.abandon(writing)
                writing.batch.undo(flow.rows)
                self._in_flight_bytes -= writing.batch.size_bytes

    def end(self) -> None:
        """Forget all partitions, after they were abandoned."""
        self._flows.clear()

    async def finish(self, within_s: float) -> None:
        """Let the batches in flight be written, and compose nothing more; abandon what takes longer."""
        writing = [flow.writing for flow in self._flows.values() if flow.writing is not None]
        for flow in self._flows.values():
            flow.is_over = True
        if writing:
            await asyncio.wait(writing, timeout=within_s)
        self.abandon()
