"""Each place where we lean on more of Faust than it documents: an upgrade that moves one fails here first."""

import asyncio
import inspect
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from faust.stores import memory
from faust.transport.drivers.aiokafka import Producer
from faust.types import TP, ConsumerMessage

from apportion.settings import Settings
from apportion.stream.admin import BrokerUnreachableError
from apportion.stream.app import WorkerApp, create_app
from apportion.stream.consumer import GaplessConsumer
from apportion.stream.sessions import Rows

pytestmark = pytest.mark.asyncio

DEADLINE_S = 5
REQUESTS = TP("context-requests", 0)
CHANGELOG = TP("apportion-sessions-changelog", 0)


@pytest_asyncio.fixture
async def app() -> AsyncIterator[WorkerApp]:
    made = create_app(Settings())
    yield made
    made.consumer._thread.thread_loop.close()


def message(offset: int) -> ConsumerMessage:
    return ConsumerMessage(*REQUESTS, offset, 0.0, 0, (), b"k", b"v", None, tp=REQUESTS)


def entries(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_the_table_keeps_its_rows_in_our_store(app: WorkerApp) -> None:
    assert type(app.sessions.data) is Rows
    assert isinstance(app.sessions.data, memory.Store)


async def test_the_transport_makes_our_consumer(app: WorkerApp) -> None:
    assert type(app.consumer) is GaplessConsumer


async def test_the_producer_takes_what_we_send_in_our_order() -> None:
    names = list(inspect.signature(Producer.send).parameters)
    assert names[:7] == ["self", "topic", "key", "value", "partition", "timestamp", "headers"]


async def test_recovery_asks_the_table_where_to_go_on(app: WorkerApp) -> None:
    await app.sessions.data.on_rebalance({CHANGELOG}, set(), set())
    app.tables.recovery.add_active(app.sessions, CHANGELOG)
    assert app.tables.recovery.active_offsets[CHANGELOG] == -1
    app.sessions.data._read_offsets[0] = 41
    app.tables.recovery.add_active(app.sessions, CHANGELOG)
    assert app.tables.recovery.active_offsets[CHANGELOG] == 41


async def test_requests_flow_when_they_are_back_at_their_committed_offset(
    app: WorkerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faust by itself lets them flow before, and drops what came until then from the stream's queue."""
    consumer = app.consumer
    flowing_when_sought = []

    async def perform_seek() -> None:
        flowing_when_sought.append(consumer.flow_active and set(consumer._get_active_partitions()))

    async def maybe_start() -> None:
        """Read nothing."""

    monkeypatch.setattr(consumer, "assignment", lambda: {REQUESTS, CHANGELOG})
    monkeypatch.setattr(consumer, "perform_seek", perform_seek)
    monkeypatch.setattr(app._fetcher, "maybe_start", maybe_start)
    app.on_rebalance_start()
    consumer._set_active_tps({REQUESTS, CHANGELOG})
    consumer.pause_partitions({REQUESTS, CHANGELOG})
    await app.tables.recovery.on_recovery_completed(app.consumer_generation_id)
    assert flowing_when_sought == [set()]
    assert set(consumer._get_active_partitions()) == {REQUESTS}


async def test_a_stream_without_acks_acknowledges_only_what_we_do(app: WorkerApp) -> None:
    app.topics._acking_topics.add(REQUESTS.topic)
    app.flow_control.resume()
    stream, seen = app.stream(app.channel()).noack(), []
    for offset in (0, 1):
        one = message(offset)
        one.generation_id = app.consumer_generation_id
        one.incref()
        await stream.channel.queue.put(app.create_event(one.key, one.value, one.headers, one))

    async def acknowledge_until_it_fails() -> None:
        async with asyncio.timeout(DEADLINE_S):
            async for event in stream.events():
                seen.append(event.message)
                if event.message.offset == 1:
                    raise ZeroDivisionError
                await stream.ack(event)

    with pytest.raises(ZeroDivisionError):
        await acknowledge_until_it_fails()
    await stream.stop()
    assert [one.acked for one in seen] == [True, False]
    assert app.consumer._acked[REQUESTS] == [0]
    assert app.consumer._new_offset(REQUESTS) == 1


async def test_stopping_waits_for_events_that_are_not_acknowledged_unless_we_give_them_up(
    app: WorkerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def commit(**_: object) -> bool:
        return True

    consumer, given_up = app.consumer, message(3)
    monkeypatch.setattr(consumer, "commit", commit)
    consumer.track_message(given_up)
    waiting = asyncio.ensure_future(consumer.wait_empty())
    await asyncio.wait({waiting}, timeout=0.1)
    assert not waiting.done()
    consumer.unacked.discard(given_up)
    await asyncio.wait_for(waiting, timeout=DEADLINE_S)


async def test_a_crash_of_the_agent_ends_the_app_and_leaves_the_rest_alive(app: WorkerApp) -> None:
    agent, error = app.agents["requests"], ZeroDivisionError()
    app._children += [app.producer, app.consumer, app.agents]
    agent.beacon.reattach(app.agents.beacon)
    app.agents.beacon.reattach(app.beacon)
    await agent.crash(error)
    await asyncio.wait_for(app.wait_until_stopped(), timeout=DEADLINE_S)
    assert app.crash_reason is error
    assert not app.consumer.crashed
    assert not app.producer.crashed


async def test_the_app_tells_when_the_table_is_read(app: WorkerApp, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    async def recovered() -> bool:
        return False

    async def tell() -> None:
        told.append("ready")

    monkeypatch.setattr(app.tables, "wait_until_recovery_completed", recovered)
    app.on_startup_finished = tell
    await app.on_started()
    assert told == ["ready"]


async def test_topics_are_checked_where_faust_would_make_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    app = create_app(Settings(brokers=(address,), request_timeout_s=1.0))
    with pytest.raises(BrokerUnreachableError, match=address):
        await app.start()
    app.consumer._thread.thread_loop.close()
    assert entries(tmp_path) == []
