"""The health probe of a worker: its work, and its hangs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from aiokafka.structs import ConsumerRecord
from support.composing import answer, candidate, lanes_policy, request
from support.containers import free_port

from apportion.core.memory import Memory
from apportion.settings import Settings
from apportion.shell.kafka.commit_metadata import CommitMetadata, encode_metadata
from apportion.shell.kafka.commits import CommittedOffset
from apportion.shell.operations import metrics
from apportion.shell.operations.numbers import Numbers
from apportion.shell.operations.server import serving
from apportion.shell.stream.pipeline.batch import Batch
from apportion.shell.stream.pipeline.breaker import DeadLetterShare
from apportion.shell.stream.pipeline.membership import Membership
from apportion.shell.stream.pipeline.pipeline import Pipeline
from apportion.shell.stream.pipeline.queues import FifoQueue, NewQueue, TurnQueue
from apportion.shell.stream.pipeline.tenants import Buckets, TenantLimits
from apportion.shell.stream.pipeline.writer import Writing
from apportion.shell.stream.probe import Probe, Sources, count_durable, patience_of
from apportion.shell.stream.state.rows import PartitionRows

pytestmark = pytest.mark.asyncio

SETTINGS = Settings(partitions=1)
MINUTE_S = 60


class Writer:
    """A writer that makes batches durable on request, and otherwise hangs."""

    moves_offsets = False

    def __init__(self) -> None:
        self.durable = asyncio.Event()

    def begin(self, _: Writing) -> None: ...

    async def finish(self, _: Writing) -> None:
        await self.durable.wait()

    def abandon(self, _: Writing) -> None: ...

    async def start(self, _: Sequence[str]) -> None: ...

    async def stop(self) -> None: ...

    async def assign(self, _: Collection[int]) -> None: ...


class Client:
    """A fake client with brokers that return the ends of partitions."""

    def __init__(self) -> None:
        self.end = 0
        self.is_away = self.is_silent = False

    async def ends(self, partitions: Collection[int]) -> dict[int, int]:
        if self.is_away:
            raise TimeoutError
        if self.is_silent:
            await asyncio.Event().wait()
        return dict.fromkeys(partitions, self.end)


class GroupMember(Client):
    """A fake group member with one partition."""

    def __init__(self) -> None:
        super().__init__()
        self.is_assigned, self.is_recovering = True, False
        self.is_turning = True

    def requests_assigned(self) -> set[int]:
        return {0}

    def call_in_thread(self, callback: Callable[[], None]) -> None:
        if self.is_turning:
            asyncio.get_running_loop().call_soon(callback)


class Reader(Client):
    """A fake reader with brokers that return the end of readable records."""

    def __init__(self) -> None:
        super().__init__()
        self.position = 0

    def position_of(self, _: int) -> int:
        return self.position


class Stage:
    """A worker of one partition with its own pipeline and scripted brokers."""

    def __init__(self, new_queue: NewQueue = lambda _rows, _wake: FifoQueue()) -> None:
        self.now_s = 0.0
        self.memory = Memory()
        self.writer, self.rows = Writer(), PartitionRows("changelog 0")
        self.member, self.reader = GroupMember(), Reader()
        self.is_member = True
        self.membership = Membership(SETTINGS.session_timeout_s, lambda: self.now_s)
        self.numbers = Numbers()
        nothing: Any = SimpleNamespace(remember=lambda _: None)
        reader: Any = self.reader
        self.pipeline = Pipeline(
            topic=SETTINGS.requests_topic,
            reader=reader,
            composer=nothing,
            writer=self.writer,
            membership=nothing,
            policies=nothing,
            commit=self.commit,
            durable=partial(count_durable, self.numbers),
            failed=lambda _: None,
            new_queue=new_queue,
        )
        self.sources = Sources(
            settings=SETTINGS,
            member=lambda: self.member,
            is_rebalancing=lambda: False,
            rows=lambda: {0: self.rows},
            pipeline=self.pipeline,
            reader=reader,
            membership=self.membership,
            memory=self.memory,
            share=DeadLetterShare(2, 1.0),
            verifier=None,
        )
        self.probe = Probe(self.sources, self.numbers, lambda: self.now_s)
        self.pipeline.begin(0, self.rows, 0)

    async def commit(self) -> bool:
        """Commit the offsets of the pipeline."""
        offsets = self.pipeline.committable()
        self.pipeline.record_commits({partition: offset for partition, (offset, _) in offsets.items()})
        return bool(offsets)

    async def passes(self, seconds: float) -> None:
        """Let time pass, and look as a worker does."""
        for _ in range(0, int(seconds), 5):
            self.now_s += 5
            if self.is_member:
                self.membership.confirm(self.now_s)
            await self.probe.ask()
            await asyncio.sleep(0)
            self.probe.look()

    def ends_at(self, offset: int) -> None:
        """Let the partition end there, without an open transaction."""
        self.member.end = self.reader.end = offset

    def brokers_are(self, *, away: bool = False, silent: bool = False) -> None:
        for client in (self.member, self.reader):
            client.is_away, client.is_silent = away, silent

    def compose(self, events: int = 1) -> None:
        flow = self.pipeline.flows[0]
        offset = flow.durable_offset or 0
        self.ends_at(offset + events)
        self.reader.position = offset + events
        self.pipeline.hand_over(flow, Batch(0, offset, offset + events, events, {}, {}, [], 10))

    def value(self, metric: metrics.Metric, *labels: str) -> float | None:
        [family] = [one for one in self.numbers.collect() if one.name == metric.name.removesuffix("_total")]
        return next(
            (sample.value for sample in family.samples if tuple(sample.labels.values()) == labels), None
        )

    @property
    def is_alive(self) -> bool:
        return not self.probe.health.why_dead()


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    await made.passes(5)
    yield made
    made.pipeline.abandon()


async def test_a_worker_at_its_end_lives_and_is_ready(stage: Stage) -> None:
    await stage.passes(10 * MINUTE_S)
    assert stage.is_alive
    assert stage.probe.health.why_not_ready() == ()


async def test_a_writer_that_hangs_makes_the_worker_dead_within_a_minute(stage: Stage) -> None:
    stage.compose()
    await stage.passes(MINUTE_S)
    assert not stage.is_alive
    stage.writer.durable.set()
    await stage.passes(5)
    assert stage.is_alive


async def test_a_stream_that_takes_nothing_makes_the_worker_dead_within_a_minute(stage: Stage) -> None:
    stage.pipeline.fetched(0, [ConsumerRecord("requests", 0, 0, 1, 0, b"a/s", b"", None, 0, 0, ())])
    await stage.passes(MINUTE_S)
    assert not stage.is_alive


async def test_a_client_that_fetches_no_more_makes_the_worker_dead_within_a_minute(stage: Stage) -> None:
    stage.ends_at(5)
    await stage.passes(MINUTE_S)
    assert not stage.is_alive


async def test_partitions_that_never_flow_make_the_worker_dead(stage: Stage) -> None:
    stage.pipeline.abandon()
    await stage.passes(MINUTE_S + 15)
    assert not stage.is_alive


async def test_sessions_that_are_not_read_on_make_the_worker_dead(stage: Stage) -> None:
    """The probe acts after the worker's own deadline, in case that deadline hangs too."""
    stage.pipeline.abandon()
    stage.member.is_recovering = True
    for offset in range(20):
        stage.rows.changelog_offset = offset
        await stage.passes(MINUTE_S)
        assert stage.is_alive
    await stage.passes(MINUTE_S + 15)
    assert not stage.is_alive


