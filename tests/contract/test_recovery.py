"""Sessions come back from Kafka exactly, or the worker says why not and changes nothing."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain
from signal import SIGCONT, SIGSTOP

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import RecordsToDelete
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from msgspec.structs import replace
from support.containers import container, free_port
from support.requiring import DOCKER
from support.running import (
    DEADLINE_S,
    Stage,
    Worker,
    ids,
    own_settings,
    request,
    requests,
    staged,
    worker_running,
)

from apportion.core.events import Candidate
from apportion.core.session.pool import Pooled
from apportion.core.session.row import Session
from apportion.settings import Settings
from apportion.shell.kafka.admin import admin_client
from apportion.shell.kafka.connection import connection_arguments
from apportion.shell.kafka.topics import changelog_topic, create_topics
from apportion.shell.stream.state.faults import RecoveryFailedError, UnreadableStateError
from apportion.shell.stream.state.recovery import partition_rows, read_rows, recover
from apportion.shell.stream.state.row_format import Row, StateRecord, encode_row, tombstone
from apportion.shell.stream.state.rows import PartitionRows
from apportion.version import __version__

pytestmark = pytest.mark.asyncio

STALLED_S = 3.0
TAKING_OVER = """
import asyncio, sys
from apportion.shell.stream.faust_app import table_recovery

recover = table_recovery.recover

async def told(*arguments):
    sys.stderr.write("taking over\\n")
    await asyncio.sleep(1)
    await recover(*arguments)

table_recovery.recover = told
"""
"""Log the assignment of partitions, and leave time to stop the broker."""
LOOKING = """
import sys
from apportion.shell.stream.state import topic_identity as same_requests

look = same_requests.RequestsWatch.look

async def told(watch):
    await look(watch)
    sys.stderr.write(f"seen of {len(watch._seen)} partitions\\n")

