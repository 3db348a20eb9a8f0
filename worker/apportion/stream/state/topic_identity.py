"""Whether the requests topic is the one that was read: by a record that was seen, and the time of it.

Decides that before anything flows, and now and then while it does: a worker that does not fetch for a moment
would go on in a topic that was made anew meanwhile, behind the events that it has not seen. Commits do not
tell, for with a topic brokers remove what was committed of it; nor do offsets, once the new topic has them.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from apportion.kafka.groupless_consumer import Offsets, ends_of, named, open_reader, patiently, read_to
from apportion.settings import Settings
from apportion.stream.state.faults import RequestsReplacedError

_LOOK_S = 10.0
"""How often it is looked; each time takes a connection, and a record of each partition."""

Seen: TypeAlias = tuple[int, int]
"""The offset of a record that was seen, and its time in milliseconds; -1: it has none."""


async def require_same_requests(asking: AIOKafkaConsumer, topic: str, seen: Mapping[int, Seen]) -> None:
    """Pass if the records that were seen of partitions are those that stand there, where retention left them.

    Raises:
        RequestsReplacedError: one is not.
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
    """Remembers of each partition that flows a record before its durable offset, and looks for it again."""

    def __init__(self, settings: Settings, durable: Callable[[], Mapping[int, int]]) -> None:
        """`durable` tells up to where (exclusive) all is durable of the partitions that flow."""
        self._settings = settings
        self._durable = durable
        self._seen: dict[int, Seen] = {}

    async def follow(self) -> None:
        """Look again and again, until cancelled.

        Raises:
            RequestsReplacedError: a record that was seen is not there any more, or another is.
        """
        while True:
            await asyncio.sleep(_LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Look whether what was seen is there, and from now on for what stands last before what is durable.

        Where the brokers do not answer, the next look tells.

        Raises:
            RequestsReplacedError: a record that was seen is not there any more, or another is.
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
                # in this order: what is read first is of the topic that is then seen to be the same
                last = await _records_at(asking, await _there(asking, later))
                await require_same_requests(asking, self._settings.requests_topic, seen)
        except (KafkaError, TimeoutError):
            return
        self._seen = seen | {place.partition: (one.offset, one.timestamp) for place, one in last.items()}


async def _there(asking: AIOKafkaConsumer, offsets: Offsets) -> Offsets:
    """Return those offsets that their topics have."""
    begins = await patiently(asking.beginning_offsets, offsets)
    ends = await patiently(asking.end_offsets, offsets)
    return {place: offset for place, offset in offsets.items() if begins[place] <= offset < ends[place]}


async def _records_at(asking: AIOKafkaConsumer, offsets: Offsets) -> Mapping[TopicPartition, ConsumerRecord]:
    """Return the records at these offsets, as far as there are any."""
    found: dict[TopicPartition, ConsumerRecord] = {}
    asking.assign(list(offsets))
    for place, offset in offsets.items():
        asking.seek(place, offset)
    async for step in read_to(asking, {place: offset + 1 for place, offset in offsets.items()}):
        if step.records and step.records[0].offset == offsets[step.place]:
            found[step.place] = step.records[0]
    return found
