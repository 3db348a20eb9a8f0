"""Start, stop, rebalance and return of workers: no event is lost or charged twice.

Tests with a second group member run on Apache Kafka alone. The embedded broker neither removes a killed
member, nor lets a member commit while another joins.
"""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import NewPartitions, RecordsToDelete
from aiokafka.errors import NonEmptyGroup, for_code
from aiokafka.protocol.admin import DeleteGroupsRequest
from support.running import (
    DEADLINE_S,
    STOP_DEADLINE_S,
    TIMEOUTS_S,
    Stage,
    assert_answered_and_charged_once,
    ids,
    own_settings,
    request,
    requests,
    staged,
    without_run,
    worker_running,
)

from apportion.settings import Settings
from apportion.settings.value_types import Guarantee
from apportion.shell.kafka.admin import admin_client
from apportion.shell.kafka.partitioning import partition_of

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def stage(bootstrap_servers: str) -> AsyncIterator[Stage]:
    async with staged(own_settings(bootstrap_servers)) as made:
        yield made


@pytest_asyncio.fixture
async def kafka_stage(kafka: str) -> AsyncIterator[Stage]:
    async with staged(own_settings(kafka)) as made:
        yield made


def answers(count: int) -> Any:
    return lambda outputs: len(outputs.decisions) >= count


async def test_after_kill_9_every_request_is_answered_and_charged_once(kafka_stage: Stage) -> None:
    stage = kafka_stage
    sent = requests("r", 600)
    await stage.send(*sent)
    for killed_after in (50, 300):
        async with worker_running(stage.settings, until_ready=False) as worker:
            await stage.outputs.wait_for(answers(killed_after))
            worker.kill()
            assert await worker.ended() == -signal.SIGKILL
    async with worker_running(stage.settings) as worker:
        # a killed worker may have left all answers but not the rows: later answers come after these
        sent += (later := requests("later", 60))
        await stage.send(*later)
        await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
        assert await worker.stop() == 0
    await assert_answered_and_charged_once(stage, sent)


async def test_a_second_worker_takes_over_partitions_and_gives_them_back(kafka_stage: Stage) -> None:
    stage, sent = kafka_stage, []

    async def answered(name: str, count: int) -> set[str]:
        batch = requests(name, count)
        sent.extend(batch)
        await stage.send(*batch)
        await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
        return ids(batch)

    async with worker_running(stage.settings) as first:
        await answered("alone", 100)
        async with worker_running(stage.settings, until_ready=False) as second:
            while "message=ready" not in second.log:
                await answered(f"joining-{len(sent)}", 40)
            shared = await answered("shared", 200)
            assert await second.stop() == 0
        await answered("alone-again", 100)
        assert await first.stop() == 0
    decisions = [decision for decision in stage.outputs.decisions if decision["request_id"] in shared]
    assert len({decision["run"]["worker"] for decision in decisions}) == 2
    await assert_answered_and_charged_once(stage, sent)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_asked_to_stop_it_finishes_commits_and_exits_with_0(
    stage: Stage, number: signal.Signals
) -> None:
    sent = requests("r", 400)
    await stage.send(*sent)
    async with worker_running(stage.settings, until_ready=False) as worker:
        await stage.outputs.wait_for(answers(100))
        worker.process.send_signal(number)
        assert await worker.ended(STOP_DEADLINE_S) == 0
    async with worker_running(stage.settings) as worker:
        await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
        assert await worker.stop() == 0
    outputs = await stage.outputs.wait_for_end()
    assert len(outputs.decisions) == len(outputs.composed) == len(sent)
    await assert_answered_and_charged_once(stage, sent)


NOT_ACKNOWLEDGED = """
import apportion.shell.stream.pipeline.writer as place
from aiokafka.errors import KafkaTimeoutError
writer = place.EffectivelyOnceWriter
real = writer.{step}
def concerned(writing):
    sent = [one.value for messages in writing.batch.messages.values() for one in messages]
    return any(b'"fault"' in value for value in sent)
def send(self, writing):
    if not concerned(writing):
        real(self, writing)
async def acknowledged(self, writing):
    if concerned(writing):
        raise KafkaTimeoutError
    await waited(self, writing)
waited = writer.{waiting}
writer.{step}, writer.{waiting} = send, acknowledged
"""

