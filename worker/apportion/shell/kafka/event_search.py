"""Search for past records of partitions by their `ce_id`, from the newest window of offsets to the oldest.

One read serves all waiting searches of a partition, because many clients repeat their calls after an outage.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from apportion.settings import Settings
from apportion.shell.kafka.groupless_consumer import FETCH_MAX_BYTES, open_reader, patiently, read_to
from apportion.shell.kafka.record_consumer import RecordConsumer

_ID_HEADER = "ce_id"
_FIRST_WINDOW = 256
_WINDOW_GROWTH = 4

_Found: TypeAlias = asyncio.Future[bytes | None]


class EventSearch:
    """Queue of searches; `run` reads the partitions for them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._queue: asyncio.Queue[TopicPartition] = asyncio.Queue()
        self._waiting: dict[TopicPartition, dict[bytes, list[_Found]]] = {}

    async def find(self, topic: str, partition: int, event_id: str) -> bytes | None:
        """Return the value of the record with this `ce_id`; None: none, or a tombstone; raise KafkaError."""
        topic_partition = TopicPartition(topic, partition)
        found: _Found = asyncio.get_running_loop().create_future()
        if topic_partition not in self._waiting:
            self._waiting[topic_partition] = {}
            self._queue.put_nowait(topic_partition)
        self._waiting[topic_partition].setdefault(event_id.encode(), []).append(found)
        return await found

    async def run(self) -> None:
        """Read partitions for the searches until cancelled; several tasks may run it at once."""
        partition = await self._queue.get()
        async with open_reader(self._settings, "read_committed", FETCH_MAX_BYTES) as consumer:
            while True:
                wanted = self._waiting.pop(partition)
                try:
                    await _search(consumer, partition, wanted)
                except KafkaError as error:
                    for found in _open(wanted):
                        found.set_exception(error)
                partition = await self._queue.get()


async def _search(
    consumer: RecordConsumer, partition: TopicPartition, wanted: Mapping[bytes, Sequence[_Found]]
) -> None:
    consumer.assign([partition])
    begin = (await patiently(consumer.beginning_offsets, [partition]))[partition]
    end = (await patiently(consumer.end_offsets, [partition]))[partition]
    window = _FIRST_WINDOW
    while end > begin:
        start = max(begin, end - window)
        consumer.seek(partition, start)
        async for step in read_to(consumer, {partition: end}):
            for record in step.records:
                for found in wanted.get(dict(record.headers).get(_ID_HEADER) or b"", ()):
                    if not found.done():
                        found.set_result(record.value)
            if not _open(wanted):
                return
        end, window = start, window * _WINDOW_GROWTH
    for found in _open(wanted):
        found.set_result(None)


def _open(wanted: Mapping[bytes, Sequence[_Found]]) -> list[_Found]:
    return [found for searches in wanted.values() for found in searches if not found.done()]
