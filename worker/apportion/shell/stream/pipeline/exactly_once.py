"""Transactional writer: a partition's batches become durable together with their offset, or not at all.

Decides which batches share a transaction, in which order it is made, and how long it may take. The owner of a
partition writes under the partition's own transactional id. Taking it over ends all transactions of earlier
owners, and none of them can begin another. So no generation has to stand beside an offset (KIP-447), which
the client would not send. A transaction is tried again only if brokers had forgotten the id. What is
not committed is composed again.
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
    """With transactions: who reads committed sees each output once, and the rows that go with it."""

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
        """Write to these topics; each partition connects when it is assigned."""
        self._topics = topics

    async def stop(self) -> None:
        """Close all connections; transactions that are open are aborted."""
        await self._release()

    async def assign(self, partitions: Collection[int]) -> None:
        """Write for these partitions alone, each under its transactional id, and nobody else from now on.

        What others began to write for them is committed or aborted when this returns. Not while others may
        have the partitions: it would stop them.

        Raises:
            RecoveryFailedError: no coordinator took us within `recovery_timeout_s`.
        """
        place, within_s = self._settings.requests_topic, self._settings.recovery_timeout_s
        try:
            async with asyncio.timeout(within_s):
                await self._release()
                await self._membership.held()
                await asyncio.gather(*(self._connect(partition) for partition in partitions))
        except TimeoutError:
            why = f"no transaction could begin for {within_s:g} s"
            raise RecoveryFailedError(place, why) from None
        except KafkaError as error:
            raise RecoveryFailedError(place, str(error) or type(error).__name__) from error

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
        """Let a batch wait for the transaction of those before it."""
        self._waiting[writing.batch.partition].append(writing)

    async def finish(self, writing: Writing) -> None:
        """Commit a batch, and with it those behind it that wait: the fewer transactions, the sooner all are.

        Raises:
            FencedError: the partition is another worker's, or brokers have ended the transaction.
            KafkaError, TimeoutError: it was not acknowledged in time; if that was its end, it may be yet.
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
        """Make a transaction of these batches, and return where their rows stand.

        Brokers forget a transactional id that was idle for `transactional.id.expiration.ms`. It is then
        initialised again, and the transaction, of which nothing was written, is made again.
        """
        try:
            rows = await self._fill(partition, together)
        except KafkaError as error:
            if not isinstance(error.__cause__ or error, InvalidProducerIdMapping):
                raise
            await self._membership.held()  # else the id may be unknown because another worker has a newer one
            await self._producers[partition].stop()
            await self._connect(partition)
            rows = await self._fill(partition, together)
        await self._producers[partition].commit()
        return rows

    async def _fill(self, partition: int, together: Sequence[Writing]) -> list[Sent]:
        """Begin a transaction, and return when all of these batches is in it."""
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
        place = TopicPartition(self._settings.requests_topic, partition)
        sent = [*outputs, *rows]
        await asyncio.gather(acknowledged(sent), producer.send_offset(place, offset, metadata, sent))
        return rows

    def abandon(self, writing: Writing) -> None:
        """Give the partition's transaction up. One that is being committed may stand: it is read back."""
        partition = writing.batch.partition
        self._waiting.pop(partition, None)
        if producer := self._producers.pop(partition, None):
            self._let_go(producer)

    def _let_go(self, producer: TransactionalProducer) -> None:
        stopping = asyncio.create_task(producer.stop())
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopping.discard)

    async def _release(self) -> None:
        """Give up all partitions."""
        self._waiting.clear()
        while self._producers:
            self._let_go(self._producers.popitem()[1])
        if self._stopping:
            await asyncio.wait(self._stopping)
