"""Reader of the requests: a client without a group, in the event loop that composes the answers.

The group member's client has a thread of its own. Each exchange with it would wait twice for the
interpreter's lock, which composition holds.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import OffsetOutOfRangeError as NotInTopicError
from aiokafka.structs import ConsumerRecord

from apportion.settings import Settings
from apportion.shell.kafka.connection import close_consumer, consumer_arguments
from apportion.shell.kafka.faults import OffsetOutOfRangeError
from apportion.shell.kafka.groupless_consumer import named
from apportion.shell.kafka.record_consumer import RecordConsumer

_PARTITION_FETCH_MAX_BYTES = 1 << 20
"""Bytes of a partition in one fetch and in the buffer; one record may be larger."""
_FETCHED_MAX = 1_000
"""Maximum number of records that one read returns, over all partitions."""
_FETCH_WAIT_MS = 200
"""Time that a broker waits for records; a partition that is resumed meanwhile waits too."""


class RequestReader:
    """A client without a group that reads the assigned partitions of the requests topic."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Any = None

    async def start(self) -> None:
        """Connect, without reading; raise KafkaError if no broker answered."""
        self._client = RecordConsumer(
            **consumer_arguments(self._settings),
            isolation_level="read_committed",
            auto_offset_reset="none",  # otherwise the client would skip deleted records silently
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            max_partition_fetch_bytes=_PARTITION_FETCH_MAX_BYTES,
        )
        await self._client.start()

    async def stop(self) -> None:
        """Close the connection."""
        await close_consumer(self._client)

    def flow_from(self, offsets: Mapping[int, int]) -> None:
        """Read exactly these partitions from now on, from these offsets; never call it during a `read`."""
        positions = {self._topic_partition(partition): offset for partition, offset in offsets.items()}
        if not positions:
            self._client.unsubscribe()
            return
        self._client.assign(list(positions))
        for topic_partition, offset in positions.items():
            self._client.seek(topic_partition, offset)

    async def read(
        self, partitions: Collection[int], within_s: float
    ) -> Mapping[int, Sequence[ConsumerRecord]]:
        """Return the next records of assigned partitions; empty if none came; raise OffsetOutOfRangeError."""
        wanted = [self._topic_partition(partition) for partition in partitions]
        try:
            read = await self._client.getmany(
                *wanted, timeout_ms=int(within_s * 1000), max_records=_FETCHED_MAX
            )
        except NotInTopicError as error:
            raise await self._out_of_range(error.args[0]) from None
        return {topic_partition.partition: records for topic_partition, records in read.items()}

    async def _out_of_range(self, offsets: Mapping[TopicPartition, int]) -> OffsetOutOfRangeError:
        [(topic_partition, offset)] = offsets.items()
        begins = await self._client.beginning_offsets([topic_partition])
        ends = await self._client.end_offsets([topic_partition])
        return OffsetOutOfRangeError(
            named(topic_partition), offset, begins[topic_partition], ends[topic_partition]
        )

    async def ends(self, partitions: Collection[int]) -> Mapping[int, int]:
        """Return the last stable offsets, where open transactions stop reads; raise KafkaError."""
        ends = await self._client.end_offsets([self._topic_partition(partition) for partition in partitions])
        return {topic_partition.partition: offset for topic_partition, offset in ends.items()}

    def position_of(self, partition: int) -> int | None:
        """Return the next offset of a partition; None if it is not assigned or has no position yet."""
        subscription = self._client and self._client._subscription.subscription  # noqa: SLF001 - `position` waits
        assignment = subscription and subscription.assignment
        topic_partition = self._topic_partition(partition)
        if assignment is None or topic_partition not in assignment.tps:
            return None
        state = assignment.state_value(topic_partition)
        return int(state.position) if state.has_valid_position else None

    def _topic_partition(self, partition: int) -> TopicPartition:
        return TopicPartition(self._settings.requests_topic, partition)