async def test_a_clients_thread_that_takes_no_turn_makes_the_worker_dead_within_a_minute(
    stage: Stage,
) -> None:
    """No other signal shows it: silent brokers alone would excuse a worker without progress."""
    stage.member.is_turning = False
    stage.brokers_are(away=True)
    await stage.passes(MINUTE_S)
    assert not stage.is_alive


async def test_brokers_that_are_away_do_not(stage: Stage) -> None:
    stage.compose()
    stage.brokers_are(away=True)
    await stage.passes(5 * MINUTE_S)
    assert stage.is_alive
    assert stage.probe.health.why_not_ready() == ("brokers do not answer",)


async def test_brokers_that_take_a_question_and_never_answer_it_do_not(stage: Stage) -> None:
    settings = SETTINGS.model_copy(update={"request_timeout_s": 0.001})
    stage.probe._sources = replace(stage.sources, settings=settings)
    stage.compose()
    stage.brokers_are(silent=True)
    await stage.passes(5 * MINUTE_S)
    assert stage.is_alive
    assert stage.probe.health.why_not_ready() == ("brokers do not answer",)
    stage.brokers_are()
    stage.writer.durable.set()
    await stage.passes(10)
    assert stage.probe.health.why_not_ready() == ()


async def test_health_is_served_while_a_broker_call_waits(stage: Stage) -> None:
    stage.brokers_are(silent=True)
    asking = asyncio.create_task(stage.probe.ask())
    await asyncio.sleep(0)
    port = free_port()
    async with serving("127.0.0.1", port, stage.probe.health, stage.numbers, stage.probe.refresh):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: worker\r\nConnection: close\r\n\r\n")
        assert b" 200 " in await asyncio.wait_for(reader.readline(), 10)
        writer.close()
    assert not asking.done()
    asking.cancel()


