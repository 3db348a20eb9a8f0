"""Internals of the Kafka client's transactions that the worker depends on; a breaking upgrade fails here."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import ConcurrentTransactions, GroupAuthorizationFailedError
from aiokafka.producer import sender
from aiokafka.producer.transaction_manager import TransactionManager, TransactionState
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import OffsetAndMetadata

from apportion.settings import Settings
from apportion.shell.kafka.transactional_producer import TransactionalProducer, new_producer

pytestmark = pytest.mark.asyncio

PLACE = TopicPartition("context-requests", 7)
DEADLINE_S = 5


def manager() -> TransactionManager:
    """Return the client's own account of a transaction that has begun."""
    made = TransactionManager("id", 10_000)
    made.set_pid_and_epoch(1, 1)
    made.begin_transaction()
    return made


def with_client(**parts: Any) -> TransactionalProducer:
    producer = new_producer(Settings(), 7)
    producer._client = SimpleNamespace(**parts)
    return producer


async def test_each_partition_has_a_transactional_id_and_a_timeout_of_ten_seconds() -> None:
    client = new_producer(Settings(app_id="shop"), 7)._new_client()
    assert client._txn_manager.transactional_id == "shop:context-requests:7"
    assert client._txn_manager.transaction_timeout_ms == 10_000
    batch = client.create_batch()
    batch.append(timestamp=None, key=b"k", value=b"v", headers=[])
    assert MemoryRecords(bytes(batch._build())).next_batch().is_transactional
    await client.stop()


async def test_installations_with_equal_joined_names_get_different_ids() -> None:
    first = new_producer(Settings(app_id="apportion", requests_topic="staging-context-requests"), 0)
    second = new_producer(Settings(app_id="apportion-staging", requests_topic="context-requests"), 0)
    assert first.transactional_id != second.transactional_id


async def test_the_client_retries_soon_while_the_last_transaction_is_ending() -> None:
    client = new_producer(Settings(), 7)._new_client()
    own = SimpleNamespace(_retry_backoff=0.1, _txn_manager=manager())
    handler = sender.AddPartitionsToTxnHandler(own, {PLACE})
    answer = SimpleNamespace(errors=[(PLACE.topic, [(PLACE.partition, ConcurrentTransactions.errno)])])
    assert handler.handle_response(answer) == 0.002
    await client.stop()


async def test_metadata_travel_with_the_offset() -> None:
    own = SimpleNamespace(_retry_backoff=0.1, _txn_manager=manager())
    offsets = {PLACE: OffsetAndMetadata(5, "known")}
    request = sender.TxnOffsetCommitHandler(own, offsets, "group").create_request()
    assert request._topics == [(PLACE.topic, [(PLACE.partition, 5, "known")])]


async def test_partitions_are_added_to_the_transaction_before_the_offset() -> None:
    """Only then does the client wait for the transaction before as shortly as above."""
    transaction, asked = manager(), []
    own: Any = SimpleNamespace(_txn_manager=transaction)

    async def add(partitions: Any) -> None:
        asked.append(set(partitions))

    own._do_add_partitions_to_txn = add
    adding = transaction.add_offsets_to_txn({PLACE: OffsetAndMetadata(5, "")}, "group")
    transaction.maybe_add_partition_to_txn(PLACE)
    await sender.Sender._maybe_do_transactional_request(own)
    assert asked == [{PLACE}]
    adding.cancel()


@pytest.mark.parametrize("state", [TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR])
async def test_a_transaction_that_is_open_is_aborted(state: TransactionState) -> None:
    transaction, aborted = manager(), asyncio.Event()
    transaction.state = state

    async def abort_transaction() -> None:
        aborted.set()

    await with_client(_txn_manager=transaction, abort_transaction=abort_transaction).abort()
    assert aborted.is_set()


async def test_abort_leaves_a_committing_transaction_alone() -> None:
    transaction = manager()
    transaction.committing_transaction()
    await with_client(_txn_manager=transaction).abort()
    assert transaction.state is TransactionState.COMMITTING_TRANSACTION


async def test_stopping_does_not_wait_for_unsent_records() -> None:
    producer = new_producer(Settings(), 7)
    await producer.stop()
    client = producer._client = producer._new_client()
    client._txn_manager.set_pid_and_epoch(1, 1)
    client._txn_manager.begin_transaction()
    producer.send("context-composed", 7, [[(b"k", b"v", ())]])
    client._txn_manager.committing_transaction()
    async with asyncio.timeout(DEADLINE_S):
        await producer.stop()
    assert client._closed


async def test_the_offset_is_sent_after_all_records_are_acknowledged() -> None:
    """A broker that still asks about the records gives them up for it."""
    producer = new_producer(Settings(), 7)
    client = producer._client = producer._new_client()
    transaction = client._txn_manager
    transaction.set_pid_and_epoch(1, 1)
    transaction.begin_transaction()
    transaction.consumer_group_added("apportion")
    [record_batch] = producer.send("context-composed", 7, [[(b"k", b"v", ())]])
    transaction.partition_added(TopicPartition("context-composed", 7))
    left: list[str] = []

    async def left_for(*_: Any) -> int:
        left.append("offset")
        raise GroupAuthorizationFailedError

    client._sender._find_coordinator = left_for
    sending = asyncio.ensure_future(producer.send_offset(PLACE, 5, "known", [record_batch]))
    await asyncio.sleep(0)
    leaving = client._sender._maybe_do_transactional_request()
    await asyncio.wait({leaving}, timeout=0.05)
    assert left == []
    record_batch._batch.done(0)
    await leaving
    assert left == ["offset"]
    with pytest.raises(GroupAuthorizationFailedError):
        await sending
    client._closed = True
