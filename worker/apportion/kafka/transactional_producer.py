"""One partition's transactions, by the Kafka client; each place where we lean on more than it documents.

Decides how long a transaction may be open, and what is done with one that is given up. Never decides what
stands in it, nor in which order it is made.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.producer import sender as client_sender
from aiokafka.producer.transaction_manager import TransactionState
from aiokafka.structs import OffsetAndMetadata

from apportion.kafka.producer import RecordProducer, Sent
from apportion.settings import Settings

TRANSACTION_TIMEOUT_S = 10.0
"""After which brokers abort a transaction that nobody ends: so long one may hide what stands behind it."""
_CONCURRENT_S = 0.002
"""How long the client waits where a transaction is still being ended when the next begins; else 20 ms."""
_OPEN = (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR)
_ABORT_S = 2.0
"""How long a transaction may take to be aborted; then it is left to who comes next."""


class TransactionalProducer(RecordProducer):
    """A client under a transactional id: to start it ends all that others have begun under that."""

    def __init__(self, settings: Settings, transactional_id: str) -> None:
        """Connect to nothing yet."""
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
        """Return a client whose offset leaves when all records stand.

        A broker asks the coordinator about both, and where it still asks about the records it gives them up
        for the offset: the client would try them again after 100 ms. That the group takes part is told to
        the coordinator meanwhile.
        """
        client = super()._new_client()
        sender = client._sender  # noqa: SLF001 - the client knows no order between them
        send_offset = sender._do_txn_offset_commit  # noqa: SLF001 - as above

        async def send_behind(offsets: Any, group_id: str) -> None:
            if self._behind:
                await asyncio.wait(self._behind)
            await send_offset(offsets, group_id)

        sender._do_txn_offset_commit = send_behind  # noqa: SLF001 - as above
        return client

    async def begin(self) -> None:
        """Begin a transaction: what is sent from now on stands in it."""
        await self._client.begin_transaction()

    async def send_offset(
        self, place: TopicPartition, offset: int, metadata: str, behind: Sequence[Sent]
    ) -> None:
        """Let the group's offset stand in the transaction, behind these record batches; return when it does.

        Raises:
            KafkaError: it does not.
        """
        self._behind = [one.acknowledged for one in behind]
        offsets = {place: OffsetAndMetadata(offset, metadata)}
        await self._client.send_offsets_to_transaction(offsets, self._settings.app_id)

    async def commit(self) -> None:
        """Let all of the transaction count.

        The client commits also where a record batch was refused: whoever commits has seen that all stand.

        Raises:
            KafkaError: it does not count, or may not.
        """
        await self._client.commit_transaction()

    async def abort(self) -> None:
        """Let nothing of the transaction count, if there is one that may still be ended so.

        One that is being committed is left to it; one that cannot be ended now, to who comes next.
        """
        if self._client._txn_manager.state in _OPEN:  # noqa: SLF001 - the client cannot be asked what it is at
            with suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(_ABORT_S):
                    await self._client.abort_transaction()

    async def stop(self) -> None:
        """Abort what is not committed, and close; what the client still has is not waited for."""
        client = self._client
        if client is None:
            return
        await self.abort()
        client._closed = True  # noqa: SLF001 - its own `stop` waits until all was sent
        with suppress(KafkaError):
            await client._sender.close()  # noqa: SLF001 - as above
        await client.client.close()


def new_producer(settings: Settings, partition: int) -> TransactionalProducer:
    """Return the client for what the events of a partition of the requests topic give."""
    # neither an app id nor a topic may have a colon: no two installations share an id, and fence each other
    return TransactionalProducer(settings, f"{settings.app_id}:{settings.requests_topic}:{partition}")
