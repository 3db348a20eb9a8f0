"""The way of a partition's events, from what was fetched to what may be committed.

Decides how many batches are under way, what becomes of them when a partition is taken away or the worker
stops, and which offset may be committed: the one behind the last batch of which all is durable. Knows neither
Faust nor the group.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress

from aiokafka.structs import ConsumerRecord

from apportion.kafka.commit_metadata import CommitMetadata, decode_metadata, encode_metadata
from apportion.kafka.faults import StreamError
from apportion.kafka.policies_topic import PolicyReader
from apportion.stream.faults import EventFailedError, EventLostError, NotDurableError
from apportion.stream.pipeline.batch import Batch, BatchComposer
from apportion.stream.pipeline.flow import Fetched, Flow
from apportion.stream.pipeline.membership import Membership
from apportion.stream.pipeline.writer import Writer, Writing
from apportion.stream.state.rows import PartitionRows

IN_FLIGHT_MAX_BYTES = 64 << 20
"""Of all partitions; one batch may go over it."""
_AGAIN_S = 0.05
"""How long until a group that did not take a commit is asked again: it is rebalancing."""


class Pipeline:
    """All partitions of this worker whose events flow."""

    def __init__(  # noqa: PLR0913 - they are the parts of a pipeline
        self,
        topic: str,
        composer: BatchComposer,
        writer: Writer,
        membership: Membership,
        policies: PolicyReader,
        *,
        commit: Callable[[], Awaitable[bool]],
        event_failures_max: int = 0,
    ) -> None:
        """Begin without any; `topic` is that of the requests, `commit` commits what is committable.

        An event that has ended a worker `event_failures_max` times is set aside; 0: none is.
        """
        self._topic = topic
        self._event_failures_max = event_failures_max
        self._seen: set[int] = set()
        self._composer = composer
        self._writer = writer
        self._membership = membership
        self._policies = policies
        self._commit = commit
        self._flows: dict[int, Flow] = {}
        self._in_flight_bytes = 0
        self._room_made = asyncio.Event()
        self.deliver: Callable[[Fetched], None] = lambda _: None
        """Brings to the agent what was fetched, in order."""
        self.failed: Callable[[Exception], None] = lambda _: None
        """Is told why a batch could not be written; nothing after it is."""
        self.durable: Callable[[Batch], None] = lambda _: None
        """Is told of each batch that has become durable."""

    @property
    def flows(self) -> Mapping[int, Flow]:
        """The partitions that flow, or did so last."""
        return self._flows

    @property
    def in_flight_bytes(self) -> int:
        """How many bytes are being written."""
        return self._in_flight_bytes

    @property
    def in_flight(self) -> int:
        """How many batches are being written."""
        return sum(len(flow.in_flight) for flow in self._flows.values())

    @property
    def waiting(self) -> Mapping[int, tuple[int, int]]:
        """How many fetched events of each partition wait for turns, and their bytes; here none do."""
        return {}

    def begin(self, partition: int, rows: PartitionRows, offset: int | None, metadata: str = "") -> None:
        """Let a partition flow from its committed offset on; None: from its beginning.

        `metadata` are those that were committed with it.
        """
        assert partition not in self._flows, "a flow ends before it begins again"
        known = decode_metadata(metadata)
        rows.time.begin(known.stream_time_us)
        flow = self._flows[partition] = Flow(partition, rows, offset, known, self._event_failures_max)
        if partition not in self._seen:  # what this worker saw itself is counted already
            self._seen.add(partition)
            self._composer.remember(flow.window)

    def has_room(self, partition: int) -> bool:
        """Return whether events of a partition may be fetched."""
        flow = self._flows.get(partition)
        if flow is None or flow.is_over or flow.is_busy:
            return False
        return self._in_flight_bytes < IN_FLIGHT_MAX_BYTES

    async def room(self, partitions: Collection[int], within_s: float) -> None:
        """Wait until all of these partitions have room, or so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not all(map(self.has_room, partitions)):
                    self._room_made.clear()
                    await self._room_made.wait()

    def fetched(self, partition: int, records: Sequence[ConsumerRecord]) -> None:
        """Take what a fetch brought of a partition that flows."""
        flow = self._flows[partition]
        flow.begin(records)
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
            await self.marked(flow)
            await self._policies.current()
            await self._membership.held()
            if flow.is_over:
                return
            next_records = flow.next(records, fetched.taken)
            batch = self._composer.compose(flow.rows, next_records, fetched.taken, flow.set_aside)
            if not self._membership.is_held:
                batch.undo(flow.rows)
                continue
            fetched.taken += batch.events
            if batch.events:
                self.composed(flow, batch)
            self.require_whole(flow, batch)
            await asyncio.sleep(0)
        flow.taken += 1
        self._room_made.set()

    async def marked(self, flow: Flow) -> None:
        """Return when it is committed what is under way, or the flow is over."""
        while not (flow.is_marked or flow.is_over):
            if not await self._commit() and not flow.is_marked:
                await asyncio.sleep(_AGAIN_S)

    def require_whole(self, flow: Flow, batch: Batch) -> None:
        """Pass unless a batch ended at an event that was neither answered nor refused, or at one too many.

        Raises:
            StreamError: why it did.
        """
        if batch.failure is not None:
            if isinstance(batch.failure, EventFailedError):
                flow.failed_offset = batch.failure.offset
            raise batch.failure

    def composed(self, flow: Flow, batch: Batch) -> None:
        """Let a batch be written."""
        writing = Writing(batch, flow.rows, flow.commit_after)
        self._writer.begin(writing)
        flow.in_flight.append(writing)
        self._in_flight_bytes += batch.size_bytes
        if flow.writing is None:
            flow.writing = asyncio.create_task(self._write(flow))

    def keep_up(self, flow: Flow) -> None:
        """Let repairs of a partition's changelog be written if nothing is, so that they wait for no event."""
        offset = flow.durable_offset
        if flow.is_over or flow.in_flight or flow.failed_offset is not None or offset is None:
            return
        if flow.rows.has_repairs and self._membership.is_held:
            stream_time_us = flow.metadata.stream_time_us
            self.composed(flow, self._composer.keep_up(flow.rows, flow.partition, offset, stream_time_us))

    async def _write(self, flow: Flow) -> None:
        """Write a partition's batches one after another, until there is none."""
        while flow.in_flight:
            writing = flow.in_flight[0]
            batch = writing.batch
            try:
                if flow.is_alone:
                    await self.marked(flow)
                flow.may_move = self._writer.moves_offsets
                await self._writer.finish(writing)
            except StreamError as error:
                self.failed(error)
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, going on would lose what it gave
                self.failed(NotDurableError(self._topic, flow.partition, batch.offset, error))
                return
            flow.may_move = False
            flow.in_flight.popleft()
            self._in_flight_bytes -= batch.size_bytes
            self._room_made.set()
            flow.durable(batch)
            self.durable(batch)
            if writing.is_committed:
                flow.committed(batch.next_offset, CommitMetadata(stream_time_us=batch.stream_time_us))
            if flow.waiting is not None and not flow.is_over:
                waiting, flow.waiting = flow.waiting, None
                self.deliver(waiting)
        flow.writing = None

    def committable(self) -> Mapping[int, tuple[int, str]]:
        """Return the offsets that may be committed and are not yet, each with its metadata."""
        offsets: dict[int, tuple[int, str]] = {}
        for partition, flow in self._flows.items():
            if (commit := flow.commit()) is not None:
                offset, metadata = commit
                offsets[partition] = offset, encode_metadata(metadata)
        return offsets

    def committed(self, offsets: Mapping[int, int]) -> None:
        """Count offsets as committed."""
        for partition, offset in offsets.items():
            if flow := self._flows.get(partition):
                flow.committed(offset, flow.committing)

    def abandon(self) -> None:
        """Stop the work on all partitions where it stands: they are taken away.

        What is durable may still be committed.
        """
        for flow in self._flows.values():
            flow.is_over = True
            flow.waiting = None
            if flow.writing is not None:
                flow.writing.cancel()
                flow.writing = None
            if flow.in_flight:
                flow.failed_offset = None
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
