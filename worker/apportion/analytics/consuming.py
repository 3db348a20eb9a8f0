"""Topics into the tables: a consumer group of its own, whose partitions go to as many sinks as there are.

Decides which records are read and when a batch ends. The group's committed offsets are for those who watch
its lag; where reading begins, the tables say. So a sink that has lost a partition without knowing is found
out by the first batch that it and its successor want to write.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError
from msgspec import Struct

from apportion.analytics.batches import TakenError
from apportion.analytics.partition import PartitionSink, WrittenFiles
from apportion.analytics.store import Store

_POLL_MS = 200
_RECORDS_MAX = 4_000
_FETCH_BYTES = 8 << 20


class Rolling(Struct, frozen=True):
    """When a batch ends: by the size of its files, the time since its first record was read, and memory.

    Where all batches hold more than `memory_bytes`, the largest ends.
    """

    bytes: int
    age_s: float
    memory_bytes: int


class Told(Struct, frozen=True):
    """Who hears of batches when they are written, and of records that were deleted before they were read."""

    written: Callable[[WrittenFiles], None]
    lost: Callable[[str], None]


class TopicsSink:
    """Reads topics, until it is stopped or has caught up."""

    def __init__(self, store: Store, rolling: Rolling, told: Told) -> None:
        self._store = store
        self._rolling = rolling
        self._told = told
        self._sinks: dict[TopicPartition, PartitionSink] = {}
        self._since_s: dict[TopicPartition, float] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._failed: Exception | None = None
        self._is_assigned = False
        self._lock = asyncio.Lock()  # the client calls the listener beside the loop that reads

    async def run(
        self, topics: Iterable[str], arguments: Mapping[str, Any], stop: asyncio.Event, *, once: bool
    ) -> None:
        """Read until stopped, and finish what was begun; `once`: to the ends as they were at the start.

        Raises:
            StoreError, InTheWayError: the tables cannot be written.
            KafkaError: no broker answers.
        """
        self._consumer = AIOKafkaConsumer(
            **arguments,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=_FETCH_BYTES,
        )
        self._consumer.subscribe(tuple(topics), listener=_Listener(self))
        async with self._consumer:
            while not stop.is_set() and not (once and self._has_caught_up()):
                async with self._lock:
                    await self._read()
            async with self._lock:
                await self._finish(tuple(self._sinks))

    async def take_over(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on where the tables end; a failure is the loop's to raise, for the client only logs it."""
        async with self._lock:
            try:
                for place in partitions:
                    await self._begin(place)
            except Exception as error:  # noqa: BLE001 - raised by the loop
                self._failed = error
            self._is_assigned = True

    async def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Write what was read of partitions that others get, who would else read it again."""
        async with self._lock:
            try:
                await self._finish(partitions)
            except Exception as error:  # noqa: BLE001 - likewise
                self._failed = error

    async def _begin(self, place: TopicPartition) -> None:
        sink = await asyncio.to_thread(PartitionSink, self._store, place.topic, place.partition)
        first = (await self._consumer.beginning_offsets([place]))[place]
        self._ends[place] = (await self._consumer.end_offsets([place]))[place]
        if first > sink.position and not sink.is_new:
            self._told.lost(f"{place.topic}/{place.partition}/{sink.position} to {first - 1}")
        sink.skip(first)
        self._sinks[place] = sink
        self._consumer.seek(place, sink.position)

    async def _finish(self, partitions: Iterable[TopicPartition]) -> None:
        for place in partitions:
            sink = self._sinks.pop(place, None)
            if sink is not None and not sink.is_empty and sink.until is None:
                await self._write(place, sink)

    def _has_caught_up(self) -> bool:
        ended = (sink.position >= self._ends[place] for place, sink in self._sinks.items())
        return self._is_assigned and all(ended)

    async def _read(self) -> None:
        if self._failed is not None:
            raise self._failed
        found = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_RECORDS_MAX)
        for place, records in found.items():
            if place in self._sinks and await self._take(place, self._sinks[place], records):
                self._sinks[place].skip(await self._consumer.position(place))
        for place, sink in tuple(self._sinks.items()):
            if self._is_full(place, sink):
                await self._end(place, sink)
        if sum(sink.held_bytes for sink in self._sinks.values()) > self._rolling.memory_bytes:
            free = [one for one in self._sinks.items() if one[1].until is None]
            if free:  # a batch of another's range ends where it was said to
                await self._end(*max(free, key=lambda one: one[1].held_bytes))

    async def _take(self, place: TopicPartition, sink: PartitionSink, records: Iterable[Any]) -> bool:
        """Take records; tell whether all were taken, or the partition was begun anew."""
        for record in records:
            if sink.until is not None and record.offset >= sink.until and not await self._end(place, sink):
                return False
            if sink.is_empty:
                self._since_s[place] = monotonic()
            sink.take(record.offset, record.timestamp, record.value)
        return True

    def _is_full(self, place: TopicPartition, sink: PartitionSink) -> bool:
        if sink.until is not None:
            return sink.position >= sink.until
        if sink.is_empty:
            return False
        is_old = monotonic() - self._since_s[place] >= self._rolling.age_s
        return is_old or sink.size_bytes >= self._rolling.bytes

    async def _end(self, place: TopicPartition, sink: PartitionSink) -> bool:
        """Finish a batch; tell whether this sink did, and goes on behind it."""
        if await self._write(place, sink):
            return True
        del self._sinks[place]
        if place in self._consumer.assignment():
            await self._begin(place)
        return False

    async def _write(self, place: TopicPartition, sink: PartitionSink) -> bool:
        try:
            written = await asyncio.to_thread(sink.finish)
        except TakenError:
            return False
        self._told.written(written)
        with suppress(KafkaError):  # the tables know better
            await self._consumer.commit({place: sink.position})
        return True


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka ships no types
    def __init__(self, sink: TopicsSink) -> None:
        self._sink = sink

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        await self._sink.give_up(revoked)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        await self._sink.take_over(assigned)
