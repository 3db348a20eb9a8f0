"""The consumer gives what its own parser reads of each answer, and reacts to errors as aiokafka does."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.errors import KafkaConnectionError, OffsetOutOfRangeError, TopicAuthorizationFailedError
from aiokafka.protocol.fetch import FetchRequest
from support.batches import TRANSACTIONAL, bomb, raw_batch, raw_record, with_bad_header_name

from apportion.shell.kafka.record_batches import UnreadableRecord
from apportion.shell.kafka.record_consumer import RecordConsumer, RecordFetcher

pytestmark = pytest.mark.asyncio

PLACE = TopicPartition("t", 0)
OUT_OF_RANGE, NOT_LEADER, NOT_ALLOWED, UNKNOWN = 1, 6, 29, -1


@dataclass
class Answer:
    """A response of a broker, of one partition."""

    data: bytes = b""
    error_code: int = 0
    aborted: Any = None
    API_VERSION: int = 4
    end: int = 9

    @property
    def topics(self) -> list[Any]:
        rest = {4: (9, self.aborted), 5: (9, 0, self.aborted), 11: (9, 0, self.aborted, -1)}[self.API_VERSION]
        return [("t", [(0, self.error_code, self.end, *rest, self.data)])]


@dataclass
class Asked:
    """A consumer with a broker that gives one answer."""

    consumer: RecordConsumer
    metadata_updates: list[None] = field(default_factory=list)

    async def fetch(self, answer: Answer | Exception, offset: int = 0) -> bool:
        fetcher = self.consumer._fetcher

        async def send(*_: Any) -> Answer:
            if isinstance(answer, Exception):
                raise answer
            return answer

        fetcher._client.send = send
        fetcher._client.force_metadata_update = lambda: self.metadata_updates.append(None)
        fetcher._retry_backoff = 0
        assignment = self.consumer._subscription.subscription.assignment
        request = FetchRequest(0, 0, 0, 1, [("t", [(0, offset, 1 << 20)])])
        news: bool = await fetcher._proc_fetch_request(assignment, 0, request)
        return news

    async def read(self) -> list[Any]:
        batches = await self.consumer._fetcher.fetched_records((PLACE,))
        return list(batches.get(PLACE, []))


@pytest_asyncio.fixture
async def asked(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    async def start(client: Any) -> None:
        client._fetcher = Fetcher(client._client, client._subscription)

    monkeypatch.setattr(AIOKafkaConsumer, "start", start)
    consumer = RecordConsumer(
        batch_decompressed_max_bytes=1 << 20, auto_offset_reset="none", isolation_level="read_committed"
    )
    await consumer.start()
    consumer._fetcher._fetch_task.cancel()
    consumer.assign([PLACE])
    consumer.seek(PLACE, 0)
    yield Asked(consumer)
    consumer._closed = True


def good(offset: int, **options: Any) -> bytes:
    return raw_batch([raw_record(0, b"k", b"v")], offset, **options)


async def test_it_fetches_by_its_own_parser(asked: Asked) -> None:
    assert type(asked.consumer._fetcher) is RecordFetcher
    data = good(0) + with_bad_header_name(b"v").replace(bytes(8), (1).to_bytes(8, "big"), 1) + good(2)
    assert await asked.fetch(Answer(data))
    records = await asked.read()
    assert [(record.offset, type(record) is UnreadableRecord) for record in records] == [
        (0, False),
        (1, True),
        (2, False),
    ]
    assert await asked.consumer.position(PLACE) == 3
    assert asked.consumer.highwater(PLACE) == 9


async def test_its_bound_is_the_bound_of_decompression(asked: Asked) -> None:
    await asked.fetch(Answer(bomb(2 << 20)))
    (record,) = await asked.read()
    assert "1048576" in record.reason


@pytest.mark.parametrize("version", [4, 5, 11])
async def test_records_of_aborted_transactions_are_left_out(asked: Asked, version: int) -> None:
    data = good(0, attributes=TRANSACTIONAL, producer_id=7) + good(1)
    await asked.fetch(Answer(data, aborted=[(7, 0)], API_VERSION=version))
    assert [record.offset for record in await asked.read()] == [1]


async def test_an_empty_answer_is_no_news(asked: Asked) -> None:
    assert not await asked.fetch(Answer())
    assert await asked.read() == []
    assert asked.consumer.highwater(PLACE) == 9


async def test_a_batch_that_was_appended_after_the_broker_took_the_end_is_read_from_the_next_answer(
    asked: Asked,
) -> None:
    for offset in (0, 1):
        assert not await asked.fetch(Answer(good(offset), end=offset), offset)
        assert await asked.read() == []
        assert await asked.consumer.position(PLACE) == offset
        assert await asked.fetch(Answer(good(offset), end=offset + 1), offset)
        (record,) = await asked.read()
        assert (record.offset, type(record) is UnreadableRecord) == (offset, False)


async def test_a_batch_that_is_behind_the_end_of_a_second_answer_is_damaged(asked: Asked) -> None:
    far = good(1_000)
    assert not await asked.fetch(Answer(far))
    assert await asked.fetch(Answer(far))
    (record,) = await asked.read()
    assert (record.offset, type(record) is UnreadableRecord) == (0, True)


async def test_a_once_early_end_does_not_affect_a_later_read_of_the_offset(asked: Asked) -> None:
    assert not await asked.fetch(Answer(good(0), end=0))
    assert await asked.fetch(Answer(good(0), end=1))
    await asked.read()
    asked.consumer.seek(PLACE, 0)
    assert not await asked.fetch(Answer(good(0), end=0))


async def test_a_batch_with_a_wrong_checksum_is_fetched_again_before_it_counts_as_damaged(
    asked: Asked,
) -> None:
    flipped = good(0)[:-3] + bytes([good(0)[-3] ^ 1]) + good(0)[-2:]
    assert not await asked.fetch(Answer(flipped))
    assert await asked.fetch(Answer(good(0)))
    (record,) = await asked.read()
    assert (record.offset, type(record) is UnreadableRecord) == (0, False)
    asked.consumer.seek(PLACE, 0)
    assert not await asked.fetch(Answer(flipped))
    assert await asked.fetch(Answer(flipped))
    (record,) = await asked.read()
    assert (record.offset, type(record) is UnreadableRecord) == (0, True)


async def test_an_empty_answer_or_another_assignment_restarts_the_count(asked: Asked) -> None:
    assert not await asked.fetch(Answer(good(0), end=0))
    assert not await asked.fetch(Answer(end=0))
    assert not await asked.fetch(Answer(good(0), end=0))
    asked.consumer.assign([PLACE])
    asked.consumer.seek(PLACE, 0)
    assert not await asked.fetch(Answer(good(0), end=0))
    assert await asked.fetch(Answer(good(0), end=1))


@pytest.mark.parametrize(
    ("code", "error"),
    [(OUT_OF_RANGE, OffsetOutOfRangeError), (NOT_ALLOWED, TopicAuthorizationFailedError)],
)
async def test_errors_for_the_user_are_raised(asked: Asked, code: int, error: type[Exception]) -> None:
    assert await asked.fetch(Answer(error_code=code))
    with pytest.raises(error):
        await asked.read()


async def test_a_new_leader_is_looked_for_and_nothing_raised(asked: Asked) -> None:
    assert not await asked.fetch(Answer(error_code=NOT_LEADER))
    assert asked.metadata_updates
    assert not await asked.fetch(Answer(error_code=UNKNOWN))
    assert not await asked.fetch(KafkaConnectionError())
    assert await asked.read() == []


async def test_an_answer_from_before_a_seek_is_dropped(asked: Asked) -> None:
    asked.consumer.seek(PLACE, 5)
    assert not await asked.fetch(Answer(good(0)))
    assert await asked.consumer.position(PLACE) == 5
