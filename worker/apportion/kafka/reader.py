"""Reading the requests: a client beside the group's member, in the loop of those who answer.

Decides what is read together, and names an offset that its topic does not have. Which partitions flow, and
from where on, the consumer says. The member's own client lives in a thread: to be asked from here, and to
answer, it waits for the interpreter twice, behind whatever is being composed.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import OffsetOutOfRangeError as NotInTopicError
from aiokafka.structs import ConsumerRecord

from apportion.kafka.connection import close_consumer, connection_arguments
from apportion.kafka.faults import OffsetOutOfRangeError
from apportion.kafka.record_consumer import RecordConsumer
from apportion.settings import Settings

_PARTITION_FETCH_MAX_BYTES = 1 << 20
"""What a broker gives of a partition at once, or one record that is larger; so much waits of each."""
_FETCHED_MAX = 1_000
"""Records of all partitions that one read brings."""
_FETCH_WAIT_MS = 200
"""How long a broker waits for records; a partition that is read again meanwhile waits, too, for its turn."""


class RequestReader:
    """One client, in no group, of the partitions that flow."""

    def __init__(self, settings: Settings) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._client: Any = None

    async def start(self) -> None:
        """Connect, and read nothing yet.

        Raises:
            KafkaError: no broker answered.
        """
        settings = self._settings
        self._client = RecordConsumer(
            **connection_arguments(settings),
            batch_decompressed_max_bytes=settings.batch_decompressed_max_bytes,
            client_id=settings.app_id,
            request_timeout_ms=int(settings.request_timeout_s * 1000),
            isolation_level="read_committed",
            auto_offset_reset="none",  # else the client would pass over what is gone in silence
            enable_auto_commit=False,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            max_partition_fetch_bytes=_PARTITION_FETCH_MAX_BYTES,
        )
        await self._client.start()

    async def stop(self) -> None:
        """Close the connection."""
        await close_consumer(self._client)

    def flow_from(self, offsets: Mapping[int, int]) -> None:
        """Read these partitions from now on, each from its offset, and no others.

        Not while a read is under way.
        """
        places = {self._place(partition): offset for partition, offset in offsets.items()}
        if not places:
            self._client.unsubscribe()
            return
        self._client.assign(list(places))
        for place, offset in places.items():
            self._client.seek(place, offset)

    async def read(
        self, partitions: Collection[int], within_s: float
    ) -> Mapping[int, Sequence[ConsumerRecord]]:
        """Return what there is next of some of the partitions that flow, or nothing after so long.

        Raises:
            OffsetOutOfRangeError: the offset to go on at is not in its topic (any more).
        """
        wanted = [self._place(partition) for partition in partitions]
        try:
            read = await self._client.getmany(
                *wanted, timeout_ms=int(within_s * 1000), max_records=_FETCHED_MAX
            )
        except NotInTopicError as error:
            raise await self._out_of_range(error.args[0]) from None
        return {place.partition: records for place, records in read.items()}

    async def _out_of_range(self, offsets: Mapping[TopicPartition, int]) -> OffsetOutOfRangeError:
        """Return what is told of an offset that the broker does not have."""
        [(place, offset)] = offsets.items()
        begins = await self._client.beginning_offsets([place])
        ends = await self._client.end_offsets([place])
        return OffsetOutOfRangeError(
            f"{place.topic} partition {place.partition}", offset, begins[place], ends[place]
        )

    async def ends(self, partitions: Collection[int]) -> Mapping[int, int]:
        """Return the last stable offsets of partitions: reading gets no further until open transactions end.

        Raises:
            KafkaError: a leader is not known, or does not answer.
        """
        found = await self._client.end_offsets([self._place(partition) for partition in partitions])
        return {place.partition: offset for place, offset in found.items()}

    def position_of(self, partition: int) -> int | None:
        """Return up to where (exclusive) a partition was given out; None: it does not flow."""
        subscription = self._client and self._client._subscription.subscription  # noqa: SLF001 - `position` waits
        assignment = subscription and subscription.assignment
        place = self._place(partition)
        if assignment is None or place not in assignment.tps:
            return None
        state = assignment.state_value(place)
        return int(state.position) if state.has_valid_position else None

    def _place(self, partition: int) -> TopicPartition:
        return TopicPartition(self._settings.requests_topic, partition)
