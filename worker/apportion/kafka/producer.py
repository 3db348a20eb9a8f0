"""Idempotent producer of whole record batches.

It retries until it is closed. As it is idempotent, a record is in its topic once, however often it was sent.
The caller decides when a record may be sent.
"""

from collections.abc import Iterable, Sequence
from time import time
from typing import Any, TypeAlias

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.structs import RecordMetadata

from apportion.kafka.connection import connection_arguments
from apportion.kafka.topics import MESSAGE_MAX_BYTES
from apportion.settings import Settings
from apportion.settings.value_types import Compression

_RECORD_OVERHEAD_BYTES = 64
"""An upper bound of a record's bytes besides key, value and headers."""

Entry: TypeAlias = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes]]]
"""A record's key, value and headers."""


class Sent:
    """A record batch in the client's queue, and the future of its acknowledgement."""

    __slots__ = ("_batch", "records")

    def __init__(self, batch: Any, records: int) -> None:
        """`batch` is the client's batch, and `records` the number of its records."""
        self._batch = batch
        self.records = records
        batch.future.add_done_callback(_retrieve_error)

    @property
    def acknowledged(self) -> Any:
        """The future of the acknowledgement. Do not cancel it, as others wait for it as well."""
        return self._batch.future

    @property
    def offset(self) -> int:
        """The offset of the first record, once the batch is acknowledged.

        Raises:
            KafkaError: the batch was not written.
        """
        metadata: RecordMetadata = self._batch.future.result()
        return int(metadata.offset)


class RecordProducer:
    """A producer with one idempotent client."""

    def __init__(self, settings: Settings) -> None:
        """Create the producer; `start` connects."""
        self._settings = settings
        self._client: Any = None

    async def start(self, topics: Iterable[str]) -> None:
        """Connect, and find the leaders of these topics' partitions.

        Raises:
            KafkaError: no broker answered.
        """
        self._client = self._new_client()
        await self._client.start()
        for topic in topics:
            await self._client.partitions_for(topic)

    def _new_client(self) -> AIOKafkaProducer:
        """Return a client that retries until it is closed.

        Without idempotence, a retry after a lost acknowledgement would write a record twice. A batch for a
        partition without a leader lives for `delivery_timeout_s`. By default the client drops it after the
        time of one request, and it has no argument to change that.
        """
        client = AIOKafkaProducer(**self._client_arguments())
        client._message_accumulator._batch_ttl = self._settings.delivery_timeout_s  # noqa: SLF001 - see above
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
        """Close; records that are not acknowledged by then are given up."""
        await self._client.stop()

    def send(self, topic: str, partition: int, groups: Iterable[Sequence[Entry]]) -> list[Sent]:
        """Queue records in the client, in order, and return their record batches.

        A group is always in one record batch, which the broker appends whole or not at all.
        """
        sent: list[Sent] = []
        builder, filled = self._client.create_batch(), 0
        append, now_ms = builder._builder.append, int(time() * 1000)  # noqa: SLF001 - see `_hand_over`
        for group in groups:
            if len(group) > 1 and filled and builder.size() + _most_bytes(group) > MESSAGE_MAX_BYTES:
                sent.append(self._hand_over(builder, filled, topic, partition))
                builder, filled = self._client.create_batch(), 0
                append = builder._builder.append  # noqa: SLF001 - as above
            for key, value, headers in group:
                if append(filled, now_ms, key, value, list(headers)) is None:
                    assert len(group) == 1, "records that belong together fit into a record batch"
                    sent.append(self._hand_over(builder, filled, topic, partition))
                    builder, filled = self._client.create_batch(), 0
                    append = builder._builder.append  # noqa: SLF001 - as above
                    append(filled, now_ms, key, value, list(headers))
                filled += 1
        if filled:
            sent.append(self._hand_over(builder, filled, topic, partition))
        return sent

    def _hand_over(self, builder: Any, records: int, topic: str, partition: int) -> Sent:
        """Queue a record batch behind those of its partition; the client's `send_batch` would wait for them.

        Records were appended to the builder's inner builder. The builder's own `append` takes twice the time,
        twice for each event, and reads the clock for each record.
        """
        builder._relative_offset = records  # noqa: SLF001 - see above
        builder.close()
        accumulator = self._client._message_accumulator  # noqa: SLF001 - see above
        batch = accumulator._append_batch(builder, TopicPartition(topic, partition))  # noqa: SLF001 - see above
        return Sent(batch, records)

    def withdraw(self, sent: Iterable[Sent]) -> None:
        """Remove record batches from the queue that the client has not begun to send."""
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
