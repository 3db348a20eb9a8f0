"""The membership of workers in their group: its loss, spare workers, and static members.

On Apache Kafka alone: the embedded broker never expires a member.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from time import monotonic

import pytest
import pytest_asyncio
from aiohttp import ClientConnectorError, ClientSession
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from msgspec.json import encode
from support.containers import free_port
from support.running import (
    DEADLINE_S,
    Stage,
    assert_answered_and_charged_once,
    ids,
    own_settings,
    request,
    requests,
    staged,
    worker_running,
)

from apportion.settings import Settings
from apportion.shell.kafka.admin import admin_client

pytestmark = pytest.mark.asyncio

END_S = 10.0
"""A worker that has lost its membership ends within its session timeout and this time."""
TAKE_OVER_S = 15.0
"""A spare answers the events of a killed worker within the session timeout and this time."""


@pytest_asyncio.fixture
async def stage(kafka: str) -> AsyncIterator[Stage]:
    async with staged(own_settings(kafka, health_port=free_port())) as made:
        yield made


async def said(settings: Settings, path: str) -> tuple[int, str]:
    """Return the worker's response at a path; status 0 means that it does not listen yet."""
    with suppress(ClientConnectorError):
        async with (
            ClientSession(f"http://{settings.health_host}:{settings.health_port}") as http,
            http.get(path) as response,
        ):
            return response.status, await response.text()
    return 0, ""


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await condition():  # noqa: ASYNC110 - another process is asked
            await asyncio.sleep(0.1)


async def holds_for(seconds: float, condition: Callable[[], Awaitable[bool]]) -> None:
    """Require that a condition holds, again and again, for so long."""
    end_s = monotonic() + seconds
    while monotonic() < end_s:
        assert await condition()
        await asyncio.sleep(0.1)


REFUSED = """
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import KafkaError
real = GroupCoordinator._do_heartbeat
beats = []
async def beat(self):
    beats.append(await real(self))
    if len(beats) > 3:
        raise KafkaError("Unexpected exception in heartbeat task: UnknownError()")
    return beats[-1]
GroupCoordinator._do_heartbeat = beat
"""


async def test_a_worker_with_refused_heartbeats_ends_without_any_traffic(stage: Stage) -> None:
    async with worker_running(stage.settings, prelude=REFUSED) as worker:
        assert await worker.ended(stage.settings.session_timeout_s + END_S) == 1
    assert f"apportion: group_failed: this worker is not a member of the group {stage.settings.app_id}" in (
        worker.log
    )
    assert "UnknownError" in worker.log


COORDINATION_FAILS = """
from faust.assignor.partition_assignor import PartitionAssignor
def on_assignment(self, assignment):
    raise AssertionError
PartitionAssignor.on_assignment = on_assignment
"""


async def test_a_client_failure_at_the_first_assignment_ends_the_worker(stage: Stage) -> None:
    async with worker_running(stage.settings, until_ready=False, prelude=COORDINATION_FAILS) as worker:
        assert await worker.ended() == 1
    assert "apportion: group_failed: " in worker.log
    assert "AssertionError" in worker.log


UNHEARD = """
from aiokafka.consumer.group_coordinator import GroupCoordinator
async def beat(self):
    return False
GroupCoordinator._do_heartbeat = beat
from apportion.shell.stream import probe as vitals
vitals._ASK_S = 0.2
"""


async def test_a_worker_without_its_membership_is_not_ready_and_then_not_live(stage: Stage) -> None:
    settings = stage.settings

    async def is_not_ready() -> bool:
        return (await said(settings, "/readyz")) == (503, "the membership in the group is not held\n")

    async def is_dead() -> bool:
        status, text = await said(settings, "/livez")
        return status == 503 and "the worker is not a member of its group" in text

    async with worker_running(settings, prelude=UNHEARD) as worker:
        await until(is_not_ready)
        assert (await said(settings, "/livez"))[0] == 200
        await until(is_dead)
        assert worker.process.returncode is None


