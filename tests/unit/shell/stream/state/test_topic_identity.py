"""Identity of the requests topic: a worker ends if its topic is replaced."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from apportion.settings import Settings
from apportion.shell.kafka import groupless_consumer
from apportion.shell.stream.state import topic_identity
from apportion.shell.stream.state.faults import RequestsReplacedError
from apportion.shell.stream.state.topic_identity import RequestsWatch

pytestmark = pytest.mark.asyncio

TOPIC = Settings().requests_topic


class Topic:
    """A fake client: a topic with records of these times in each partition, from an offset on."""

    def __init__(self, *times_ms: int, begin: int = 0) -> None:
        self.times_ms, self.begin = times_ms, begin
        self.is_away = False
        self.positions: dict[TopicPartition, int] = {}

    async def beginning_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        if self.is_away:
            raise KafkaConnectionError
        return dict.fromkeys(places, self.begin)

    async def end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self.begin + len(self.times_ms))

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self.positions = dict.fromkeys(places, 0)

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.positions[place] = offset

    async def position(self, place: TopicPartition) -> int:
        return self.positions[place]

    async def getmany(
        self, *places: TopicPartition, timeout_ms: int, max_records: int | None
    ) -> dict[TopicPartition, list[Any]]:
        assert timeout_ms > 0
        assert max_records is None
        batches = {}
        for place in places:
            offset = self.positions[place]
            self.positions[place] += 1
            timestamp = self.times_ms[offset - self.begin]
            batches[place] = [SimpleNamespace(offset=offset, timestamp=timestamp)]
        return batches


class Looking:
    """A worker's watch, and the topic that it finds."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.durable = {0: 3}
        self.watch = RequestsWatch(Settings(), lambda: self.durable)

    async def finds(self, topic: Topic) -> None:
        self.topic = topic
        await self.watch.look()


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Looking:
    made = Looking(Topic(10, 20, 30))

    @asynccontextmanager
    async def open_reader(*_: object) -> AsyncIterator[Topic]:
        yield made.topic

    monkeypatch.setattr(topic_identity, "open_reader", open_reader)
    monkeypatch.setattr(groupless_consumer, "_LAG_S", 0.0)
    return made


async def test_a_topic_that_continues_is_the_same_topic(looking: Looking) -> None:
    await looking.watch.look()
    looking.durable = {0: 5}
    await looking.finds(Topic(10, 20, 30, 40, 50))
    await looking.finds(Topic(40, 50, 60, begin=3))


async def test_another_record_at_a_seen_offset_is_another_topic(looking: Looking) -> None:
    await looking.watch.look()
    looking.durable = {0: 5}
    why = f"{TOPIC} partition 0 up to offset 2, and that record was of time 30, not 33"
    with pytest.raises(RequestsReplacedError, match=why):
        await looking.finds(Topic(31, 32, 33, 34, 35))


async def test_a_topic_that_ends_before_the_seen_offset_is_another_topic(looking: Looking) -> None:
    await looking.watch.look()
    with pytest.raises(RequestsReplacedError, match="up to offset 2, and it ends at 1"):
        await looking.finds(Topic(10))


async def test_retention_is_no_replacement_and_remaining_records_are_noted(
    looking: Looking,
) -> None:
    await looking.watch.look()
    looking.durable = {0: 9}
    await looking.finds(Topic(80, 90, begin=7))
    with pytest.raises(RequestsReplacedError, match="up to offset 8"):
        await looking.finds(Topic(*range(100, 110)))


async def test_unreachable_brokers_are_ignored_until_the_next_look(looking: Looking) -> None:
    await looking.watch.look()
    away = Topic()
    away.is_away = True
    await looking.finds(away)
    with pytest.raises(RequestsReplacedError):
        await looking.finds(Topic(31, 32, 33))


async def test_partitions_that_are_another_workers_are_forgotten(looking: Looking) -> None:
    await looking.watch.look()
    looking.durable = {}
    await looking.finds(Topic(31, 32, 33))
    looking.durable = {0: 3}
    await looking.finds(Topic(31, 32, 33))


async def test_a_partition_without_durable_events_is_not_checked(looking: Looking) -> None:
    looking.durable = {0: 0}
    await looking.finds(Topic())
