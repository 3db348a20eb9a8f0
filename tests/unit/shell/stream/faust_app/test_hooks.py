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
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import KafkaError
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest
from aiokafka.structs import BrokerMetadata
from faust.assignor.client_assignment import ClientAssignment, ClientMetadata
from faust.stores import memory
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP

from apportion.settings import Settings
from apportion.shell.kafka.admin import BrokerUnreachableError
from apportion.shell.stream.faust_app.app import WorkerApp, create_app
from apportion.shell.stream.faust_app.consumer import PipelineConsumer
from apportion.shell.stream.faust_app.hooks import AnyHostAssignor, MemberThread
from apportion.shell.stream.faust_app.session_table import RowStore
from apportion.shell.stream.pipeline.membership import Membership

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
    assert type(app.sessions.data) is RowStore
    assert isinstance(app.sessions.data, memory.Store)


async def test_the_transport_makes_our_consumer(app: WorkerApp) -> None:
    assert type(app.consumer) is PipelineConsumer


async def test_the_unread_agent_stream_subscribes_to_the_requests(app: WorkerApp) -> None:
    agent = app.agents["requests"]
    assert not list(app.topics)
    actor = agent()
    actor.it.close()
    assert [topic.get_topic_name() for topic in app.topics] == [app.settings.requests_topic]


