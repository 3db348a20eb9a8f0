"""The reader of requests: its calls to the client, and its answers."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.errors import OffsetOutOfRangeError as NotInTopicError

from apportion.settings import Settings
from apportion.shell.kafka.faults import OffsetOutOfRangeError
from apportion.shell.kafka.reader import RequestReader
from apportion.shell.kafka.record_consumer import RecordConsumer

pytestmark = pytest.mark.asyncio

PLACE = TopicPartition("context-requests", 0)


@pytest_asyncio.fixture
async def reader(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RequestReader]:
    """A reader with an unconnected client."""

    async def start(client: Any) -> None:
        client._fetcher = Fetcher(client._client, client._subscription)
        client._fetcher._fetch_task.cancel()

    monkeypatch.setattr(RecordConsumer, "start", start)
    made = RequestReader(Settings())
    await made.start()
    yield made
    made._client._closed = True


async def test_it_reads_committed_records_and_never_resets_offsets(reader: RequestReader) -> None:
    client = reader._client
    assert client._isolation_level == "read_committed"
    assert client._auto_offset_reset == "none"
    assert client._group_id is None


async def test_it_reports_the_position_of_a_partition(reader: RequestReader) -> None:
    assert reader.position_of(0) is None
    reader.flow_from({0: 5})
    assert reader.position_of(0) == 5
    assert reader.position_of(1) is None


async def test_partitions_that_no_longer_flow_are_not_read(reader: RequestReader) -> None:
    reader.flow_from({0: 5, 1: 7})
    reader.flow_from({1: 9})
    assert [reader.position_of(number) for number in (0, 1)] == [None, 9]
    reader.flow_from({})
    assert reader.position_of(1) is None


async def test_records_are_read_by_partition(reader: RequestReader, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    records = [object()]

    async def getmany(*places: TopicPartition, timeout_ms: int, max_records: int) -> dict[Any, Any]:
        asked.append((places, timeout_ms, max_records))
        return {PLACE: records}

    monkeypatch.setattr(reader._client, "getmany", getmany)
    assert await reader.read([0, 1], 0.2) == {0: records}
    assert asked == [((PLACE, TopicPartition("context-requests", 1)), 200, 1_000)]


async def test_an_offset_outside_its_topic_ends_the_read_with_the_valid_range(
    reader: RequestReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def getmany(*_: object, **__: object) -> None:
        raise NotInTopicError({PLACE: 2})

    async def begins(_: object) -> dict[TopicPartition, int]:
        return {PLACE: 3}

    async def ends(_: object) -> dict[TopicPartition, int]:
        return {PLACE: 30}

    monkeypatch.setattr(reader._client, "getmany", getmany)
    monkeypatch.setattr(reader._client, "beginning_offsets", begins)
    monkeypatch.setattr(reader._client, "end_offsets", ends)
    told = "context-requests partition 0 goes on at offset 2, and the topic has those from 3 to before 30"
    with pytest.raises(OffsetOutOfRangeError, match=told):
        await reader.read([0], 1.0)