async def test_offsets_without_a_record_behind_the_last_event_are_no_lag_and_no_work(stage: Stage) -> None:
    stage.ends_at(7)
    stage.reader.position = 7
    await stage.passes(5 * MINUTE_S)
    await stage.probe.refresh()
    assert stage.is_alive
    assert stage.value(metrics.LAG, "0") == 0


async def test_records_behind_an_open_transaction_are_no_lag_and_have_a_metric(stage: Stage) -> None:
    stage.member.end = 7
    await stage.passes(5 * MINUTE_S)
    await stage.probe.refresh()
    assert stage.is_alive
    assert stage.probe.health.why_not_ready() == ()
    assert stage.value(metrics.OPEN_TRANSACTION_OFFSETS, "0") == 7
    assert stage.value(metrics.LAG, "0") == 0
    stage.ends_at(7)
    await stage.passes(5)
    await stage.probe.refresh()
    assert stage.value(metrics.OPEN_TRANSACTION_OFFSETS, "0") == 0
    assert stage.value(metrics.LAG, "0") == 7


async def test_transactions_that_follow_each_other_hold_nothing_back(stage: Stage) -> None:
    for end in range(1, 4):
        stage.reader.end, stage.member.end = end, end + 1
        await stage.passes(5)
        await stage.probe.refresh()
        assert stage.value(metrics.OPEN_TRANSACTION_OFFSETS, "0") == 0


async def test_a_worker_without_the_membership_is_not_ready_and_then_dead(stage: Stage) -> None:
    stage.is_member = False
    await stage.passes(30)
    await stage.probe.refresh()
    assert stage.is_alive
    assert stage.probe.health.why_not_ready() == ("the membership in the group is not held",)
    assert (stage.value(metrics.MEMBER), stage.value(metrics.HEARTBEAT_SECONDS)) == (0, 30)
    await stage.passes(MINUTE_S + 10)
    assert not stage.is_alive
    stage.is_member = True
    await stage.passes(5)
    await stage.probe.refresh()
    assert (stage.value(metrics.MEMBER), stage.value(metrics.HEARTBEAT_SECONDS)) == (1, 0)
    assert stage.probe.health.why_not_ready() == ()


async def test_a_worker_that_the_group_never_takes_is_dead_though_it_has_no_partitions(stage: Stage) -> None:
    stage.pipeline.abandon()
    stage.is_member = stage.member.is_assigned = False
    await stage.passes(SETTINGS.session_timeout_s + 5)
    assert stage.is_alive
    await stage.passes(2 * MINUTE_S)
    assert not stage.is_alive
    await stage.probe.refresh()


