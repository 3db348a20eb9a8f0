"""Each place where we lean on more of Faust than it documents: an upgrade that moves one fails here first."""

import asyncio
import inspect
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.structs import BrokerMetadata
from faust.stores import memory
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP

from apportion.settings import Settings
from apportion.stream.admin import BrokerUnreachableError
from apportion.stream.app import WorkerApp, create_app
from apportion.stream.consumer import LaneConsumer
from apportion.stream.faust_hooks import MemberThread
from apportion.stream.membership import Membership
from apportion.stream.sessions import Rows

pytestmark = pytest.mark.asyncio

DEADLINE_S = 5
REQUESTS = TP("context-requests", 0)


@pytest_asyncio.fixture
async def app() -> AsyncIterator[WorkerApp]:
    made = create_app(Settings())
    yield made
    made.consumer._thread.thread_loop.close()


def entries(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_the_table_keeps_its_rows_in_our_store(app: WorkerApp) -> None:
    assert type(app.sessions.data) is Rows
    assert isinstance(app.sessions.data, memory.Store)


async def test_the_transport_makes_our_consumer(app: WorkerApp) -> None:
    assert type(app.consumer) is LaneConsumer


async def test_what_is_put_into_the_streams_queue_comes_to_the_agent_as_it_is(app: WorkerApp) -> None:
    app.flow_control.resume()
    stream, fetched = app.stream(app.channel()), [object(), object()]
    seen = []

    async def follow() -> None:
        async for one in stream:
            seen.append(one)
            if len(seen) == len(fetched):
                break

    following = asyncio.ensure_future(follow())
    for one in fetched:
        stream.channel.queue.put_nowait(one)
    await asyncio.wait_for(following, timeout=DEADLINE_S)
    await stream.stop()
    assert seen == fetched


async def test_the_members_client_fetches_nothing(app: WorkerApp, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = app.consumer._thread
    assert type(thread) is MemberThread

    async def start(_: object) -> None:
        thread._consumer = AIOKafkaConsumer()
        thread._consumer._fetcher = Fetcher(AIOKafkaClient(), SubscriptionState())
        thread._consumer._coordinator = SimpleNamespace(_do_heartbeat=None, _do_rejoin_group=None)

    monkeypatch.setattr(AIOKafkaConsumerThread, "on_start", start)
    await thread.on_start()
    fetching = thread._consumer._fetcher.error_future
    await asyncio.wait({fetching}, timeout=DEADLINE_S)
    assert fetching.done()
    thread._consumer._closed, thread._consumer = True, None


async def test_who_polls_is_never_idle(app: WorkerApp) -> None:
    thread = app.consumer._thread
    client = thread._consumer = AIOKafkaConsumer()
    idle = client._subscription
    assert idle.fetcher_idle_time > 0
    with thread.polling():
        assert idle.fetcher_idle_time == 0
    assert idle.fetcher_idle_time > 0
    client._closed, thread._consumer = True, None


async def test_a_broker_that_is_silent_when_connected_to_holds_nobody_up() -> None:
    left = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    silent = await asyncio.start_server(listen, "127.0.0.1", 0)
    host, port = silent.sockets[0].getsockname()
    app = create_app(Settings(request_timeout_s=0.1))
    consumer = app.consumer._thread._create_worker_consumer(app.transport)
    client = consumer._client
    client.cluster._brokers[7] = BrokerMetadata(7, host, port, None)
    async with asyncio.timeout(DEADLINE_S):  # by itself it waits as long as a joining may take
        assert not await client.ready(7)
        await left.wait()
    assert client._request_timeout_ms / 1000 > DEADLINE_S
    consumer._closed = True
    app.consumer._thread.thread_loop.close()
    silent.close()


async def test_heartbeats_and_joinings_confirm_the_membership(
    app: WorkerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Coordinator:
        taken = False

        async def _do_heartbeat(self) -> bool:
            return self.taken

        async def _do_rejoin_group(self, _: object) -> bool:
            return self.taken

    for step in ("_do_heartbeat", "_do_rejoin_group"):
        assert inspect.iscoroutinefunction(getattr(GroupCoordinator, step))

    async def started(_: object) -> None:
        """Start nothing."""

    monkeypatch.setattr(AIOKafkaConsumerThread, "on_start", started)
    for step in ("_do_heartbeat", "_do_rejoin_group"):
        app.membership = Membership(30.0)
        thread, coordinator = app.consumer._thread, Coordinator()
        fetcher = SimpleNamespace(_fetch_task=asyncio.get_running_loop().create_future())
        thread._consumer = SimpleNamespace(_coordinator=coordinator, _fetcher=fetcher)
        await thread.on_start()
        arguments = (None,) if step == "_do_rejoin_group" else ()
        assert not await getattr(coordinator, step)(*arguments)
        assert not app.membership.is_held
        coordinator.taken = True
        assert await getattr(coordinator, step)(*arguments)
        assert app.membership.is_held
    thread._consumer = None


async def test_stopping_and_taking_away_call_wait_empty(
    app: WorkerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    async def wait_empty() -> None:
        called.append(app.should_stop)

    monkeypatch.setattr(app.consumer, "wait_empty", wait_empty)
    monkeypatch.setattr(app.consumer, "assignment", lambda: {REQUESTS})
    await app._on_partitions_revoked({REQUESTS})
    await app._stop_consumer()
    await app.consumer.on_stop()
    assert len(called) == 3


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
