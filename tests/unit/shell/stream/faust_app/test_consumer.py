"""A partition's events flow from its committed offset on, and come as they were read."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from faust.types import TP

from apportion.settings import Settings
from apportion.shell.kafka.topics import PartitionsChangedError
from apportion.shell.stream.faults import GroupFailedError, NotFlowingError
from apportion.shell.stream.faust_app.app import create_app
from apportion.shell.stream.faust_app.consumer import PipelineConsumer

pytestmark = pytest.mark.asyncio

DEADLINE_S = 5
REQUESTS = {TP("context-requests", 0), TP("context-requests", 1)}
CHANGELOG = {TP("apportion-sessions-changelog", 0), TP("apportion-sessions-changelog", 1)}
PLACE, OTHER = sorted(REQUESTS)


def record(offset: int) -> Any:
    return SimpleNamespace(offset=offset)


class Member:
    """A fake of the consumer's thread and of the reader: it records calls and gives scripted answers."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.records: dict[int, list[Any]] = {}
        self.committed: dict[TP, tuple[int, str]] = {}
        self.group_takes_commits = True
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.may_end.set()

    def assignment(self) -> set[TP]:
        return REQUESTS | CHANGELOG

    async def read(self, partitions: list[int], _: float) -> dict[int, list[Any]]:
        self.begun.set()
        await self.may_end.wait()
        self.steps.append(("read", set(partitions)))
        return {number: records for number, records in self.records.items() if number in partitions}

    async def earliest_offsets(self, *partitions: TP) -> dict[TP, int]:
        return dict.fromkeys(partitions, 3)

    async def committed_with_metadata(self, _: set[TP]) -> dict[TP, tuple[int, str]]:
        return self.committed

    def flow_from(self, offsets: dict[int, int]) -> None:
        self.steps.append(("seek", dict(offsets)))

    async def commit_with_metadata(self, offsets: dict[TP, tuple[int, str]]) -> bool:
        self.steps.append(("commit", {tp: offset for tp, (offset, _) in offsets.items()}))
        return self.group_takes_commits


@pytest_asyncio.fixture
async def consumer() -> AsyncIterator[PipelineConsumer]:
    """A consumer with recovered rows, before it seeks to its committed offsets."""
    found: PipelineConsumer = create_app(Settings()).consumer
    loop = found._thread.thread_loop
    found._thread = found.app.reader = found.app.pipeline._reader = Member()
    await found.app.sessions.data.on_rebalance(REQUESTS | CHANGELOG, set(), set())
    found._set_active_tps(set(REQUESTS))
    found._assigned = object()
    yield found
    loop.close()


