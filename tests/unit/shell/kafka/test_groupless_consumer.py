"""Partitions read to their ends: steps in order, positions without records, and the last step."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from apportion.shell.kafka.groupless_consumer import ReadStep, read_to

pytestmark = pytest.mark.asyncio

FIRST, SECOND = TopicPartition("topic", 0), TopicPartition("topic", 1)


class Partitions:
    """A fake client: each poll returns the next batch of each partition; an int is a moved position."""

    def __init__(self, batches: Mapping[TopicPartition, list[list[int] | int]], position: int = 0) -> None:
        self._batches = batches
        self._positions = dict.fromkeys(batches, position)
        self.polled: list[tuple[TopicPartition, ...]] = []

    async def position(self, place: TopicPartition) -> int:
        return self._positions[place]

    async def getmany(
        self, *places: TopicPartition, timeout_ms: int, max_records: int | None
    ) -> dict[TopicPartition, list[Any]]:
        assert timeout_ms > 0
        assert max_records == 10
        self.polled.append(places)
        read = {}
        for place in places:
            batch = self._batches[place].pop(0)
            if isinstance(batch, int):
                self._positions[place] = batch
            elif batch:
                self._positions[place] = batch[-1] + 1
                read[place] = [SimpleNamespace(offset=offset) for offset in batch]
        return read


async def steps(client: Partitions, ends: Mapping[TopicPartition, int]) -> list[ReadStep]:
    return [step async for step in read_to(client, ends, max_records=10)]


def offsets(step: ReadStep) -> list[int]:
    return [record.offset for record in step.records]


async def test_a_partition_is_read_until_its_position_is_at_its_end() -> None:
    client = Partitions({FIRST: [[0, 1], [2]]})
    read = await steps(client, {FIRST: 3})
    assert [(offsets(step), step.position) for step in read] == [([], 0), ([0, 1], 2), ([2], 3)]


async def test_a_partition_without_anything_to_read_gives_its_position_and_is_not_polled() -> None:
    client = Partitions({FIRST: []}, position=7)
    assert await steps(client, {FIRST: 7}) == [ReadStep(FIRST, (), 7, has_moved=True)]
    assert client.polled == []


async def test_a_position_that_moves_over_markers_of_transactions_reaches_the_end() -> None:
    client = Partitions({FIRST: [[0], 2]})
    read = await steps(client, {FIRST: 2})
    assert [(offsets(step), step.position) for step in read][1:] == [([0], 1), ([], 2)]


async def test_an_empty_poll_is_a_step_without_progress() -> None:
    client = Partitions({FIRST: [[], [0]]})
    assert [step.has_moved for step in await steps(client, {FIRST: 1})] == [True, False, True]


async def test_records_behind_the_end_are_given_if_the_last_poll_brings_them() -> None:
    client = Partitions({FIRST: [[0, 1, 2]]})
    assert offsets((await steps(client, {FIRST: 2}))[-1]) == [0, 1, 2]


async def test_a_partition_that_is_at_its_end_is_polled_no_more() -> None:
    client = Partitions({FIRST: [[0]], SECOND: [[0], [1]]})
    await steps(client, {SECOND: 2, FIRST: 1})
    assert client.polled == [(FIRST, SECOND), (SECOND,)]
