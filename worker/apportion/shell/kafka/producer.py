"""Idempotent producer of whole record batches.

It retries until it is closed, but a batch without a partition leader fails after `delivery_timeout_s`.
"""

from collections.abc import Iterable, Sequence
from time import time
from typing import Any, TypeAlias

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.structs import RecordMetadata
from msgspec import Struct

from apportion.settings import Settings
from apportion.settings.value_types import Compression
from apportion.shell.kafka.connection import connection_arguments
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES

_RECORD_OVERHEAD_BYTES = 64
"""Upper bound of a record's bytes without key, value and headers."""

Entry: TypeAlias = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes]]]
"""A record's key, value and headers."""


class OutboundRecord(Struct, frozen=True, gc=False):
    """A record to send, and its partition."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


class Sent:
    """A record batch in the client's queue, and the future of its acknowledgement."""

    def __init__(self, batch: Any, records: int) -> None:
        self._batch = batch
        self.records = records
        batch.future.add_done_callback(_retrieve_error)

    @property
    def acknowledged(self) -> Any:
        """The future of the acknowledgement; do not cancel it, because others wait for it."""
        return self._batch.future

    @property
    def offset(self) -> int:
        """The offset of the first record, once acknowledged; raises KafkaError if it was not written."""
        metadata: RecordMetadata = self._batch.future.result()
        return int(metadata.offset)


class RecordProducer:
    """A producer with one idempotent client."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Any = None

    async def start(self, topics: Iterable[str]) -> None:
        """Connect, and find the leaders of these topics; raise KafkaError if no broker answered."""
        self._client = self._new_client()
        await self._client.start()
        for topic in topics:
            await self._client.partitions_for(topic)

    def _new_client(self) -> AIOKafkaProducer:
        client = AIOKafkaProducer(**self._client_arguments())
        # By default, a batch for a partition without a leader is dropped after one request's timeout.
        client._message_accumulator._batch_ttl = self._settings.delivery_timeout_s  # noqa: SLF001 - no public option
        return client

    def _client_arguments(self) -> dict[str, Any]:
        settings = self._settings
        return connection_arguments(settings) | {
            "client_id": settings.app_id,
            "acks": "all",
            "enable_idempotence": True,
            "compression_type": None
            if settings.compression is Compression.NONE
            else str(settings.compression),
            "max_batch_size": MESSAGE_MAX_BYTES,
            "max_request_size": MESSAGE_MAX_BYTES,
            "request_timeout_ms": int(settings.request_timeout_s * 1000),
        }

    async def stop(self) -> None:
        """Close, after waiting without a limit for queued records; a caller that cancels it gives them up."""
        await self._client.stop()

    def send(self, topic: str, partition: int, groups: Iterable[Sequence[Entry]]) -> list[Sent]:
        """Queue records in the client, in order, and return their record batches.

        A group is always in one record batch, which the broker appends whole or not at all.
        """
        now_ms = int(time() * 1000)
        batches = [self._client.create_batch()]
        for group in groups:
            most_bytes = batches[-1].size() + (_most_bytes(group) if len(group) > 1 else 0)
            if batches[-1].record_count() and most_bytes > MESSAGE_MAX_BYTES:
                batches.append(self._client.create_batch())
            for key, value, headers in group:
                record = {"timestamp": now_ms, "key": key, "value": value, "headers": list(headers)}
                if batches[-1].append(**record) is None:
                    assert len(group) == 1, "records that belong together fit into a record batch"
                    batches.append(self._client.create_batch())
                    batches[-1].append(**record)
        return [self._hand_over(batch, topic, partition) for batch in batches if batch.record_count()]

    def _hand_over(self, batch: Any, topic: str, partition: int) -> Sent:
        """Queue a record batch after earlier ones of its partition; the client's `send_batch` would wait."""
        batch.close()
        accumulator = self._client._message_accumulator  # noqa: SLF001 - see above
        queued = accumulator._append_batch(batch, TopicPartition(topic, partition))  # noqa: SLF001 - see above
        return Sent(queued, batch.record_count())

    def withdraw(self, sent: Iterable[Sent]) -> None:
        """Remove those record batches that the client has not begun to send, and cancel their futures."""
        waiting = self._client._message_accumulator._batches  # noqa: SLF001 - the client has no method for it
        for sent_batch in sent:
            batch = sent_batch._batch  # noqa: SLF001 - our own class
            queue = waiting.get(batch.tp)
            if queue and batch in queue and not batch.retry_count:
                queue.remove(batch)
                batch.future.cancel()
                if not queue:
                    del waiting[batch.tp]


def _most_bytes(group: Sequence[Entry]) -> int:
    return sum(
        _RECORD_OVERHEAD_BYTES
        + len(key or b"")
        + len(value or b"")
        + sum(10 + len(name) * 4 + len(content) for name, content in headers)
        for key, value, headers in group
    )


def _retrieve_error(future: Any) -> None:
    """Retrieve the future's exception, so that asyncio does not log it as never retrieved."""
    if not future.cancelled():
        future.exception()
