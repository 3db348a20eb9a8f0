"""Transactional writer: a partition's batches become durable together with their offset, or not at all.

Each partition has its own transactional id. A new owner of the partition ends all transactions of earlier
owners and fences them, so commits need no generation (KIP-447), which the client cannot send. A transaction
is retried only if brokers had forgotten the id. Uncommitted events are composed again.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from itertools import chain

from aiokafka import TopicPartition
from aiokafka.errors import InvalidProducerIdMapping, InvalidTxnState, KafkaError, ProducerFenced

from apportion.settings import Settings
from apportion.shell.kafka.producer import Sent
from apportion.shell.kafka.transactional_producer import (
    TRANSACTION_TIMEOUT_S,
    TransactionalProducer,
    new_producer,
)
from apportion.shell.stream.faults import FencedError
from apportion.shell.stream.pipeline.membership import Membership
from apportion.shell.stream.pipeline.writer import Writing, acknowledged, count_rows, entries
from apportion.shell.stream.state.faults import RecoveryFailedError

_REPLACED = (ProducerFenced, InvalidProducerIdMapping, InvalidTxnState)
_AGAIN_S = 0.2


class ExactlyOnceWriter:
    """Writes with transactions. Consumers with `read_committed` see each output and each row exactly once."""

    moves_offsets = True

    def __init__(
        self,
        settings: Settings,
        membership: Membership,
        changelog: str,
        new_producer: Callable[[Settings, int], TransactionalProducer] = new_producer,
    ) -> None:
        self._settings = settings
        self._membership = membership
        self._changelog = changelog
        self._new_producer = new_producer
        self._topics: Sequence[str] = ()
        self._producers: dict[int, TransactionalProducer] = {}
        self._waiting: defaultdict[int, deque[Writing]] = defaultdict(deque)
        self._stopping: set[asyncio.Task[None]] = set()
        self._within_s = min(settings.delivery_timeout_s, TRANSACTION_TIMEOUT_S)

    async def start(self, topics: Sequence[str]) -> None:
        """Remember the topics; `assign` connects each partition."""
        self._topics = topics

    async def stop(self) -> None:
        """Close all connections and abort open transactions."""
        await self._release()

    async def assign(self, partitions: Collection[int]) -> None:
        """Become the only writer of these partitions, and release all others.

        Earlier transactions of other workers are committed or aborted when this returns. It waits until the
        group membership is held, because it fences the previous owner.

        Raises:
            RecoveryFailedError: no coordinator accepted us within `recovery_timeout_s`, or one refused us.
        """
        topic, within_s = self._settings.requests_topic, self._settings.recovery_timeout_s
        try:
            async with asyncio.timeout(within_s):
                await self._release()
                await self._membership.held()
                await asyncio.gather(*(self._connect(partition) for partition in partitions))
        except TimeoutError:
            why = f"no transaction could begin for {within_s:g} s"
            raise RecoveryFailedError(topic, why) from None
        except KafkaError as error:
            raise RecoveryFailedError(topic, str(error) or type(error).__name__) from error

    async def _connect(self, partition: int) -> None:
        while True:
            producer = self._producers[partition] = self._new_producer(self._settings, partition)
            try:
                await producer.start(self._topics)
            except KafkaError as error:
                await self._producers.pop(partition).stop()
                if not error.retriable:
                    raise
                await asyncio.sleep(_AGAIN_S)
            else:
                return

    def begin(self, writing: Writing) -> None:
        """Queue a batch for its partition's next transaction."""
        self._waiting[writing.batch.partition].append(writing)

    async def finish(self, writing: Writing) -> None:
        """Commit all queued batches of a partition in one transaction, unless this batch is committed.

        Raises FencedError if another worker owns the partition or brokers have ended the transaction. Raises
        KafkaError or TimeoutError if it was not acknowledged in time and may still be committed.
        """
        if writing.is_committed:
            return
        await self._membership.held()
        batch = writing.batch
        waiting = self._waiting[batch.partition]
        together = tuple(waiting)
        try:
            async with asyncio.timeout(self._within_s):
                rows = await self._transact(batch.partition, together)
        except _REPLACED:
            raise FencedError(self._settings.requests_topic, batch.partition, batch.offset) from None
        except (KafkaError, TimeoutError):
            if producer := self._producers.get(batch.partition):
                await producer.abort()
            raise
        for committed in together:
            waiting.popleft()
            committed.is_committed = True
        count_rows(writing.rows, rows, alone=True)

    async def _transact(self, partition: int, together: Sequence[Writing]) -> list[Sent]:
        try:
            rows = await self._fill(partition, together)
        except KafkaError as error:
            # Brokers forget an id that was idle for `transactional.id.expiration.ms`; nothing was written.
            if not isinstance(error.__cause__ or error, InvalidProducerIdMapping):
                raise
            await self._membership.held()  # otherwise another worker may have replaced the id
            await self._producers[partition].stop()
            await self._connect(partition)
            rows = await self._fill(partition, together)
        await self._producers[partition].commit()
        return rows

    async def _fill(self, partition: int, together: Sequence[Writing]) -> list[Sent]:
        """Begin a transaction, and wait until it has all records and the offset."""
        producer = self._producers[partition]
        batches = [writing.batch for writing in together]
        offset, metadata = together[0].commit_after(batches)
        await producer.begin()
        outputs: list[Sent] = []
        for topic in dict.fromkeys(chain.from_iterable(batch.messages for batch in batches)):
            messages = chain.from_iterable(batch.messages.get(topic, ()) for batch in batches)
            outputs += producer.send(topic, partition, entries(messages))
        states = chain.from_iterable(batch.states for batch in batches)
        rows = producer.send(self._changelog, partition, states)
        requests = TopicPartition(self._settings.requests_topic, partition)
        sent = [*outputs, *rows]
        await asyncio.gather(acknowledged(sent), producer.send_offset(requests, offset, metadata, sent))
        return rows

    def abandon(self, writing: Writing) -> None:
        """Drop the partition's batches and abort its transaction. A commit in progress may still succeed."""
        partition = writing.batch.partition
        self._waiting.pop(partition, None)
        if producer := self._producers.pop(partition, None):
            self._stop(producer)

    def _stop(self, producer: TransactionalProducer) -> None:
        stopping = asyncio.create_task(producer.stop())
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopping.discard)

    async def _release(self) -> None:
        self._waiting.clear()
        while self._producers:
            self._stop(self._producers.popitem()[1])
        if self._stopping:
            await asyncio.wait(self._stopping)
