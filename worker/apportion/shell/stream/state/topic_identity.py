"""Identity of the requests topic: checks that it is still the topic that was read, by a record that was seen.

The check runs before events are read, and then every few seconds. If the topic is deleted and created again
while a worker is idle, the worker would continue at its old offset and skip events. Commits cannot show this,
as brokers delete them with the topic. Offsets cannot show it either, once the new topic is long enough.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from apportion.settings import Settings
from apportion.shell.kafka.groupless_consumer import Offsets, ends_of, named, open_reader, patiently, read_to
from apportion.shell.stream.state.faults import RequestsReplacedError

_LOOK_S = 10.0
"""The seconds between two checks; a check takes a connection, and a record of each partition."""

Seen: TypeAlias = tuple[int, int]
"""The offset of a record that was seen, and its timestamp in milliseconds (-1: none)."""


async def require_same_requests(asking: AIOKafkaConsumer, topic: str, seen: Mapping[int, Seen]) -> None:
    """Check that the records that were seen are still in the topic; those removed by retention are ignored.

    Raises:
        RequestsReplacedError: a partition ends before such a record, or has another record in its place.
    """
    places = {TopicPartition(topic, partition): last for partition, last in seen.items()}
    begins = await patiently(asking.beginning_offsets, places)
    ends = await ends_of(asking, {place: offset + 1 for place, (offset, _) in places.items()})
    known = {}
    for place, (offset, timestamp_ms) in places.items():
        if offset >= ends[place]:
            raise RequestsReplacedError(named(place), offset, f"it ends at {ends[place]}")
        if offset >= begins[place] and timestamp_ms >= 0:
            known[place] = offset
    for place, record in (await _records_at(asking, known)).items():
        offset, timestamp_ms = places[place]
        if record.timestamp != timestamp_ms:
            why = f"that record was of time {timestamp_ms}, not {record.timestamp}"
            raise RequestsReplacedError(named(place), offset, why)


class RequestsWatch:
    """Watch over the requests topic: remembers a record of each read partition, and checks it later."""

    def __init__(self, settings: Settings, durable: Callable[[], Mapping[int, int]]) -> None:
        """`durable` returns the offset, for each read partition, before which everything is durable."""
        self._settings = settings
        self._durable = durable
        self._seen: dict[int, Seen] = {}

    async def follow(self) -> None:
        """Look every few seconds, until cancelled; raises what `look` does."""
        while True:
            await asyncio.sleep(_LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Check the remembered records, then remember the last records before the durable offsets.

        If the brokers do not answer, the check is left to the next call.

        Raises:
            RequestsReplacedError: a record that was seen is gone or replaced.
        """
        durable = self._durable()
        seen = {partition: last for partition, last in self._seen.items() if partition in durable}
        self._seen = seen
        later = {
            TopicPartition(self._settings.requests_topic, partition): offset - 1
            for partition, offset in durable.items()
            if offset > 0 and (partition not in seen or seen[partition][0] < offset - 1)
        }
        if not (seen or later):
            return
        try:
            async with (
                asyncio.timeout(self._settings.recovery_timeout_s),
                open_reader(self._settings, "read_uncommitted") as asking,
            ):
                # In this order: the records are read first, from the topic that the check then identifies.
                last = await _records_at(asking, await _there(asking, later))
                await require_same_requests(asking, self._settings.requests_topic, seen)
        except (KafkaError, TimeoutError):
            return
        self._seen = seen | {
            place.partition: (record.offset, record.timestamp) for place, record in last.items()
        }


async def _there(asking: AIOKafkaConsumer, offsets: Offsets) -> Offsets:
    """Return the offsets that are in their topics."""
    begins = await patiently(asking.beginning_offsets, offsets)
    ends = await patiently(asking.end_offsets, offsets)
    return {place: offset for place, offset in offsets.items() if begins[place] <= offset < ends[place]}


async def _records_at(asking: AIOKafkaConsumer, offsets: Offsets) -> Mapping[TopicPartition, ConsumerRecord]:
    """Return the records at these offsets, as far as they exist."""
    found: dict[TopicPartition, ConsumerRecord] = {}
    asking.assign(list(offsets))
    for place, offset in offsets.items():
        asking.seek(place, offset)
    async for step in read_to(asking, {place: offset + 1 for place, offset in offsets.items()}):
        if step.records and step.records[0].offset == offsets[step.place]:
            found[step.place] = step.records[0]
    return found