COMPOSING_FAILS = """
import apportion.core.composer as place
real = place.compose
def compose(request, *rest):
    if request.request_id == "fault":
        raise ValueError("a secret that is content")
    return real(request, *rest)
place.compose = compose
"""
FAULTS = {
    "composing fails": COMPOSING_FAILS,
    "the answer is not acknowledged": NOT_ACKNOWLEDGED.format(
        step="send_outputs", waiting="outputs_acknowledged"
    ),
    "the row is not acknowledged": NOT_ACKNOWLEDGED.format(step="send_rows", waiting="rows_acknowledged"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_event_that_cannot_be_dealt_with_stops_the_worker_and_is_not_committed(
    stage: Stage, fault: str
) -> None:
    before, *others = sent = [request(name) for name in ("before", "fault", "after")]
    async with worker_running(stage.settings, prelude=FAULTS[fault]) as worker:
        await stage.send(before)
        await stage.outputs.wait_for(lambda out: out.answered(["before"]))
        await stage.send(*others)
        assert await worker.ended() == 1
    assert f"event_failed: stopped at {stage.settings.requests_topic} partition" in worker.log
    assert "offset 1:" in worker.log
    assert "Traceback" not in worker.log
    assert "secret" not in worker.log
    outputs = await stage.outputs.wait_for_end()
    durable = ids(outputs.decisions)
    assert ("fault" in durable) == (fault == "the row is not acknowledged")
    again = len(sent) + len(durable - {"before"})
    async with worker_running(stage.settings) as worker:
        await stage.outputs.wait_for(answers(again))
        assert await worker.stop() == 0
    outputs = await stage.outputs.wait_for_end()
    assert len(outputs.decisions) == again
    unique = {decision["decision_id"]: without_run(decision) for decision in outputs.decisions}
    assert [decision["request_id"] for decision in unique.values()] == ["before", "fault", "after"]
    row = await stage.last_row("s")
    assert row["session"]["prompts"] == 3
    assert row["seen_offset"] == 2


async def test_an_event_that_ends_workers_is_skipped_only_if_set(kafka: str) -> None:
    sent = [request(name) for name in ("before", "fault", "after")]
    async with staged(own_settings(kafka)) as stage:
        await stage.send(*sent)
        for _ in range(2):
            async with worker_running(stage.settings, prelude=COMPOSING_FAILS, until_ready=False) as worker:
                assert await worker.ended() == 1
            assert "apportion: event_failed: " in worker.log
        outputs = await stage.outputs.wait_for_end()
        assert ids(outputs.decisions) == {"before"}
        assert outputs.dead_letters == []
        wanted = stage.settings.model_copy(update={"event_failures_max": 2})
        async with worker_running(wanted, prelude=COMPOSING_FAILS) as worker:
            await stage.outputs.wait_for(lambda out: out.answered(["before", "after"]))
            assert await worker.stop() == 0
        [letter] = (await stage.outputs.wait_for_end()).dead_letters
        assert letter["error"]["code"] == "event_failed"
        assert (letter["source"]["topic"], letter["source"]["offset"]) == (stage.settings.requests_topic, 1)
        row = await stage.last_row("s")
    assert (row["seen_offset"], row["session"]["prompts"]) == (2, 2)


KILLED = """
import os, signal
import apportion.core.composer as place
real = place.compose
def compose(request, *rest):
    if request.request_id == "fault":
        os.kill(os.getpid(), signal.SIGKILL)
    return real(request, *rest)
place.compose = compose
"""


@pytest.mark.parametrize("guarantee", Guarantee)
async def test_only_the_killing_event_is_skipped(kafka: str, guarantee: Guarantee) -> None:
    sent = [request(name) for name in ("before", "fault", "after")]
    own = own_settings(kafka, partitions=1, event_failures_max=1, guarantee=guarantee)
    async with staged(own, "read_committed") as stage:
        await stage.send(*sent)
        for _ in ("over a batch", "alone"):
            async with worker_running(stage.settings, prelude=KILLED, until_ready=False) as worker:
                assert await worker.ended() == -signal.SIGKILL
        async with worker_running(stage.settings, prelude=KILLED) as worker:
            await stage.outputs.wait_for(lambda out: out.answered(["before", "after"]))
            assert await worker.stop() == 0
        [letter] = (await stage.outputs.wait_for_end()).dead_letters
    assert (letter["error"]["code"], letter["source"]["offset"]) == ("event_failed", 1)


ASKS_IN_VAIN = """
import asyncio
import apportion.shell.stream.faust_app.hooks as place
async def committed_with_metadata(self, partitions):
    await asyncio.Event().wait()
place.MemberThread.committed_with_metadata = committed_with_metadata
"""


async def test_partitions_that_never_flow_end_the_worker_and_move_to_another(kafka: str) -> None:
    """The worker is in the group and sends heartbeats, but never learns its committed offsets."""
    sent = requests("r", 20)
    async with staged(own_settings(kafka, recovery_timeout_s=2.0)) as stage:
        await stage.send(*sent)
        async with worker_running(stage.settings, until_ready=False, prelude=ASKS_IN_VAIN) as worker:
            assert await worker.ended() == 1
        assert (
            "apportion: not_flowing: partitions 0, 1, 2, 3 were assigned and nothing has moved" in worker.log
        )
        assert "Traceback" not in worker.log
        async with worker_running(own_timeouts(stage.settings)) as worker:
            await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
            assert await worker.stop() == 0
        await assert_answered_and_charged_once(stage, sent)


def own_timeouts(settings: Settings) -> Settings:
    return settings.model_copy(update={"recovery_timeout_s": TIMEOUTS_S["recovery_timeout_s"]})


ON_ANOTHER_HOST = """
import socket
socket.gethostname = lambda: "elsewhere"
"""


@pytest.mark.parametrize("prelude", ["", ON_ANOTHER_HOST], ids=["same host", "another host"])
async def test_a_static_member_that_comes_back_in_time_moves_no_partition(kafka: str, prelude: str) -> None:
    sent = requests("before", 40)
    async with staged(own_settings(kafka, session_timeout_s=30.0, rebalance_timeout_s=30.0)) as stage:
        one, other = (stage.settings.model_copy(update={"static_member": name}) for name in ("w-0", "w-1"))
        async with worker_running(one) as killed, worker_running(other) as stays:
            await stays.wait_for_line("message=recovered")
            await killed.wait_for_line("message=recovered", 2)
            moved = stays.log.count("message=recovered")
            await stage.send(*sent)
            await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
            killed.kill()
            await killed.ended()
            again = requests("after", 40)
            await stage.send(*again)
            async with worker_running(one, prelude=prelude) as comes_back:
                await stage.outputs.wait_for(lambda out: out.answered(ids(again)))
                assert await comes_back.stop() == 0
            assert stays.log.count("message=recovered") == moved
            assert await stays.stop() == 0
        await assert_answered_and_charged_once(stage, sent + again)


async def test_missing_topics_are_reported_and_not_created(bootstrap_servers: str) -> None:
    settings = own_settings(bootstrap_servers)
    async with worker_running(settings, until_ready=False) as worker:
        assert await worker.ended() == 1
    assert "apportion: topics_not_ready: " in worker.log
    assert "apportion topics create" in worker.log
    assert "Traceback" not in worker.log


async def test_without_a_broker_it_names_the_address_and_exits_with_1_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    async with worker_running(Settings(brokers=(address,)), until_ready=False) as worker:
        assert await worker.ended(within_s=10) == 1
    assert f"apportion: broker_unreachable: no Kafka broker can be used: {address} refuses" in worker.log
    assert "Traceback" not in worker.log


async def add_a_partition(settings: Settings) -> None:
    async with admin_client(settings) as admin:
        count = settings.partitions + 1
        await admin.create_partitions({settings.requests_topic: NewPartitions(total_count=count)})


async def test_partitions_that_were_added_end_the_worker_at_its_start(stage: Stage) -> None:
    settings = stage.settings
    await add_a_partition(settings)
    async with worker_running(settings, until_ready=False) as worker:
        assert await worker.ended() == 1
    assert f"apportion: partitions_changed: {settings.requests_topic} has 5 partitions" in worker.log


SEES_PARTITIONS_SOON = """
import apportion.shell.stream.faust_app.app as place
place._METADATA_MAX_AGE_S = 1.0
"""


async def test_partitions_that_are_added_end_a_worker_that_runs(stage: Stage) -> None:
    settings = stage.settings
    await stage.send(request("r0"))
    async with worker_running(settings, prelude=SEES_PARTITIONS_SOON) as worker:
        await stage.outputs.wait_for(lambda out: out.answered(["r0"]))
        await add_a_partition(settings)
        assert await worker.ended() == 1
    assert f"apportion: partitions_changed: {settings.requests_topic} has a partition 4," in worker.log


async def test_requests_that_are_gone_before_they_were_answered_end_the_worker(stage: Stage) -> None:
    settings = stage.settings
    partition = partition_of(b"default/s", settings.partitioner, settings.partitions)
    assert partition is not None
    place = TopicPartition(settings.requests_topic, partition)
    await stage.send(*(request(f"r{number}") for number in range(4)))
    await commit(settings, place, 1)
    async with admin_client(settings) as admin:
        await admin.delete_records({place: RecordsToDelete(before_offset=3)})
    async with worker_running(settings, until_ready=False) as worker:
        assert await worker.ended() == 1
    told = (
        f"{place.topic} partition {partition} goes on at offset 1, and the topic has those from 3 to before 4"
    )
    assert f"apportion: offset_out_of_range: {told}" in worker.log
    assert (await stage.outputs.wait_for_end()).records == []


async def test_requests_that_are_gone_with_the_groups_commits_end_the_worker(kafka_stage: Stage) -> None:
    """Brokers let commits expire, and retention removes requests, while no worker runs."""
    stage, settings = kafka_stage, kafka_stage.settings
    partition = partition_of(b"default/s", settings.partitioner, settings.partitions)
    assert partition is not None
    place = TopicPartition(settings.requests_topic, partition)
    await stage.send(*(request(f"r{number}") for number in range(10)))
    async with worker_running(settings) as worker:
        await stage.outputs.wait_for(answers(10))
        assert await worker.stop() == 0
    await stage.send(*(request(f"r{number}") for number in range(10, 20)))
    await delete_group(settings)
    async with admin_client(settings) as admin:
        await admin.delete_records({place: RecordsToDelete(before_offset=15)})
    async with worker_running(settings, until_ready=False) as worker:
        assert await worker.ended() == 1
    told = (
        f"{place.topic} partition {partition} goes on at offset 10, "
        "and the topic has those from 15 to before 20"
    )
    assert f"apportion: offset_out_of_range: {told}" in worker.log
    await commit(settings, place, 15)  # as docs/operations/repair.md says how to go on
    async with worker_running(settings) as worker:
        await stage.outputs.wait_for(answers(15))
        assert await worker.stop() == 0


async def commit(settings: Settings, place: TopicPartition, offset: int) -> None:
    """Commit an offset in the place of the group, which has no member."""
    group = AIOKafkaConsumer(
        bootstrap_servers=list(settings.brokers), group_id=settings.app_id, enable_auto_commit=False
    )
    async with group:
        group.assign([place])
        await group.commit({place: offset})


async def delete_group(settings: Settings) -> None:
    """Delete the group with its commits, as soon as its last member has left."""
    asked = DeleteGroupsRequest([settings.app_id])
    async with admin_client(settings) as admin, asyncio.timeout(DEADLINE_S):
        coordinator = await admin.find_coordinator(settings.app_id)
        while True:
            [(_, code)] = (await admin._send_request_to_node(coordinator, asked)).results
            if code != NonEmptyGroup.errno:
                break
    assert code == 0, for_code(code)
