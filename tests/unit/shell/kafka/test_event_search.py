"""The search for past records, which reads a partition once for all waiting callers, up to the last match."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.structs import ConsumerRecord

from apportion.settings import Settings
from apportion.shell.kafka import event_search
from apportion.shell.kafka.event_search import EventSearch

pytestmark = pytest.mark.asyncio

ENDS = {TopicPartition("t", 0): 1_000, TopicPartition("t", 1): 10}


class Broker:
    """A consumer of partitions with offsets as the ids and values of records."""

    def __init__(self) -> None:
        self.seeks: list[tuple[int, int]] = []
        self.may_answer = asyncio.Event()
        self.error: KafkaError | None = None
        self._place, self._position = TopicPartition("t", 0), 0

    def assign(self, places: list[TopicPartition]) -> None:
        [self._place] = places

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.seeks.append((place.partition, offset))
        self._position = offset

    async def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return dict.fromkeys(places, 0)

    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: ENDS[place] for place in places}

    async def position(self, _: TopicPartition) -> int:
        return self._position

    async def getmany(self, *_: Any, **__: Any) -> dict[TopicPartition, list[ConsumerRecord]]:
        begin, self._position = self._position, min(self._position + 100, ENDS[self._place])
        return {self._place: [self._record(offset) for offset in range(begin, self._position)]}

    def _record(self, offset: int) -> ConsumerRecord:
        value = b"%d" % offset
        headers = (("ce_source", None), ("ce_id", value))
        return ConsumerRecord("t", self._place.partition, offset, 0, 0, None, value, None, -1, 1, headers)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()

    @asynccontextmanager
    async def open_reader(*_: Any) -> AsyncIterator[Broker]:
        yield made

    monkeypatch.setattr(event_search, "open_reader", open_reader)
    return made


@asynccontextmanager
async def searching() -> AsyncIterator[EventSearch]:
    search = EventSearch(Settings())
    running = asyncio.create_task(search.run())
    yield search
    running.cancel()


async def test_one_read_serves_all_searches_of_a_partition(broker: Broker) -> None:
    async with searching() as search:
        finding = [asyncio.create_task(search.find("t", 0, str(offset))) for offset in range(900, 1_000)]
        again = asyncio.create_task(search.find("t", 0, "999"))
        other = asyncio.create_task(search.find("t", 1, "3"))
        broker.may_answer.set()
        assert await asyncio.gather(*finding) == [b"%d" % offset for offset in range(900, 1_000)]
        assert (await again, await other) == (b"999", b"3")
        assert broker.seeks == [(0, 744), (1, 0)]


async def test_older_records_are_read_in_larger_parts_and_an_unknown_id_is_not_found(broker: Broker) -> None:
    broker.may_answer.set()
    async with searching() as search:
        assert await search.find("t", 0, "700") == b"700"
        assert broker.seeks == [(0, 744), (0, 0)]
        assert await search.find("t", 0, "1000") is None


async def test_a_search_that_is_given_up_reads_no_further(broker: Broker) -> None:
    async with searching() as search:
        given_up = asyncio.create_task(search.find("t", 0, "1"))
        finding = asyncio.create_task(search.find("t", 1, "2"))
        await asyncio.sleep(0)
        given_up.cancel()
        broker.may_answer.set()
        assert await finding == b"2"
        assert broker.seeks == [(0, 744), (1, 0)]


async def test_an_error_fails_waiting_searches_and_not_later_ones(broker: Broker) -> None:
    broker.may_answer.set()
    broker.error = KafkaConnectionError()
    async with searching() as search:
        with pytest.raises(KafkaConnectionError):
            await search.find("t", 1, "1")
        broker.error = None
        assert await search.find("t", 1, "1") == b"1"