async def test_lag_counts_events_that_are_not_durable(stage: Stage) -> None:
    stage.compose(events=3)
    stage.ends_at(10)
    await stage.passes(5)
    await stage.probe.refresh()
    assert stage.value(metrics.LAG, "0") == 10
    assert stage.value(metrics.IN_FLIGHT_BATCHES) == 1
    stage.writer.durable.set()
    await stage.passes(5)
    await stage.probe.refresh()
    assert stage.value(metrics.LAG, "0") == 7
    assert stage.value(metrics.EVENTS) == 3


async def test_uncommitted_counts_fetched_events_without_a_commit(stage: Stage) -> None:
    stage.compose(events=9)
    await stage.probe.refresh()
    assert stage.value(metrics.UNCOMMITTED, "0") == 9
    stage.pipeline.record_commits({0: 7})
    await stage.probe.refresh()
    assert stage.value(metrics.UNCOMMITTED, "0") == 2
    assert stage.value(metrics.WAITING_EVENTS, "0") is None, "nobody waits for turns without limits"


async def test_what_waits_for_turns_and_what_is_remembered_has_its_gauges() -> None:
    stage = Stage(partial(TurnQueue, TenantLimits(0.5, 0, 1 << 20), Buckets(0)))
    stage.pipeline.fetched(0, [ConsumerRecord("requests", 0, 0, 1, 0, b"a/s", b"x" * 1_000, None, 0, 0, ())])
    await stage.probe.refresh()
    assert stage.value(metrics.WAITING_EVENTS, "0") == 1
    assert (stage.value(metrics.WAITING_BYTES, "0") or 0) > 1_000
    assert stage.value(metrics.CACHE_BYTES) == 0
    answer(request([candidate("a")]), lanes_policy(), memory=stage.memory)
    await stage.probe.refresh()
    assert (stage.value(metrics.CACHE_BYTES) or 0) > 1_000
    stage.pipeline.abandon()


def with_failures(failures: int) -> CommitMetadata:
    return CommitMetadata(failures=failures - 1, under_way="event")


async def test_a_failing_event_is_shown_until_minutes_after_its_end(
    stage: Stage,
) -> None:
    stage.pipeline.end()
    stage.pipeline.begin(0, stage.rows, 7, encode_metadata(with_failures(2)))
    for _ in range(20):
        await stage.passes(MINUTE_S)
        await stage.probe.refresh()
        assert stage.value(metrics.EVENT_FAILURES, "0") == 2
    stage.pipeline.flows[0].add_records([])
    stage.compose()
    stage.writer.durable.set()
    await stage.passes(MINUTE_S)
    shown = []
    for _ in range(7):
        await stage.probe.refresh()
        shown.append(stage.value(metrics.EVENT_FAILURES, "0"))
        await stage.passes(MINUTE_S)
    assert shown == [2, 2, 2, 2, 2, 0, 0]


async def test_a_worker_that_starts_shows_the_failures_of_its_group_until_its_own_partitions_flow() -> None:
    stage = Stage()
    stage.pipeline.end()
    stage.member.is_assigned = False
    stage.probe.begin({0: CommittedOffset(7, with_failures(3)), 1: CommittedOffset(7)})
    await stage.probe.refresh()
    assert stage.value(metrics.EVENT_FAILURES, "0") == 3
    assert stage.value(metrics.EVENT_FAILURES, "1") is None
    stage.member.is_assigned = True
    stage.pipeline.begin(0, stage.rows, 9)
    await stage.probe.refresh()
    assert stage.value(metrics.EVENT_FAILURES, "0") == 0


async def test_the_probe_waits_longer_than_the_workers_own_deadlines() -> None:
    patience = patience_of(Settings())
    assert patience.stalled_s <= MINUTE_S
    slow = patience_of(Settings(delivery_timeout_s=40.0, session_timeout_s=60.0, rebalance_timeout_s=90.0))
    assert slow.stalled_s > 2 * 40.0
    assert slow.membership_s >= 2 * 60.0