async def test_the_pipeline_runs_for_as_long_as_the_agent_does_and_what_ends_it_ends_the_app(
    app: WorkerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ZeroDivisionError()
    begun, may_fail = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        begun.set()
        await may_fail.wait()
        raise error

    monkeypatch.setattr(app.pipeline, "run", run)
    app.agents.beacon.reattach(app.beacon)  # as the app does when it starts
    async with asyncio.timeout(DEADLINE_S):
        await app.agents.start()
        await begun.wait()
        assert not app.should_stop
        may_fail.set()
        await app.wait_until_stopped()
        await app.agents.stop()
    assert app.crash_reason is error


async def test_an_agent_that_stops_ends_the_run_of_the_pipeline(
    app: WorkerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(app.pipeline, "run", run)
    async with asyncio.timeout(DEADLINE_S):
        await app.agents.start()
        await begun.wait()
        await app.agents.stop()
    assert ended.is_set()


async def test_the_fetcher_only_waits_until_it_is_stopped(app: WorkerApp) -> None:
    fetcher = app._fetcher
    async with asyncio.timeout(DEADLINE_S):
        await fetcher.start()
        await asyncio.sleep(0)
        assert not fetcher.should_stop
        await fetcher.stop()


async def test_the_members_client_fetches_nothing(app: WorkerApp, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = app.consumer._thread
    assert type(thread) is MemberThread

    async def start(_: object) -> None:
        thread._consumer = AIOKafkaConsumer()
        thread._consumer._fetcher = Fetcher(AIOKafkaClient(), SubscriptionState())
        thread._consumer._coordinator = Coordinator()

    monkeypatch.setattr(AIOKafkaConsumerThread, "on_start", start)
    await thread.on_start()
    fetching = thread._consumer._fetcher.error_future
    await asyncio.wait({fetching}, timeout=DEADLINE_S)
    assert fetching.done()
    thread._consumer._closed, thread._consumer = True, None


async def test_a_member_counts_as_polled_for_as_long_as_it_runs(
    app: WorkerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that is not polled leaves the group, and one without partitions has nothing to read."""
    subscription = SubscriptionState()
    assert subscription.fetcher_idle_time > 0
    await started(app, monkeypatch, Coordinator(), subscription)
    assert subscription.fetcher_idle_time == 0
    assert app.conf.broker_max_poll_interval >= 30 * 86_400


async def test_a_silent_broker_does_not_block_the_connection() -> None:
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
    async with asyncio.timeout(DEADLINE_S):  # its default wait is as long as joining may take
        assert not await client.ready(7)
        await left.wait()
    assert client._request_timeout_ms / 1000 > DEADLINE_S
    consumer._closed = True
    app.consumer._thread.thread_loop.close()
    silent.close()


class Coordinator:
    """A fake of the client's coordinator, which sends by `_send_req` alone."""

    def __init__(self, error_code: int = 0) -> None:
        self.taken = False
        self.error_code = error_code
        self._pending_exception: BaseException | None = None
        self._coordination_task: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def _send_req(self, _: object) -> object:
        return SimpleNamespace(error_code=self.error_code)

    async def _do_heartbeat(self) -> bool:
        await self._send_req(HeartbeatRequest("group", 1, "member"))
        return self.taken

    async def _do_rejoin_group(self, _: object) -> bool:
        return self.taken


async def started(
    app: WorkerApp,
    monkeypatch: pytest.MonkeyPatch,
    coordinator: Coordinator,
    subscription: SubscriptionState | None = None,
) -> MemberThread:
    """Start the member's thread over clients that are not there."""

    async def start_nothing(_: object) -> None:
        """Start nothing."""

    monkeypatch.setattr(AIOKafkaConsumerThread, "on_start", start_nothing)
    thread: MemberThread = app.consumer._thread
    client = SimpleNamespace(
        _coordinator=coordinator,
        _fetcher=SimpleNamespace(_fetch_task=asyncio.get_running_loop().create_future()),
        _subscription=subscription or SubscriptionState(),
    )
    monkeypatch.setattr(thread, "_consumer", client)
    await thread.on_start()
    return thread


async def test_heartbeats_and_joinings_confirm_the_membership(
    app: WorkerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in ("_do_heartbeat", "_do_rejoin_group", "_send_req"):
        assert inspect.iscoroutinefunction(getattr(GroupCoordinator, step))
    for step in ("_do_heartbeat", "_do_rejoin_group"):
        app.membership = Membership(30.0)
        coordinator = Coordinator()
        await started(app, monkeypatch, coordinator)
        arguments = (None,) if step == "_do_rejoin_group" else ()
        assert not await getattr(coordinator, step)(*arguments)
        assert not app.membership.is_held
        coordinator.taken = True
        assert await getattr(coordinator, step)(*arguments)
        assert app.membership.is_held


async def test_errors_that_the_client_keeps_for_a_poll_are_seen(
    app: WorkerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert app.consumer._thread.group_failure() is None, "it is not there yet"
    coordinator = Coordinator()
    thread = await started(app, monkeypatch, coordinator)
    assert thread.group_failure() is None
    coordinator._pending_exception = KafkaError("Unexpected exception in heartbeat task")
    assert thread.group_failure() == "KafkaError: Unexpected exception in heartbeat task"


async def test_the_end_of_the_clients_coordination_is_seen(
    app: WorkerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = Coordinator()
    thread = await started(app, monkeypatch, coordinator)
    coordinator._coordination_task.set_exception(AssertionError())
    assert thread.group_failure() == "AssertionError"


async def test_the_client_keeps_its_errors_where_we_look() -> None:
    subscription = SubscriptionState()
    subscription.register_fetch_waiters(set())
    coordinator = GroupCoordinator(AIOKafkaClient(), subscription, group_id="group")
    assert coordinator._pending_exception is None
    pushed = coordinator._push_error_to_user(KafkaError("refused"))
    assert str(coordinator._pending_exception) == "KafkaError: refused"
    assert not coordinator._coordination_task.done()
    pushed.close()
    coordinator._coordination_task.cancel()


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (23, "INCONSISTENT_GROUP_PROTOCOL"),
        (30, "GROUP_AUTHORIZATION_FAILED"),
        (81, "GROUP_MAX_SIZE_REACHED"),
        (82, "FENCED_INSTANCE_ID"),
    ],
)
async def test_a_refusal_has_kafkas_name(
    app: WorkerApp, monkeypatch: pytest.MonkeyPatch, code: int, name: str
) -> None:
    coordinator = Coordinator(code)
    thread = await started(app, monkeypatch, coordinator)
    await coordinator._send_req(JoinGroupRequest("group", 1, 1, "", None, "consumer", []))
    coordinator._pending_exception = KafkaError("UnknownError()")
    assert thread.group_failure() == name


async def test_a_static_member_that_another_has_replaced_does_not_join_again(
    app: WorkerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would replace the other one in turn. Kafka answers its heartbeats with UNKNOWN_MEMBER_ID."""
    app.settings = Settings(static_member="worker-0")
    coordinator = Coordinator(25)
    await started(app, monkeypatch, coordinator)
    app.membership.confirm(app.membership.clock_s())
    with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
        await coordinator._do_heartbeat()


@pytest.mark.parametrize("static_member", [None, "worker-0"])
async def test_a_removed_member_joins_the_group_again(
    app: WorkerApp, monkeypatch: pytest.MonkeyPatch, static_member: str | None
) -> None:
    app.settings = Settings(static_member=static_member)
    coordinator = Coordinator(25)
    await started(app, monkeypatch, coordinator)
    if static_member is None:
        app.membership.confirm(app.membership.clock_s())
    assert not await coordinator._do_heartbeat()


async def test_an_assignment_that_was_made_for_another_host_name_is_taken(app: WorkerApp) -> None:
    """A static member that is back within its session gets the assignment of before."""
    assignor = app.assignor
    assert type(assignor) is AnyHostAssignor
    assigned = ClientAssignment(actives={REQUESTS.topic: [0]}, standbys={})
    made = ClientMetadata(
        assignment=assigned,
        url="http://elsewhere:6066",
        changelog_distribution={},
        external_topic_distribution={},
        topic_groups={},
    )
    partitions = assigned.kafka_protocol_assignment(app.tables)
    assignor.on_assignment(ConsumerProtocolMemberAssignment(0, partitions, assignor._compress(made.dumps())))
    assert assignor.is_active(REQUESTS)
    assert str(assignor._url) == str(app.conf.canonical_url)


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


async def test_the_app_reports_the_end_of_recovery(app: WorkerApp, monkeypatch: pytest.MonkeyPatch) -> None:
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
