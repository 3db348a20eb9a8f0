"""Identity of the requests topic: checks by remembered records that it is still the same topic.

If the topic is deleted and created again while a worker is idle, the worker would continue at its old offset
and skip events. Neither commits nor offsets show it: brokers delete the commits with the topic, and offsets
are valid again once the new topic is long enough.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from apportion.settings import Settings
from apportion.shell.kafka.groupless_consumer import (
    Offsets,
    ends_of,
    named,
    open_reader,
    patiently,
    records_at,
)
from apportion.shell.stream.state.faults import RequestsReplacedError

_LOOK_S = 10.0
"""Seconds between two checks; a check takes a connection, and a record of each partition."""

Seen: TypeAlias = tuple[int, int]
"""The offset of a record that was seen, and its timestamp in milliseconds (-1: none)."""


async def require_same_requests(asking: AIOKafkaConsumer, topic: str, seen: Mapping[int, Seen]) -> None:
    """Raise RequestsReplacedError unless the seen records are still in the topic, or are before its begin."""
    partitions = {TopicPartition(topic, partition): last for partition, last in seen.items()}
    begins = await patiently(asking.beginning_offsets, partitions)
    ends = await ends_of(asking, {partition: offset + 1 for partition, (offset, _) in partitions.items()})
    known = {}
    for partition, (offset, timestamp_ms) in partitions.items():
        if offset >= ends[partition]:
            raise RequestsReplacedError(named(partition), offset, f"it ends at {ends[partition]}")
        if offset >= begins[partition] and timestamp_ms >= 0:
            known[partition] = offset
    for partition, record in (await records_at(asking, known)).items():
        offset, timestamp_ms = partitions[partition]
        if record.timestamp != timestamp_ms:
            why = f"that record was of time {timestamp_ms}, not {record.timestamp}"
            raise RequestsReplacedError(named(partition), offset, why)


class RequestsWatch:
    """Remembers a record of each read partition, and checks it later."""

    def __init__(self, settings: Settings, durable: Callable[[], Mapping[int, int]]) -> None:
        """`durable` returns for each read partition the offset before which all events are durable."""
        self._settings = settings
        self._durable = durable
        self._seen: dict[int, Seen] = {}

    async def follow(self) -> None:
        """Look periodically until cancelled; raises the errors of `look`."""
        while True:
            await asyncio.sleep(_LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Check the remembered records, then remember the last ones before the durable offsets.

        If the brokers do not answer, the next call repeats the check. Raises RequestsReplacedError.
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
                last = await records_at(asking, await _there(asking, later))
                await require_same_requests(asking, self._settings.requests_topic, seen)
        except (KafkaError, TimeoutError):
            return
        self._seen = seen | {
            partition.partition: (record.offset, record.timestamp) for partition, record in last.items()
        }


async def _there(asking: AIOKafkaConsumer, offsets: Offsets) -> Offsets:
    begins = await patiently(asking.beginning_offsets, offsets)
    ends = await patiently(asking.end_offsets, offsets)
    return {
        partition: offset
        for partition, offset in offsets.items()
        if begins[partition] <= offset < ends[partition]
    }
