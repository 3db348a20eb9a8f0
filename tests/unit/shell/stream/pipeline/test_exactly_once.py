"""Transactions with the outputs, rows and offset of a batch, all or none."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
import pytest_asyncio
from aiokafka.errors import (
    InvalidProducerIdMapping,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFenced,
)
from support.pipeline_stage import KEY, PipelineStage, read

from apportion.settings import Settings
from apportion.shell.kafka.commit_metadata import decode_metadata
from apportion.shell.stream.faults import FencedError, NotDurableError
from apportion.shell.stream.pipeline.batch import BatchBounds
from apportion.shell.stream.pipeline.exactly_once import ExactlyOnceWriter
from apportion.shell.stream.state.faults import RecoveryFailedError

pytestmark = pytest.mark.asyncio

SETTINGS = Settings(partitions=1, delivery_timeout_s=8, recovery_timeout_s=0.5)
CHANGELOG = "apportion-sessions-changelog"
COMPOSED, DECISIONS = SETTINGS.composed_topic, SETTINGS.decisions_topic


class Sent:
    def __init__(self, records: int, offset: int) -> None:
        self.records, self.offset = records, offset
        self.acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Cluster:
    """Fake clients of all partitions, with a log of their actions."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.errors: dict[str, list[KafkaError]] = {}
        self.unacknowledged: set[str] = set()
        self.held: asyncio.Event = asyncio.Event()
        self.held.set()
        self.metadata = ""
        self.changelog_end = 0

    def note(self, what: str) -> None:
        self.done.append(what)
        if errors := self.errors.get(what):
            raise errors.pop(0)


class Client:
    """A fake client of one partition."""

    def __init__(self, cluster: Cluster, partition: int) -> None:
        self._cluster = cluster
        self._partition = partition

    async def start(self, _: Any) -> None:
        await asyncio.sleep(0)
        self._cluster.note(f"start {self._partition}")

    async def stop(self) -> None:
        await asyncio.sleep(0)
        self._cluster.note(f"stop {self._partition}")

    async def begin(self) -> None:
        self._cluster.note("begin")

    def send(self, topic: str, _: int, groups: Iterable[Iterable[Any]]) -> list[Sent]:
        records = [entry for group in groups for entry in group]
        if not records:
            return []
        self._cluster.note(topic)
        sent = Sent(len(records), self._cluster.changelog_end)
        if topic == CHANGELOG:
            self._cluster.changelog_end += len(records)
        if topic not in self._cluster.unacknowledged:
            sent.acknowledged.set_result(None)
        else:
            sent.acknowledged.set_exception(KafkaTimeoutError())
            sent.acknowledged.exception()
        return [sent]

    async def send_offset(self, _: Any, offset: int, metadata: str, __: Any) -> None:
        self._cluster.note(f"offset {offset}")
        self._cluster.metadata = metadata

    async def commit(self) -> None:
        self._cluster.note("commit")
        await self._cluster.held.wait()
        self._cluster.changelog_end += 1  # the marker

    async def abort(self) -> None:
        self._cluster.note("abort")


