"""Consumers in no group: they ask for the offsets of topics, and read partitions to their ends.

Waits for leaders that are away without a limit: the caller sets a deadline. Never commits.
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
"""The wait of a poll. After the last row there may be offsets without a record, such as markers."""
SLICE = 500
"""Records of a changelog that are added at once; all other work of the worker waits meanwhile."""
FETCH_MAX_BYTES = 1 << 20
"""Bytes of a changelog partition that are fetched at once."""
_FETCH_MAX_BYTES = 4 << 20
"""The client briefly holds three copies of a response; larger responses are no faster."""
_ASKING_MAX_BYTES = 64 << 10
_FETCH_WAIT_MS = 100
_LAG_S = 5.0
"""The time for which an end that is too early is asked for again; a new leader may be behind at first."""
_AGAIN_S = 0.2

Offsets = Mapping[TopicPartition, int]


class ReadStep(NamedTuple):
    """The records that a poll brought of a partition, and the position behind them.

    The position moves without a record, too: over markers and aborted records of transactions.
    """

    partition: TopicPartition
    records: Sequence[ConsumerRecord]
    position: int
    has_moved: bool


@asynccontextmanager
async def open_reader(
    settings: Settings, isolation_level: str, fetch_max_bytes: int = _ASKING_MAX_BYTES
) -> AsyncIterator[RecordConsumer]:
    """Yield a client without a group, as soon as a broker answers."""
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
    """Read assigned partitions from their positions until each position is at its end (exclusive) or behind.

    Yields one step of each partition for its first position, without records, and one after each poll. The
    last poll may bring records behind the end. Waits without a limit: the caller sets a deadline.
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
            await asyncio.sleep(0)  # a client that has records at hand gives no other task a turn


async def ends_of(asking: RecordConsumer, expected: Offsets) -> Offsets:
    """Return the ends of partitions; retries for 5 s while an end is before its expected offset."""
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
    """Return offsets; retries without end when the client gives up, as leaders may be away for longer."""
    while True:
        with suppress(KafkaTimeoutError):
            return await ask(list(partitions))


def named(partition: TopicPartition) -> str:
    """Return the name of a partition for messages."""
    return f"{partition.topic} partition {partition.partition}"
