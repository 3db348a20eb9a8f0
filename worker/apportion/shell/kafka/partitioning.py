"""Partitioning: the key of an event, and the partition that Kafka's producers derive from the key.

A record with a wrong key or partition is refused, because two workers would split its session.
"""

from functools import lru_cache
from zlib import crc32

from aiokafka.partitioner import murmur2

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Event, session_key
from apportion.core.wire.record import Record
from apportion.settings.value_types import Partitioner

_SESSIONS_CACHED = 1 << 16
_PRODUCER_SETTING = {
    Partitioner.MURMUR2: "Java's clients do so by themselves, librdkafka with partitioner=murmur2_random",
    Partitioner.CRC32: "librdkafka does so with partitioner=consistent_random, its default",
}


@lru_cache(_SESSIONS_CACHED)
def partition_of(key: bytes, partitioner: Partitioner, partitions: int) -> int | None:
    """Return the partition of a key; None if any partition is valid."""
    if partitioner is Partitioner.ANY:
        return None
    is_murmur2 = partitioner is Partitioner.MURMUR2
    number: int = murmur2(key) & 0x7FFFFFFF if is_murmur2 else crc32(key)
    return number % partitions


def check_place(event: Event, record: Record, partitioner: Partitioner, partitions: int) -> None:
    """Check that a record has the key and the partition of its session; raise EventError."""
    key = session_key(event.tenant, event.session_id).encode()
    if record.key != key:
        message = "the record's key is not tenant/session_id in UTF-8; set it so"
        raise EventError(ErrorCode.WRONG_KEY, message)
    partition = partition_of(key, partitioner, partitions)
    if partition is not None and partition != record.partition:
        message = (
            f"the record is on partition {record.partition}, its key's is {partition} of {partitions} by "
            f"{partitioner}; {_PRODUCER_SETTING[partitioner]}"
        )
        raise EventError(ErrorCode.WRONG_PARTITION, message)
