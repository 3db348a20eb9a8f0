"""Transactional producer of one partition, built on undocumented parts of the Kafka client."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.producer import sender as client_sender
from aiokafka.producer.transaction_manager import TransactionState
from aiokafka.structs import OffsetAndMetadata

from apportion.settings import Settings
from apportion.shell.kafka.producer import RecordProducer, Sent

TRANSACTION_TIMEOUT_S = 10.0
"""Time after which brokers abort an open transaction; until then, it hides later records from readers."""
_CONCURRENT_S = 0.002
"""The client's wait if the previous transaction is still ending when the next begins; default 20 ms."""
_OPEN = (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR)
_ABORT_S = 2.0
"""Time limit of an abort; after it, the next producer under the id aborts the transaction."""


class TransactionalProducer(RecordProducer):
    """A producer with a transactional id; starting it ends the open transactions of that id."""

    def __init__(self, settings: Settings, transactional_id: str) -> None:
        super().__init__(settings)
        self.transactional_id = transactional_id
        self._behind: Sequence[asyncio.Future[None]] = ()

    def _client_arguments(self) -> dict[str, Any]:
        client_sender.BACKOFF_OVERRIDE = _CONCURRENT_S
        return super()._client_arguments() | {
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": int(TRANSACTION_TIMEOUT_S * 1000),
        }

    def _new_client(self) -> AIOKafkaProducer:
        """Return a client that sends the offset only after all records are written.

        Brokers verify both with the coordinator. If the offset came during the verification of records,
        a broker would reject the records, and the client would retry them only after 100 ms.
        """
        client = super()._new_client()
        sender = client._sender  # noqa: SLF001 - the client does not order them
        send_offset = sender._do_txn_offset_commit  # noqa: SLF001 - as above

        async def send_behind(offsets: Any, group_id: str) -> None:
            if self._behind:
                await asyncio.wait(self._behind)
            await send_offset(offsets, group_id)

        sender._do_txn_offset_commit = send_behind  # noqa: SLF001 - as above
        return client

    async def begin(self) -> None:
        """Begin a transaction; records that are sent from now on belong to it."""
        await self._client.begin_transaction()

    async def send_offset(
        self, partition: TopicPartition, offset: int, metadata: str, behind: Sequence[Sent]
    ) -> None:
        """Add the group's offset to the transaction after these record batches; raise KafkaError."""
        self._behind = [sent.acknowledged for sent in behind]
        offsets = {partition: OffsetAndMetadata(offset, metadata)}
        await self._client.send_offsets_to_transaction(offsets, self._settings.app_id)

    async def commit(self) -> None:
        """Commit the transaction; after a KafkaError its outcome may be unknown.

        The caller must check before that no record batch was refused.
        """
        await self._client.commit_transaction()

    async def abort(self) -> None:
        """Abort an open transaction, unless it is being committed."""
        if self._client._txn_manager.state in _OPEN:  # noqa: SLF001 - the client does not expose its state
            with suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(_ABORT_S):
                    await self._client.abort_transaction()

    async def stop(self) -> None:
        """Abort an open transaction, and close without waiting for unsent records."""
        client = self._client
        if client is None:
            return
        await self.abort()
        client._closed = True  # noqa: SLF001 - its own `stop` waits until all is sent
        with suppress(KafkaError):
            await client._sender.close()  # noqa: SLF001 - as above
        await client.client.close()


def new_producer(settings: Settings, partition: int) -> TransactionalProducer:
    """Return the producer for the answers to a partition of the requests topic."""
    # App ids and topics have no colon, so two installations never share an id and fence each other.
    return TransactionalProducer(settings, f"{settings.app_id}:{settings.requests_topic}:{partition}")
