"""Reader of the answers to a client's own events, found by the header that workers copy to the answer.

It reads all partitions of its topics from their ends, without a group, and decodes no values.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from apportion.core.wire.cloudevents import CALLER_HEADER
from apportion.settings import Settings
from apportion.shell.kafka.groupless_consumer import FETCH_MAX_BYTES, open_reader, patiently
from apportion.shell.kafka.record_consumer import RecordConsumer

_POLL_MS = 1_000
_REACHABLE_TIMEOUT_S = 2.0


class AnswersUnreadError(Exception):
    """The answers can no longer be read."""

    code = "answers_unread"

    def __init__(self, error: KafkaError) -> None:
        super().__init__(f"the output topics cannot be read ({type(error).__name__}); start again")


class CallerReader:
    """Gives records to the callers that wait for them; made by `open_caller_reader`."""

    def __init__(self, consumer: RecordConsumer) -> None:
        self._consumer = consumer
        self._waiting: dict[bytes, tuple[bytes, asyncio.Future[ConsumerRecord]]] = {}

    @contextmanager
    def expecting(self, caller: bytes, key: bytes) -> Iterator["asyncio.Future[ConsumerRecord]"]:
        """Yield a future of the next record with this key and with this caller in its header."""
        future: asyncio.Future[ConsumerRecord] = asyncio.get_running_loop().create_future()
        self._waiting[caller] = key, future
        try:
            yield future
        finally:
            del self._waiting[caller]

    async def run(self) -> None:
        """Read until cancelled; raise AnswersUnreadError if a partition can no longer be read."""
        try:
            while True:
                for records in (await self._consumer.getmany(timeout_ms=_POLL_MS)).values():
                    self.take(records)
                await asyncio.sleep(0)  # while the client has records, it lets no other task run
        except KafkaError as error:
            raise AnswersUnreadError(error) from error

    def take(self, records: Iterable[ConsumerRecord]) -> None:
        """Give each record to the caller that waits for it."""
        for record in records:
            for name, value in record.headers:
                if name == CALLER_HEADER and value in self._waiting:
                    key, future = self._waiting[value]
                    if record.key == key and not future.done():
                        future.set_result(record)

    async def is_reached(self) -> bool:
        """Return whether the leader of an assigned partition answers within 2 s."""
        try:
            async with asyncio.timeout(_REACHABLE_TIMEOUT_S):
                await self._consumer.end_offsets(list(self._consumer.assignment())[:1])
        except (KafkaError, TimeoutError):
            return False
        return True


@asynccontextmanager
async def open_caller_reader(settings: Settings, topics: Iterable[str]) -> AsyncIterator[CallerReader]:
    """Yield a reader of all records from now on; waits until a broker answers. The caller runs the reader."""
    async with open_reader(settings, "read_committed", FETCH_MAX_BYTES) as consumer:
        partitions = [
            TopicPartition(topic, number) for topic in topics for number in range(settings.partitions)
        ]
        consumer.assign(partitions)
        for partition, end in (await patiently(consumer.end_offsets, partitions)).items():
            consumer.seek(partition, end)
        yield CallerReader(consumer)
