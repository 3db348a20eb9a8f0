"""Consumers without a group, which read partitions to their ends.

They never commit. They wait without a limit for unavailable leaders, so the caller sets a deadline.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError
from aiokafka.structs import ConsumerRecord

from apportion.settings import Settings
from apportion.shell.kafka.connection import close_consumer, consumer_arguments
from apportion.shell.kafka.record_consumer import RecordConsumer

POLL_MS = 20
"""Wait of a poll; offsets without records, such as transaction markers, may follow the last record."""
SLICE = 500
"""Maximum records of a poll of a changelog; the event loop is blocked while they are added."""
FETCH_MAX_BYTES = 1 << 20
"""Maximum bytes of one partition in one fetch."""
_FETCH_MAX_BYTES = 4 << 20
"""Bytes of one response, of which the client briefly holds three copies; more bytes are no faster."""
_ASKING_MAX_BYTES = 64 << 10
_FETCH_WAIT_MS = 100
_LAG_S = 5.0
"""Time for which an end before an expected offset is requested again; a new leader may lag at first."""
_AGAIN_S = 0.2

Offsets = Mapping[TopicPartition, int]


class ReadStep(NamedTuple):
    """A poll's records of a partition, and the position after them and after transaction markers."""

    partition: TopicPartition
    records: Sequence[ConsumerRecord]
    position: int
    has_moved: bool


@asynccontextmanager
async def open_reader(
    settings: Settings, isolation_level: str, fetch_max_bytes: int = _ASKING_MAX_BYTES
) -> AsyncIterator[RecordConsumer]:
    """Yield a connected client without a group; waits until a broker answers."""
    while True:
        client = RecordConsumer(
            **consumer_arguments(settings, "-recovery"),
            auto_offset_reset="none",
            isolation_level=isolation_level,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            fetch_max_bytes=_FETCH_MAX_BYTES,
            max_partition_fetch_bytes=fetch_max_bytes,
        )
        try:
            await client.start()
        except KafkaConnectionError:
            await client.stop()
            await asyncio.sleep(_AGAIN_S)
        else:
            break
    try:
        yield client
    finally:
        await close_consumer(client)


async def read_to(
    consumer: AIOKafkaConsumer, ends: Offsets, *, poll_ms: int = POLL_MS, max_records: int | None = None
) -> AsyncIterator[ReadStep]:
    """Read assigned partitions until each position has reached its end (exclusive).

    Yields a first step of each partition without records. After each poll, it yields a step of each partition
    that had not reached its end. The last poll may return records after the end.
    """
    positions: dict[TopicPartition, int] = {}
    batches: Mapping[TopicPartition, Sequence[ConsumerRecord]] = {}
    waiting = sorted(ends)
    while waiting:
        for partition in waiting:
            before, positions[partition] = positions.get(partition), await consumer.position(partition)
            yield ReadStep(
                partition, batches.get(partition, ()), positions[partition], positions[partition] != before
            )
        waiting = [partition for partition in waiting if positions[partition] < ends[partition]]
        if waiting:
            batches = await consumer.getmany(*waiting, timeout_ms=poll_ms, max_records=max_records)
            await asyncio.sleep(0)  # while the client has records, it lets no other task run


async def records_at(consumer: AIOKafkaConsumer, offsets: Offsets) -> dict[TopicPartition, ConsumerRecord]:
    """Return the record at an offset of each partition; without those that have none, such as a marker."""
    found: dict[TopicPartition, ConsumerRecord] = {}
    consumer.assign(list(offsets))
    for partition, offset in offsets.items():
        consumer.seek(partition, offset)
    async for step in read_to(consumer, {partition: offset + 1 for partition, offset in offsets.items()}):
        if step.records and step.records[0].offset == offsets[step.partition]:
            found[step.partition] = step.records[0]
    return found


async def ends_of(asking: RecordConsumer, expected: Offsets) -> Offsets:
    """Return the ends of partitions; retries for `_LAG_S` if an end is before its expected offset."""
    until_s = asyncio.get_running_loop().time() + _LAG_S
    while True:
        ends = await patiently(asking.end_offsets, expected)
        early = any(ends[partition] < offset for partition, offset in expected.items())
        if not early or asyncio.get_running_loop().time() >= until_s:
            return ends
        await asyncio.sleep(_AGAIN_S)


async def patiently(
    ask: Callable[[list[TopicPartition]], Awaitable[Offsets]], partitions: Iterable[TopicPartition]
) -> Offsets:
    """Return offsets; retries without a limit after the client's timeouts."""
    while True:
        with suppress(KafkaTimeoutError):
            return await ask(list(partitions))


def named(partition: TopicPartition) -> str:
    """Return the name of a partition for messages."""
    return f"{partition.topic} partition {partition.partition}"
