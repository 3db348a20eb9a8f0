"""The consumer of the topics of decisions, dead letters and usage, which writes them into the tables.

All sinks are one consumer group, which shares the partitions. Reading begins where the tables end; the
committed offsets of the group only serve to watch its lag. If a sink has lost a partition and does not know
it, its next batch fails, because its successor has claimed the offsets.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError
from msgspec import Struct

from apportion.decisions.analytics.batches import TakenError
from apportion.decisions.analytics.partition import PartitionSink, WrittenFiles
from apportion.decisions.analytics.store import Store
from apportion.shell.kafka.faults import TopicRecreatedError
from apportion.shell.kafka.record_batches import record_of
from apportion.shell.kafka.record_consumer import RecordConsumer

_POLL_MS = 200
_RECORDS_MAX = 4_000
_FETCH_BYTES = 8 << 20


class Rolling(Struct, frozen=True):
    """Limits of a batch: the size of its files, and the time since its first record was read.

    If all batches together hold more than `memory_bytes`, the largest one ends.
    """

    bytes: int
    age_s: float
    memory_bytes: int


class SinkReports(Struct, frozen=True):
    """Callbacks of a sink: with a written batch, with lost offsets, and with a partition of a new topic."""

    written: Callable[[WrittenFiles], None]
    lost: Callable[[str], None]
    made_anew: Callable[[str], None]


class TopicsSink(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka ships no types
    """A sink of topics, which reads them until it is stopped or has caught up."""

    def __init__(
        self,
        store: Store,
        rolling: Rolling,
        reports: SinkReports,
        topic_ids: Callable[[], Awaitable[Mapping[str, str]]],
    ) -> None:
        """`topic_ids` returns the id of each topic that exists now, "" if brokers have none."""
        self._topic_ids = topic_ids
        self._store = store
        self._rolling = rolling
        self._reports = reports
        self._sinks: dict[TopicPartition, PartitionSink] = {}
        self._since_s: dict[TopicPartition, float] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._failed: Exception | None = None
        self._is_assigned = False
        self._lock = asyncio.Lock()  # the client calls the listener concurrently with the loop that reads

    async def run(
        self,
        topics: Mapping[str, frozenset[Any]],
        arguments: Mapping[str, Any],
        stop: asyncio.Event,
        *,
        once: bool,
    ) -> None:
        """Read topics until `stop` is set, then write the batches that were begun.

        `topics` has the types of records that are accepted from each. With `once`, reading ends at the end
        offsets that the partitions had when they were assigned.

        Raises:
            StoreError, InTheWayError: the tables cannot be written.
            TopicRecreatedError: a topic was deleted and made anew.
            KafkaError: no broker answers.
        """
        self._topics = topics
        self._consumer = RecordConsumer(
            **arguments,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=_FETCH_BYTES,
        )
        self._consumer.subscribe(tuple(topics), listener=self)
        async with self._consumer:
            while not stop.is_set() and not (once and self._has_caught_up()):
                async with self._lock:
                    await self._read()
            async with self._lock:
                await self._finish(tuple(self._sinks))

    async def on_partitions_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin to read assigned partitions where their rows in the tables end; `run` raises a failure."""
        async with self._lock:
            try:
                for partition in partitions:
                    await self._begin(partition)
            except Exception as error:  # noqa: BLE001 - `run` raises it
                self._failed = error
            self._is_assigned = True

    async def on_partitions_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Write the records of revoked partitions, or their next owners would read them again."""
        async with self._lock:
            try:
                await self._finish(partitions)
            except Exception as error:  # noqa: BLE001 - `run` raises it
                self._failed = error

    async def _begin(self, partition: TopicPartition) -> None:
        kinds = self._topics[partition.topic]
        topic_id = (await self._topic_ids()).get(partition.topic, "")
        first = (await self._consumer.beginning_offsets([partition]))[partition]
        end = self._ends[partition] = (await self._consumer.end_offsets([partition]))[partition]
        sink = await asyncio.to_thread(
            PartitionSink, self._store, partition.topic, partition.partition, kinds, topic_id, end
        )
        if sink.is_made_anew:
            self._reports.made_anew(f"{partition.topic}/{partition.partition}")
        if first > sink.position and not sink.is_new:
            self._reports.lost(f"{partition.topic}/{partition.partition}/{sink.position} to {first - 1}")
        sink.skip(first)
        self._sinks[partition] = sink
        self._consumer.seek(partition, sink.position)

    async def _finish(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            sink = self._sinks.pop(partition, None)
            if sink is not None and not sink.is_empty and sink.until is None:
                await self._write(partition, sink)

    def _has_caught_up(self) -> bool:
        ended = (sink.position >= self._ends[partition] for partition, sink in self._sinks.items())
        return self._is_assigned and all(ended)

    async def _read(self) -> None:
        if self._failed is not None:
            raise self._failed
        fetched = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_RECORDS_MAX)
        for partition, records in fetched.items():
            if partition in self._sinks and await self._take(partition, self._sinks[partition], records):
                self._sinks[partition].skip(await self._consumer.position(partition))
        for partition, sink in tuple(self._sinks.items()):
            if self._is_full(partition, sink):
                await self._end(partition, sink)
        if sum(sink.held_bytes for sink in self._sinks.values()) > self._rolling.memory_bytes:
            # a batch that another sink has claimed ends at the offset that it claimed
            free = [partition for partition, sink in self._sinks.items() if sink.until is None]
            if free:
                largest = max(free, key=lambda partition: self._sinks[partition].held_bytes)
                await self._end(largest, self._sinks[largest])

    async def _take(self, partition: TopicPartition, sink: PartitionSink, records: Iterable[Any]) -> bool:
        """Add records to the sink; return False if another sink has written them and reading began again."""
        for record in records:
            if (
                sink.until is not None
                and record.offset >= sink.until
                and not await self._end(partition, sink)
            ):
                return False
            if record.offset < sink.position:  # the client went back to the beginning of a shorter topic
                raise TopicRecreatedError(partition.topic)
            if sink.is_empty:
                self._since_s[partition] = monotonic()
            sink.take(record.offset, record.timestamp, record.value, record_of(record).unreadable)
        return True

    def _is_full(self, partition: TopicPartition, sink: PartitionSink) -> bool:
        if sink.until is not None:
            return sink.position >= sink.until
        if sink.is_empty:
            return False
        is_old = monotonic() - self._since_s[partition] >= self._rolling.age_s
        return is_old or sink.size_bytes >= self._rolling.bytes

    async def _end(self, partition: TopicPartition, sink: PartitionSink) -> bool:
        """Finish a batch. Return False if another sink has written it; reading then begins after its rows."""
        if await self._write(partition, sink):
            return True
        del self._sinks[partition]
        if partition in self._consumer.assignment():
            await self._begin(partition)
        return False

    async def _write(self, partition: TopicPartition, sink: PartitionSink) -> bool:
        """Write a batch; return False if another sink has written it, or raise TopicRecreatedError."""
        known = {sink.topic_id, (await self._topic_ids()).get(partition.topic, "")} - {""}
        if len(known) > 1:
            self._reports.lost(f"{partition.topic}/{partition.partition}/{sink.start} to {sink.position - 1}")
            raise TopicRecreatedError(partition.topic)
        try:
            written = await asyncio.to_thread(sink.finish)
        except TakenError:
            return False
        self._reports.written(written)
        with suppress(KafkaError):  # reading begins where the tables end, not at the committed offset
            await self._consumer.commit({partition: sink.position})
        return True