class Stage(PipelineStage):
    """A pipeline with one partition that writes in transactions."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        super().__init__(SETTINGS, BatchBounds(records=1))

    def new_writer(self) -> ExactlyOnceWriter:
        def new_producer(_: Settings, partition: int) -> Any:
            return Client(self.cluster, partition)

        self.writer = ExactlyOnceWriter(SETTINGS, self.membership, CHANGELOG, new_producer)
        return self.writer

    async def durable(self, offset: int) -> None:
        await self.until(lambda: self.pipeline.flows[0].committed_offset == offset)

    @property
    def done(self) -> list[str]:
        return self.cluster.done


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    await made.writer.assign([0])
    made.done.clear()
    yield made
    made.pipeline.abandon()
    await made.stop()
    await made.writer.stop()


async def test_outputs_rows_and_offset_share_one_transaction(stage: Stage) -> None:
    await stage.answer(read(4))
    await stage.durable(5)
    assert stage.done == ["begin", COMPOSED, DECISIONS, CHANGELOG, "offset 5", "commit"]
    assert stage.failures == []


async def test_a_committed_offset_is_not_committed_again(stage: Stage) -> None:
    await stage.answer(read(4))
    await stage.durable(5)
    assert stage.pipeline.committable() == {}


async def test_commit_metadata_has_the_window_and_stream_time_of_durable_events(stage: Stage) -> None:
    for offset in (0, 1):
        await stage.answer(read(offset))
        await stage.durable(offset + 1)
        metadata = decode_metadata(stage.cluster.metadata)
        assert metadata.window.startswith(f"{offset + 1};")
        assert metadata.stream_time_us == stage.rows.time.committed_us == stage.rows.time.seen_us > 0


async def test_batches_that_wait_for_a_transaction_share_the_next(stage: Stage) -> None:
    stage.cluster.held.clear()
    await stage.answer(read(0))
    await stage.until(lambda: "commit" in stage.done)
    await stage.answer(read(1), read(2))
    stage.cluster.held.set()
    await stage.durable(3)
    outputs = [COMPOSED, DECISIONS, CHANGELOG]
    assert stage.done[6:] == ["begin", *outputs, "offset 3", "commit"]


async def test_the_markers_of_transactions_are_contained_in_the_changelog(stage: Stage) -> None:
    for offset in range(3):
        await stage.answer(read(offset))
        await stage.durable(offset + 1)
    assert stage.rows.changelog_offset == stage.rows.changelog_end == stage.cluster.changelog_end - 1 > 3


@pytest.mark.parametrize("topic", [COMPOSED, CHANGELOG])
async def test_an_unacknowledged_record_aborts_and_ends_the_worker(stage: Stage, topic: str) -> None:
    stage.cluster.unacknowledged.add(topic)
    await stage.answer(read(4))
    await stage.until(lambda: stage.failures)
    [failure] = stage.failures
    assert isinstance(failure, NotDurableError)
    assert "partition 0 offset 4: the broker did not acknowledge" in str(failure)
    assert stage.done[-1] == "abort"
    assert "commit" not in stage.done
    stage.pipeline.abandon()
    assert stage.rows.row(KEY) is None
    assert stage.rows.changelog_offset == 0
    assert stage.pipeline.committable() == {}


async def test_an_expired_producer_id_is_renewed_without_duplicates(
    stage: Stage,
) -> None:
    forgotten = KafkaError("Unexpected error during batch delivery")
    forgotten.__cause__ = InvalidProducerIdMapping()
    stage.cluster.errors["offset 5"] = [forgotten]
    await stage.answer(read(4))
    await stage.durable(5)
    filling = ["begin", COMPOSED, DECISIONS, CHANGELOG, "offset 5"]
    assert stage.done == [*filling, "stop 0", "start 0", *filling, "commit"]
    assert stage.failures == []


@pytest.mark.parametrize("step", ["offset 5", "commit"])
async def test_a_fenced_worker_ends_at_once_and_rolls_back(stage: Stage, step: str) -> None:
    stage.cluster.errors[step] = [ProducerFenced()]
    await stage.answer(read(4))
    await stage.until(lambda: stage.failures)
    [failure] = stage.failures
    assert isinstance(failure, FencedError)
    assert "partition 0 offset 4" in str(failure)
    assert stage.done[-1] == step
    await stage.answer(read(5))
    assert stage.done[-1] == step, "nothing more is sent"
    stage.pipeline.abandon()
    assert stage.rows.row(KEY) is None
    assert stage.pipeline.committable() == {}


async def test_a_revoked_partition_aborts_its_transaction_and_restores_rows(stage: Stage) -> None:
    stage.cluster.held.clear()
    await stage.answer(read(0))
    await stage.until(lambda: "commit" in stage.done)
    stage.pipeline.abandon()
    assert stage.rows.row(KEY) is None
    assert stage.rows.changelog_offset == 0, "if it was committed all the same, it is read back"
    await stage.until(lambda: stage.done[-1] == "stop 0")


async def test_no_transaction_begins_while_the_group_may_have_given_the_partition_away(stage: Stage) -> None:
    await stage.pipeline._membership.held()
    answering = asyncio.ensure_future(stage.answer(read(0)))
    await stage.until(lambda: stage.pipeline.in_flight)
    stage.now_s = 31.0
    await answering
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, timeout=0.1)
    assert stage.done == []
    stage.membership.confirm(31.0)
    await stage.durable(1)


async def test_an_assignment_restarts_every_producer(stage: Stage) -> None:
    await stage.writer.assign([0, 1])
    assert stage.done == ["stop 0", "start 0", "start 1"]
    stage.done.clear()
    await stage.writer.assign([1])
    assert sorted(stage.done) == ["start 1", "stop 0", "stop 1"]
    assert stage.done[-1] == "start 1"


async def test_an_unreachable_coordinator_is_retried_and_a_refusal_raises(stage: Stage) -> None:
    stage.cluster.errors["start 0"] = [KafkaConnectionError()]
    await stage.writer.assign([0])
    assert stage.done == ["stop 0", "start 0", "stop 0", "start 0"]
    stage.cluster.errors["start 0"] = [KafkaError("not allowed")]
    with pytest.raises(RecoveryFailedError, match="not allowed"):
        await stage.writer.assign([0])


async def test_an_expired_membership_takes_over_no_partitions(stage: Stage) -> None:
    stage.now_s = 31.0
    with pytest.raises(RecoveryFailedError, match="no transaction could begin"):
        await stage.writer.assign([0])
    assert "start 0" not in stage.done
