"""Transactions of workers: a reader of committed records sees each output once, despite failures.

On Apache Kafka alone: after an aborted transaction the embedded broker hides committed records (ADR 2).
"""

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiokafka import TopicPartition
from aiokafka.errors import ProducerFenced
from reliability.topics import audit_topics
from support.containers import container, free_port
from support.requiring import DOCKER
from support.running import DEADLINE_S, Stage, ids, own_settings, requests, staged, worker_running

from apportion.core.session.row import Session
from apportion.settings.value_types import Guarantee
from apportion.shell.kafka.commits import read_commits
from apportion.shell.kafka.topics import changelog_topic
from apportion.shell.kafka.transactional_producer import TransactionalProducer, new_producer
from apportion.shell.stream.pipeline.writer import acknowledged
from apportion.shell.stream.state.recovery import partition_rows, recover
from apportion.shell.stream.state.row_format import Row, encode_row

pytestmark = pytest.mark.asyncio

KILLED = """
import os, signal
from apportion.shell.kafka.transactional_producer import TransactionalProducer
commit, calls = TransactionalProducer.commit, []
async def killed(self):
    calls.append(self)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.{signal})
    await commit(self)
TransactionalProducer.commit = killed
"""
KEY = b"default/s"


@pytest_asyncio.fixture
async def stage(kafka: str) -> AsyncIterator[Stage]:
    settings = own_settings(kafka, guarantee=Guarantee.EXACTLY_ONCE)
    async with staged(settings, "read_committed") as made:
        yield made


async def assert_seen_once(stage: Stage, sent: int) -> None:
    outputs = await stage.outputs.wait_for_end()
    assert len(outputs.decisions) == len(outputs.composed) == sent
    audited = await audit_topics(stage.settings, once=True)
    assert audited.is_right, audited.found
    assert audited.repeated == audited.late_rows == 0


async def write_row(stage: Stage, producer: TransactionalProducer, offset: int) -> None:
    """Write a row that has seen this offset, and the offset behind it."""
    value = encode_row(Row(offset, Session(start_us=0, last_event_us=1, idle_timeout_s=60, prompts=offset)))
    await producer.begin()
    sent = producer.send(changelog_topic(stage.settings), 0, [[(KEY, value, ())]])
    place = TopicPartition(stage.settings.requests_topic, 0)
    await asyncio.gather(
        acknowledged(sent), producer.send_offset(place, offset + 1, f'{{"failures":{offset}}}', sent)
    )


async def test_a_kill_during_a_transaction_loses_and_repeats_no_record(
    stage: Stage,
) -> None:
    sent = requests("r", 400)
    await stage.send(*sent)
    async with worker_running(
        stage.settings, until_ready=False, prelude=KILLED.format(signal="SIGKILL")
    ) as worker:
        assert await worker.ended() == -signal.SIGKILL
    async with worker_running(stage.settings) as worker:
        await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
        assert await worker.stop() == 0
    await assert_seen_once(stage, len(sent))


async def test_a_worker_that_wakes_in_a_replaced_transaction_writes_nothing(
    stage: Stage,
) -> None:
    sent = requests("r", 200)
    await stage.send(*sent)
    async with worker_running(
        stage.settings, until_ready=False, prelude=KILLED.format(signal="SIGSTOP")
    ) as zombie:
        await zombie.wait_for_line("message=ready")
        async with worker_running(stage.settings, until_ready=False) as successor:
            await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
            zombie.process.send_signal(signal.SIGCONT)
            later = requests("later", 40)
            await stage.send(*later)
            await stage.outputs.wait_for(lambda out: out.answered(ids(later)))
            assert await successor.stop() == 0
    await assert_seen_once(stage, len(sent) + len(later))


async def test_a_successor_fences_its_predecessor_and_its_open_transaction(
    stage: Stage,
) -> None:
    settings = stage.settings
    topics = (changelog_topic(settings),)
    for _ in range(3):
        await (await stage.send_raw(KEY, b"{}", partition=0))
    before, after = new_producer(settings, 0), new_producer(settings, 0)
    try:
        await before.start(topics)
        await write_row(stage, before, 1)
        await before.commit()
        await write_row(stage, before, 2)
        await after.start(topics)
        with pytest.raises(ProducerFenced):
            await before.commit()
        rows = partition_rows(settings, 0)
        async with asyncio.timeout(DEADLINE_S):
            await recover(settings, {0: rows})
        row = rows.row(KEY)
        assert row is not None
        assert row.seen_offset == 1
        commit = (await read_commits(settings, [0]))[0]
        assert (commit.offset, commit.metadata.failures) == (2, 1)
    finally:
        await before.stop()
        await after.stop()


async def test_a_transactional_id_that_the_broker_has_forgotten_costs_nothing() -> None:
    DOCKER.require()
    port, before, after = free_port(), requests("before", 8), requests("after", 8)
    forgetting = container(
        port,
        KAFKA_TRANSACTIONAL_ID_EXPIRATION_MS="2000",
        KAFKA_TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS="500",
    )
    settings = own_settings(f"127.0.0.1:{port}", guarantee=Guarantee.EXACTLY_ONCE)
    with forgetting:
        async with staged(settings, "read_committed") as stage, worker_running(settings) as worker:
            await stage.send(*before)
            await stage.outputs.wait_for(lambda out: out.answered(ids(before)))
            await asyncio.sleep(4)  # twice the time after which the broker expires the id
            await stage.send(*after)
            await stage.outputs.wait_for(lambda out: out.answered(ids(after)))
            assert await worker.stop() == 0
            assert "InvalidProducerIdMapping" in worker.log
            await assert_seen_once(stage, len(before) + len(after))