async def test_partitions_are_taken_over_paused(
    consumer: PipelineConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that had none flows, and Faust would let it read them for a moment."""
    active_when_taken = []

    async def take(*_: object) -> None:
        active_when_taken.append(set(consumer._get_active_partitions()))

    monkeypatch.setattr(consumer, "_on_partitions_assigned", take)
    await consumer.on_partitions_assigned(REQUESTS | CHANGELOG, 2)
    assert active_when_taken == [set()]


async def test_a_partition_that_was_added_ends_the_worker(
    consumer: PipelineConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashes: list[BaseException] = []

    async def crash(reason: BaseException) -> None:
        crashes.append(reason)

    monkeypatch.setattr(consumer.app, "crash", crash)
    partitions = consumer.app.settings.partitions
    await consumer.on_partitions_assigned(REQUESTS | {TP("context-requests", partitions)}, 2)
    [error] = crashes
    assert isinstance(error, PartitionsChangedError)
    assert f"context-requests has a partition {partitions}, where the worker goes by" in str(error)


async def test_a_partition_flows_from_its_committed_offset_or_from_its_beginning(
    consumer: PipelineConsumer,
) -> None:
    consumer._thread.committed = {OTHER: (7, "")}
    assert not consumer.app.pipeline.has_room(0)
    await consumer.perform_seek()
    assert consumer._thread.steps == [("seek", {0: 3, 1: 7})]
    assert consumer.app.pipeline.has_room(0)
    assert consumer.app.pipeline.has_room(1)


async def test_partitions_that_are_taken_away_while_they_are_sought_do_not_flow(
    consumer: PipelineConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The waiter for a seek gives up, and the seek goes on; returned partitions begin to flow once."""

    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(consumer, "_on_partitions_revoked", nothing)
    monkeypatch.setattr(consumer, "_on_partitions_assigned", nothing)
    sought, may_end = asyncio.Event(), asyncio.Event()

    async def committed(_: object) -> dict[TP, tuple[int, str]]:
        sought.set()
        await may_end.wait()
        return {}

    monkeypatch.setattr(consumer._thread, "committed_with_metadata", committed)
    seeking = asyncio.create_task(consumer.perform_seek())
    async with asyncio.timeout(DEADLINE_S):
        await sought.wait()
        await consumer.on_partitions_revoked(REQUESTS | CHANGELOG)
        may_end.set()
        await seeking
        assert not consumer.app.pipeline.has_room(0)
        await consumer.perform_seek()
        assert not consumer.app.pipeline.has_room(0)
        await consumer.on_partitions_assigned(REQUESTS | CHANGELOG, 3)
        await consumer.perform_seek()
    assert consumer.app.pipeline.has_room(0)


async def test_records_read_across_a_rebalance_are_dropped(
    consumer: PipelineConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partitions have a new owner, or are sought again: rows are not read for them yet."""

    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(consumer, "_on_partitions_revoked", nothing)
    await consumer.perform_seek()
    client, pipeline = consumer._thread, consumer.app.pipeline
    client.may_end.clear()
    client.records = {0: [record(7)]}
    reading = asyncio.ensure_future(pipeline._read())
    await client.begun.wait()
    await consumer.on_partitions_revoked(REQUESTS | CHANGELOG)
    consumer._assigned = object()
    seeking = asyncio.ensure_future(consumer.perform_seek())
    client.may_end.set()
    await asyncio.wait_for(asyncio.gather(reading, seeking), timeout=DEADLINE_S)
    assert [step for step, _ in client.steps] == ["seek", "read", "seek"]
    assert {number: flow.waiting for number, flow in pipeline.flows.items()} == {0: 0, 1: 0}


async def test_the_committed_offsets_are_sought_when_no_read_is_under_way(consumer: PipelineConsumer) -> None:
    """Records of an earlier read would otherwise be taken for the next ones."""
    client, pipeline = consumer._thread, consumer.app.pipeline
    for partition in (0, 1):
        pipeline.begin(partition, consumer.app.sessions.rows_of(partition), None)
    client.may_end.clear()
    reading = asyncio.ensure_future(pipeline._read())
    await client.begun.wait()
    pipeline.abandon()
    pipeline.end()
    seeking = asyncio.ensure_future(consumer.perform_seek())
    await asyncio.wait({seeking}, timeout=0.1)
    assert client.steps == []
    client.may_end.set()
    await asyncio.wait_for(asyncio.gather(reading, seeking), timeout=DEADLINE_S)
    assert [step for step, _ in client.steps] == ["read", "seek"]


async def test_a_read_waits_for_a_seek_that_its_rebalance_abandoned(
    consumer: PipelineConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seek goes on, and records read before its end would be read again."""
    client, begun, may_end = consumer._thread, asyncio.Event(), asyncio.Event()

    async def committed(_: object) -> dict[TP, tuple[int, str]]:
        begun.set()
        await may_end.wait()
        return {}

    monkeypatch.setattr(client, "committed_with_metadata", committed)
    seeking = asyncio.ensure_future(consumer.perform_seek())
    await begun.wait()
    seeking.cancel()
    reading = asyncio.ensure_future(consumer.app.pipeline._read())
    await asyncio.wait({seeking, reading}, timeout=0.1)
    assert seeking.cancelled()
    assert not client.begun.is_set()
    may_end.set()
    await asyncio.wait_for(reading, timeout=DEADLINE_S)
    assert [step for step, _ in client.steps] == ["seek", "read"]


async def test_a_durable_offset_is_committed_once(consumer: PipelineConsumer) -> None:
    await consumer.perform_seek()
    consumer.app.pipeline.flows[1].durable_offset = 9
    assert await consumer.commit()
    assert not await consumer.commit()
    assert consumer._thread.steps[1:] == [("commit", {OTHER: 9})]


async def test_a_commit_that_the_group_refuses_is_repeated(consumer: PipelineConsumer) -> None:
    await consumer.perform_seek()
    consumer._thread.group_takes_commits = False
    consumer.app.pipeline.flows[1].durable_offset = 9
    for _ in range(2):
        assert not await consumer.commit()
    assert consumer._thread.steps[1:] == [("commit", {OTHER: 9})] * 2


async def test_partitions_that_are_taken_away_are_abandoned_committed_and_forgotten(
    consumer: PipelineConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    async def revoke(_: object) -> None:
        seen.append(consumer.app.pipeline.flows[0].is_over)
        await consumer.wait_empty()

    monkeypatch.setattr(consumer, "_on_partitions_revoked", revoke)
    await consumer.perform_seek()
    consumer.app.pipeline.flows[0].durable_offset = 9
    await consumer.on_partitions_revoked(REQUESTS | CHANGELOG)
    assert seen == [True]
    assert consumer._thread.steps[1:] == [("commit", {PLACE: 9})]
    assert consumer.app.pipeline.flows == {}


async def test_partitions_that_have_flowed_for_long_may_move(
    consumer: PipelineConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked each second. Faust says that they move before they are taken away."""
    now_s = consumer._moved_s
    monkeypatch.setattr("apportion.shell.stream.faust_app.consumer.monotonic", lambda: now_s)
    now_s += 1_000
    consumer.require_flow()
    consumer.app.rebalancing = True
    now_s += consumer.app.settings.recovery_timeout_s
    consumer.require_flow()
    now_s += 1
    with pytest.raises(NotFlowingError):
        consumer.require_flow()


async def test_a_group_that_has_refused_the_worker_ends_it(
    consumer: PipelineConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = iter([None, "FENCED_INSTANCE_ID"])
    monkeypatch.setattr(consumer._thread, "group_failure", lambda: next(refusals), raising=False)
    consumer.require_group()
    with pytest.raises(GroupFailedError, match="FENCED_INSTANCE_ID"):
        consumer.require_group()


async def test_partitions_that_do_not_come_to_flow_end_the_worker(
    consumer: PipelineConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = consumer._moved_s
    monkeypatch.setattr("apportion.shell.stream.faust_app.consumer.monotonic", lambda: now_s)
    consumer.app.rebalancing = True
    now_s += consumer.app.settings.recovery_timeout_s
    consumer.require_flow()
    now_s += 1
    with pytest.raises(NotFlowingError, match="partitions 0, 1 were assigned"):
        consumer.require_flow()
    await consumer.perform_seek()
    consumer.require_flow()
    consumer.is_recovering = True
    now_s += 1_000
    consumer.require_flow()
    consumer.is_recovering = consumer.app.rebalancing = False
    now_s += 1_000
    consumer.require_flow()