async def test_the_first_of_two_workers_with_one_static_name_ends(kafka: str) -> None:
    sent = requests("r", 20)
    async with staged(own_settings(kafka, static_member="worker-0")) as stage:
        async with (
            worker_running(stage.settings) as first,
            worker_running(stage.settings, until_ready=False) as second,
        ):
            assert await first.ended(stage.settings.session_timeout_s + END_S) == 1
            await second.wait_for_line("message=ready")
            await stage.send(*sent)
            await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
            assert await second.stop() == 0
        assert "apportion: group_failed: " in first.log
        assert "FENCED_INSTANCE_ID" in first.log


async def test_a_group_with_members_of_another_protocol_ends_the_worker(kafka: str) -> None:
    async with staged(own_settings(kafka)) as stage:
        settings = stage.settings
        other = AIOKafkaConsumer(
            settings.requests_topic, bootstrap_servers=list(settings.brokers), group_id=settings.app_id
        )
        async with other:
            await until(lambda: is_assigned(other))
            async with worker_running(settings, until_ready=False) as worker:
                assert await worker.ended() == 1
        assert "apportion: group_failed: " in worker.log
        assert "INCONSISTENT_GROUP_PROTOCOL" in worker.log


async def is_assigned(consumer: AIOKafkaConsumer) -> bool:
    return bool(consumer.assignment())


POLLED_SELDOM = """
import apportion.shell.stream.faust_app.app as place
place._POLL_INTERVAL_S = 3.0
"""
"""A client that is polled so seldom leaves its group."""


async def test_a_worker_without_partitions_stays_in_the_group_and_takes_over(kafka: str) -> None:
    async with staged(own_settings(kafka, partitions=1)) as stage:
        settings = stage.settings

        async def both_are_members() -> bool:
            async with admin_client(settings) as admin:
                [answer] = await admin.describe_consumer_groups([settings.app_id])
            return len(answer.groups[0][5]) == 2

        async with (
            worker_running(settings, prelude=POLLED_SELDOM) as first,
            worker_running(settings, prelude=POLLED_SELDOM) as second,
        ):
            await until(both_are_members)
            await holds_for(6.0, both_are_members)
            before = requests("before", 20)
            await stage.send(*before)
            await stage.outputs.wait_for(lambda out: out.answered(ids(before)))
            [owner] = {decision["run"]["worker"] for decision in stage.outputs.decisions}
            is_first = owner.endswith(f":{first.process.pid}")
            killed, spare = (first, second) if is_first else (second, first)
            killed.kill()
            after = requests("after", 20)
            await stage.send(*after)
            async with asyncio.timeout(settings.session_timeout_s + TAKE_OVER_S):
                await stage.outputs.wait_for(lambda out: out.answered(ids(after)))
            assert await spare.stop() == 0  # its last rows are written then
        await assert_answered_and_charged_once(stage, before + after)


SEES_STALLS_SOON = """
from msgspec.structs import replace
from apportion.shell.stream import probe as vitals
vitals._ASK_S = 0.2
patience_of = vitals.patience_of
vitals.patience_of = lambda settings: replace(patience_of(settings), stalled_s=2.0)
"""


async def test_a_transaction_that_stays_open_restarts_no_worker(stage: Stage) -> None:
    settings, sent = stage.settings, request("r")

    async def is_seen() -> bool:
        _, text = await said(settings, "/metrics")
        lines = [line for line in text.splitlines() if line.startswith("apportion_open_transaction_offsets{")]
        return sum(float(line.split()[-1]) for line in lines) == 1

    async def is_well() -> bool:
        return [(await said(settings, path))[0] for path in ("/livez", "/readyz")] == [200, 200]

    producer = AIOKafkaProducer(
        bootstrap_servers=list(settings.brokers), transactional_id=f"{settings.app_id}-hanging"
    )
    async with worker_running(settings, prelude=SEES_STALLS_SOON) as worker, producer:
        await until(is_well)
        async with producer.transaction():
            await producer.send_and_wait(settings.requests_topic, encode(sent), b"default/s", partition=0)
            await until(is_seen)
            await holds_for(6.0, is_well)
            assert (await stage.outputs.wait_for_end()).records == []
        await stage.outputs.wait_for(lambda out: len(out.records) > 0)
        assert await worker.stop() == 0
