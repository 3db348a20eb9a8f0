"""The producer's record batches: records that belong together share a batch."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.cluster import ClusterMetadata
from aiokafka.producer.message_accumulator import BatchBuilder, MessageAccumulator
from aiokafka.record.memory_records import MemoryRecords

from apportion.settings import Settings
from apportion.shell.kafka.producer import RecordProducer
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES

pytestmark = pytest.mark.asyncio

PLACE = TopicPartition("t", 0)
HEADERS = (("ce_id", b"1"), ("ce_type", b"x"))


@pytest.fixture
def producer() -> RecordProducer:
    return RecordProducer(Settings())


def connect(producer: RecordProducer) -> MessageAccumulator:
    """Give it the client's queue, without a client."""
    accumulator = MessageAccumulator(ClusterMetadata(), MESSAGE_MAX_BYTES, 0, 30)
    client: Any = SimpleNamespace(create_batch=accumulator.create_builder, _message_accumulator=accumulator)
    producer._client = client
    return accumulator


def records_of(builder: BatchBuilder) -> list[tuple[bytes, bytes, list[tuple[str, bytes]]]]:
    memory = MemoryRecords(bytes(builder._build()))
    batch = memory.next_batch()
    return [(record.key, record.value, record.headers) for record in batch]


def queued(accumulator: MessageAccumulator) -> list[BatchBuilder]:
    return [one._builder for one in accumulator._batches.get(PLACE, ())]


async def test_records_leave_in_their_order_in_one_record_batch(producer: RecordProducer) -> None:
    accumulator = connect(producer)
    [sent] = producer.send("t", 0, [[(b"k", b"1", HEADERS)], [(b"l", b"2", ()), (b"m", None, ())]])
    assert sent.records == 3
    [builder] = queued(accumulator)
    assert records_of(builder) == [(b"k", b"1", list(HEADERS)), (b"l", b"2", []), (b"m", None, [])]


async def test_nothing_to_send_is_no_record_batch(producer: RecordProducer) -> None:
    accumulator = connect(producer)
    assert producer.send("t", 0, []) == []
    assert queued(accumulator) == []


async def test_records_that_belong_together_share_a_batch(producer: RecordProducer) -> None:
    accumulator = connect(producer)
    third = b"x" * (MESSAGE_MAX_BYTES // 3)
    groups = [[(b"a", third, ())], [(b"b", third, ()), (b"c", third, ())], [(b"d", b"", ())]]
    assert [one.records for one in producer.send("t", 0, groups)] == [1, 3]
    assert [batch.size() <= MESSAGE_MAX_BYTES for batch in queued(accumulator)] == [True, True]


async def test_the_next_record_batch_queues_behind_the_first_without_waiting(
    producer: RecordProducer,
) -> None:
    accumulator = connect(producer)
    for value in (b"1", b"2"):
        producer.send("t", 0, [[(b"k", value, ())]])
    assert [records_of(batch)[0][1] for batch in queued(accumulator)] == [b"1", b"2"]


async def test_withdrawn_records_leave_the_queue_unless_already_tried(producer: RecordProducer) -> None:
    accumulator = connect(producer)
    first, second = (producer.send("t", 0, [[(b"k", value, ())]]) for value in (b"1", b"2"))
    accumulator._batches[PLACE][0].drain_ready()
    producer.withdraw([*first, *second])
    assert [records_of(batch)[0][1] for batch in queued(accumulator)] == [b"1"]
    assert not first[0].acknowledged.done()
    assert second[0].acknowledged.cancelled()


async def test_an_acknowledgement_has_the_offset_of_the_first_record(producer: RecordProducer) -> None:
    accumulator = connect(producer)
    [sent] = producer.send("t", 0, [[(b"k", b"1", ())]])
    accumulator._batches[PLACE][0].done(41)
    assert sent.acknowledged.done()
    assert sent.offset == 41


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4", "zstd"])
async def test_record_batches_are_compressed_by_the_settings(compression: str) -> None:
    client = RecordProducer(Settings(compression=compression))._new_client()
    batch = client.create_batch()
    for _ in range(100):
        batch.append(timestamp=None, key=b"k", value=b"the same again and again", headers=[])
    plain = batch.size()
    built = len(batch._build())
    await client.stop()
    assert built == plain if compression == "none" else built < plain / 2