same_requests.RequestsWatch.look = told
same_requests._LOOK_S = 0.2
"""
"""Check the identity of the topic often, and log the partitions with seen records."""
KEY = b"default/s"


@pytest_asyncio.fixture
async def stage(kafka: str) -> AsyncIterator[Stage]:
    async with staged(own_settings(kafka)) as made:
        yield made


def session(prompts: int, *pool: Pooled) -> Session:
    return Session(start_us=0, last_event_us=1, idle_timeout_s=60, prompts=prompts, pool=pool)


def row(key: bytes, seen_offset: int, prompts: int) -> StateRecord:
    return key, encode_row(Row(seen_offset, session(prompts))), ()


@asynccontextmanager
async def writing(settings: Settings, **arguments: str) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(**connection_arguments(settings), acks="all", **arguments) as producer:
        yield producer


async def write(producer: AIOKafkaProducer, settings: Settings, *records: StateRecord) -> None:
    """Write to the changelog, in partition 0."""
    topic = changelog_topic(settings)
    sent = [
        await producer.send(topic, value, key, partition=0, headers=list(headers))
        for key, value, headers in records
    ]
    await asyncio.gather(*sent)


async def requests_there(stage: Stage, count: int) -> None:
    """Have some requests in partition 0, that rows may have seen."""
    sent = [await stage.send_raw(KEY, b"{}", partition=0) for _ in range(count)]
    await asyncio.gather(*sent)


async def recovered(settings: Settings, rows: PartitionRows | None = None) -> PartitionRows:
    held = rows or partition_rows(settings, 0)
    async with asyncio.timeout(DEADLINE_S):
        await recover(settings, {0: held})
    return held


async def delete(settings: Settings, topic: str) -> None:
    async with admin_client(settings) as admin, asyncio.timeout(DEADLINE_S):
        await admin.delete_topics([topic])
        while any(found["topic"] == topic for found in await admin.describe_topics()):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)


async def answered(stage: Stage, name: str, count: int = 40) -> None:
    """Let a worker answer requests, and commit them."""
    sent = requests(name, count)
    await stage.send(*sent)
    async with worker_running(stage.settings) as worker:
        await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
        assert await worker.stop() == 0


async def ended_with(worker: Worker, code: str) -> None:
    assert await worker.ended() == 1
    assert code in worker.log


async def test_rows_come_back_exactly_from_among_tombstones_aborted_transactions_and_late_rows(
    stage: Stage,
) -> None:
    settings = stage.settings
    keys = [b"default/%d" % number for number in range(50)]
    async with (
        writing(settings) as plain,
        writing(settings, transactional_id=settings.app_id) as transactional,
    ):
        await write(plain, settings, *(row(key, 1, 1) for key in keys))
        async with transactional.transaction():
            await write(transactional, settings, row(keys[0], 5, 5))
        await transactional.begin_transaction()
        await write(transactional, settings, *(row(key, 99, 99) for key in keys))
        await transactional.abort_transaction()
        await write(plain, settings, row(keys[1], 7, 7), tombstone(keys[2], 1), row(keys[1], 6, 6))
        for _ in range(5):
            await transactional.begin_transaction()
            await write(transactional, settings, row(keys[3], 99, 99))
            await transactional.abort_transaction()
    rows = (await read_rows(settings, [0]))[0]
    expected = {key: Row(1, session(1)) for key in keys} | {
        keys[0]: Row(5, session(5)),
        keys[1]: Row(7, session(7)),
    }
    del expected[keys[2]]
    assert {key: rows.row(key) for key in rows.values} == expected


async def test_recovery_continues_after_its_last_read_offset(stage: Stage) -> None:
    async with writing(stage.settings) as producer:
        await requests_there(stage, 3)
        await write(producer, stage.settings, row(KEY, 1, 1))
        rows = await recovered(stage.settings)
        await write(producer, stage.settings, row(KEY, 2, 2))
    before = rows.changelog_offset
    await recovered(stage.settings, rows)
    assert rows.row(KEY) == Row(2, session(2))
    assert (before, rows.changelog_offset) == (1, 2)


async def test_cancelled_recoveries_release_their_fetched_data(stage: Stage) -> None:
    """As with frequent rebalances: data fetched by the client and never taken is in a reference cycle."""
    settings, held = stage.settings, list[int]()
    async with writing(settings) as producer:
        await write(producer, settings, *(row(b"default/%d" % number, 1, 1) for number in range(2_000)))
    for _ in range(3):
        rows = partition_rows(settings, 0)
        reading = asyncio.create_task(recover(settings, {0: rows}))
        async with asyncio.timeout(DEADLINE_S):
            while not rows:  # noqa: ASYNC110 - a reading tells nobody how far it is
                await asyncio.sleep(0)
        assert not reading.done()
        reading.cancel()
        await asyncio.wait([reading])
        del reading
        gc.collect()
        held.append(sum(isinstance(one, PartitionRecords) for one in gc.get_objects()))
    assert held == [0, 0, 0]


async def test_rows_are_read_from_outside_up_to_an_offset(stage: Stage) -> None:
    rows = PartitionRows("")
    pooled = Pooled("a", Candidate(id="a", content="x"), "sha256:a", 1, 100)
    first, then = Row(1, session(0, pooled)), Row(2, session(1, pooled))
    async with writing(stage.settings) as producer:
        for held in (first, then):
            before = {KEY: rows.row(KEY)}
            rows.hold(KEY, held)
            await write(producer, stage.settings, *chain.from_iterable(rows.changes(before)))
    for ends, expected in (({0: 2}, first), (None, then)):
        found = (await read_rows(stage.settings, [0], ends))[0].row(KEY)
        assert found is not None
        assert replace(found, artifacts=()) == expected


async def test_an_unreached_end_is_an_error_after_a_timeout(stage: Stage) -> None:
    """An open transaction holds back the records committed after it, without a time limit."""
    settings = stage.settings.model_copy(update={"recovery_timeout_s": STALLED_S})
    async with (
        writing(settings, transactional_id=settings.app_id) as transactional,
        writing(settings) as plain,
    ):
        await requests_there(stage, 3)
        await transactional.begin_transaction()
        await write(transactional, settings, row(KEY, 1, 1))
        await write(plain, settings, row(KEY, 2, 2))
        with pytest.raises(RecoveryFailedError, match=f"{changelog_topic(settings)} partition 0 .* 3 s"):
            await recovered(settings)
        await transactional.abort_transaction()
    assert (await recovered(settings)).row(KEY) == Row(2, session(2))


async def test_unreadable_sessions_end_the_worker(stage: Stage) -> None:
    settings = stage.settings.model_copy(update={"recovery_timeout_s": STALLED_S})
    async with writing(settings, transactional_id=settings.app_id) as transactional:
        await transactional.begin_transaction()
        await write(transactional, settings, row(KEY, 1, 1))
        async with worker_running(settings, until_ready=False) as worker:
            await ended_with(worker, "recovery_failed")
        await transactional.abort_transaction()
    async with worker_running(settings) as worker:
        assert await worker.stop() == 0


async def test_silent_brokers_during_a_takeover_end_the_worker() -> None:
    """Both changelog leaders and the group's coordinator are silent; Faust alone would wait for ever."""
    DOCKER.require()
    port = free_port()
    with container(port) as broker:
        settings = own_settings(f"127.0.0.1:{port}", recovery_timeout_s=STALLED_S)
        await create_topics(settings)
        async with worker_running(settings, until_ready=False, prelude=TAKING_OVER) as worker:
            await worker.wait_for_line("taking over")
            broker.get_wrapped_container().pause()
            try:
                await ended_with(worker, "RecoveryFailedError")
            finally:
                broker.get_wrapped_container().unpause()


async def test_a_newer_versions_row_is_named_with_both_versions(stage: Stage) -> None:
    async with writing(stage.settings) as producer:
        await write(producer, stage.settings, row(KEY, 1, 1), (KEY, b"\x07" + bytes(20), ()))
    common, place = connection_arguments(stage.settings), TopicPartition(stage.settings.requests_topic, 0)
    async with AIOKafkaConsumer(**common, group_id=stage.settings.app_id, enable_auto_commit=False) as newer:
        newer.assign([place])
        await newer.commit({place: OffsetAndMetadata(0, '{"worker": "9.9.9"}')})
    with pytest.raises(
        UnreadableStateError, match=rf"format version 7.* is version {__version__}.* version 9.9.9"
    ):
        await recovered(stage.settings)


async def test_a_recreated_changelog_stops_the_worker_unless_sessions_may_restart(
    stage: Stage,
) -> None:
    await answered(stage, "before")
    await delete(stage.settings, changelog_topic(stage.settings))
    await create_topics(stage.settings)
    async with worker_running(stage.settings, until_ready=False) as worker:
        await ended_with(worker, "changelog_truncated")
    afresh = stage.settings.model_copy(update={"sessions_afresh": True})
    sent = requests("after", 8)
    await stage.send(*sent)
    async with worker_running(afresh) as worker:
        await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
        assert await worker.stop() == 0
    async with worker_running(stage.settings) as worker:
        assert await worker.stop() == 0


async def test_a_recreated_requests_topic_stops_the_worker(stage: Stage) -> None:
    """Also where it has more records by now than the old one had."""
    await answered(stage, "before")
    await delete(stage.settings, stage.settings.requests_topic)
    await create_topics(stage.settings)
    await stage.send(*requests("after", 80))
    async with worker_running(stage.settings, until_ready=False) as worker:
        await ended_with(worker, "topic_replaced")


async def test_a_requests_topic_recreated_during_a_run_ends_the_worker(stage: Stage) -> None:
    """Also where it does not fetch meanwhile, and finds more records there than the old one had."""
    topic, before = stage.settings.requests_topic, requests("before", 40)
    await stage.send(*before)
    async with worker_running(stage.settings, prelude=LOOKING) as worker:
        await stage.outputs.wait_for(lambda out: out.answered(ids(before)))
        await worker.wait_for_line("seen of 4 partitions")
        worker.process.send_signal(SIGSTOP)
        await delete(stage.settings, topic)
        await create_topics(stage.settings)
        await stage.send(*requests("after", 160))
        await stage.producer.flush()
        worker.process.send_signal(SIGCONT)
        await ended_with(worker, "topic_replaced")


async def test_a_commit_of_another_client_that_passes_over_requests_stops_the_worker_unless_accepted(
    stage: Stage,
) -> None:
    await answered(stage, "before")
    lost, after = requests("lost", 8), requests("after", 1)  # three partitions get no event
    await stage.send(*lost)
    await stage.producer.flush()
    places = [TopicPartition(stage.settings.requests_topic, number) for number in range(4)]
    common = connection_arguments(stage.settings)
    async with AIOKafkaConsumer(**common, group_id=stage.settings.app_id, enable_auto_commit=False) as other:
        other.assign(places)
        await other.commit(await other.end_offsets(places))
    async with worker_running(stage.settings, until_ready=False) as worker:
        await ended_with(worker, "foreign_commit")
    accepting = stage.settings.model_copy(update={"accept_foreign_commits": True})
    await stage.send(*after)
    async with worker_running(accepting) as worker:
        await stage.outputs.wait_for(lambda out: out.answered(ids(after)))
        assert await worker.stop() == 0
    async with worker_running(stage.settings) as worker:
        assert await worker.stop() == 0
    assert not stage.outputs.answered(ids(lost))


async def test_expired_requests_that_were_answered_stop_no_worker(stage: Stage) -> None:
    await answered(stage, "before")
    places = [TopicPartition(stage.settings.requests_topic, number) for number in range(4)]
    async with admin_client(stage.settings) as admin:
        await admin.delete_records({place: RecordsToDelete(before_offset=-1) for place in places})
    await answered(stage, "after", 8)


async def test_sessions_expire_by_committed_time_and_late_events_find_none(kafka: str) -> None:
    settings = own_settings(kafka, partitions=1, max_lateness_s=7200, dead_letter_share_max=1.0)
    async with staged(settings) as stage:

        async def answer(name: str, session_id: str, day: str) -> None:
            await stage.send(request(name, session_id, requested_at=f"2026-{day}T12:00:00Z"))
            await stage.outputs.wait_for(lambda out: out.answered([name]))

        async with worker_running(settings) as worker:
            await answer("first", "over", "01-01")
            await answer("second", "new", "03-01")
            async with asyncio.timeout(DEADLINE_S):
                number = 0
                while b"default/over" in (await read_rows(settings, [0]))[0].values:
                    await answer(f"third-{number}", "new", "03-01")
                    number += 1
            assert await worker.stop() == 0
        async with worker_running(settings) as worker:
            await stage.send(request("late", "over", requested_at="2026-01-01T12:00:01Z"))
            await stage.outputs.wait_for(lambda out: bool(out.dead_letters))
            assert await worker.stop() == 0
        [letter] = stage.outputs.dead_letters
        assert letter["error"]["code"] == "too_late"
