"""The order that makes it safe, by batches: outputs, then rows, then the offset."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any
from weakref import ref

import pytest
import pytest_asyncio
from aiokafka.errors import KafkaTimeoutError, MessageSizeTooLargeError
from support.pipeline_stage import DEADLINE_S, PipelineStage, read

from apportion.settings import Settings
from apportion.shell.kafka.commit_metadata import CommitMetadata, decode_metadata, encode_metadata
from apportion.shell.kafka.faults import OffsetOutOfRangeError
from apportion.shell.kafka.policies_topic import PoliciesUnreadError
from apportion.shell.stream.faults import (
    EventFailedError,
    NotDurableError,
    TooManyDeadLettersError,
)
from apportion.shell.stream.pipeline.batch import BatchBounds
from apportion.shell.stream.pipeline.breaker import DeadLetterShare, Window
from apportion.shell.stream.pipeline.flow import IN_FLIGHT_MAX
from apportion.shell.stream.pipeline.writer import EffectivelyOnceWriter
from apportion.shell.stream.state.row_format import seen_offset_of
from apportion.shell.stream.state.rows import PartitionRows

pytestmark = pytest.mark.asyncio

SETTINGS = Settings(partitions=1)
CHANGELOG = "apportion-sessions-changelog"
COMPOSED, DECISIONS = SETTINGS.composed_topic, SETTINGS.decisions_topic


class Sent:
    """A record batch that the broker has not acknowledged yet."""

    def __init__(self, topic: str, records: list[Any]) -> None:
        self.topic, self.values, self.records = topic, [value for _, value, *_ in records], len(records)
        self.acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.offset = 0


class Broker:
    """A fake producer: it records messages, and acknowledges them on request."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.withdrawn: list[Sent] = []
        self._grown = asyncio.Event()

    def send(self, topic: str, _: int, groups: Iterable[Iterable[Any]]) -> list[Sent]:
        sent = Sent(topic, [entry for group in groups for entry in group])
        sent.offset = sum(message.records for message in self.sent if message.topic == topic)
        self.sent.append(sent)
        self._grown.set()
        return [sent]

    def withdraw(self, sent: list[Sent]) -> None:
        self.withdrawn += [message for message in sent if not message.acknowledged.done()]

    @property
    def topics(self) -> list[str]:
        return [message.topic for message in self.sent]

    def acknowledge(self, topic: str | None = None) -> None:
        for message in self.sent:
            if topic in (None, message.topic) and not message.acknowledged.done():
                message.acknowledged.set_result(None)

    def lose(self, topic: str, error: type[Exception] = KafkaTimeoutError) -> None:
        for message in self.sent:
            if message.topic == topic and not message.acknowledged.done():
                message.acknowledged.set_exception(error())
                message.acknowledged.exception()

    async def has_sent(self, topic: str, count: int = 1) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while self.topics.count(topic) < count:
                self._grown.clear()
                await self._grown.wait()


class Stage(PipelineStage):
    """A pipeline with one partition, and a broker that acknowledges on request."""

    def __init__(self, bounds: BatchBounds, **options: Any) -> None:
        self.broker = Broker()
        super().__init__(SETTINGS, bounds, **options)

    def new_writer(self) -> EffectivelyOnceWriter:
        producer: Any = self.broker
        return EffectivelyOnceWriter(producer, self.membership, CHANGELOG, DEADLINE_S)

    def committable(self) -> int | None:
        offset, _ = self.pipeline.committable().get(0, (None, ""))
        return offset


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage(BatchBounds(work_s=60.0))
    yield made
    made.pipeline.abandon()
    await made.stop()


@pytest_asyncio.fixture
async def one_by_one() -> AsyncIterator[Stage]:
    made = Stage(BatchBounds(records=1, work_s=60.0))
    yield made
    made.pipeline.abandon()
    await made.stop()


async def test_rows_follow_durable_outputs_and_the_offset_follows_durable_rows(
    stage: Stage,
) -> None:
    await stage.answer(read(0), read(1))
    assert stage.broker.topics == [COMPOSED, DECISIONS]
    stage.broker.acknowledge(COMPOSED)
    await asyncio.sleep(0)
    assert CHANGELOG not in stage.broker.topics
    stage.broker.acknowledge(DECISIONS)
    await stage.broker.has_sent(CHANGELOG)
    assert stage.committable() is None
    stage.broker.acknowledge(CHANGELOG)
    await stage.until(lambda: stage.committable() == 2)
    assert stage.broker.sent[-1].records == 1, "of a session, the last row alone"


async def test_outputs_of_the_next_batch_leave_at_once_its_rows_in_order(
    one_by_one: Stage,
) -> None:
    stage = one_by_one
    await stage.answer(read(0), read(1))
    assert stage.broker.topics == [COMPOSED, DECISIONS] * 2
    stage.broker.acknowledge()
    await stage.broker.has_sent(CHANGELOG)
    await asyncio.sleep(0)
    assert stage.broker.topics.count(CHANGELOG) == 1
    stage.broker.acknowledge()
    await stage.broker.has_sent(CHANGELOG, 2)
    seen = [seen_offset_of(message.values[0]) for message in stage.broker.sent if message.topic == CHANGELOG]
    assert seen == [0, 1], "a row never tells of an event whose outputs may be lost"
    assert stage.committable() == 1


async def test_events_of_partitions_are_composed_in_read_order(stage: Stage) -> None:
    stage.pipeline.begin(1, PartitionRows("changelog 1"), None)
    other = replace(read(3), partition=1)
    stage.requests.put(1, other)
    await stage.answer(read(0), read(1))
    await stage.until(lambda: stage.pipeline.in_flight == 2)
    batches = {number: flow.in_flight[0].batch for number, flow in stage.pipeline.flows.items()}
    assert {number: (batch.offset, batch.events) for number, batch in batches.items()} == {
        0: (0, 2),
        1: (3, 1),
    }
    assert stage.requests.reads[0] == {0, 1}


async def test_a_partition_is_read_again_once_fetched_events_are_composed(stage: Stage) -> None:
    stage.now_s = 31.0
    stage.requests.put(0, read(0))
    stage.run()
    await stage.until(lambda: stage.pipeline.flows[0].waiting)
    assert not stage.pipeline.has_room(0)
    assert stage.requests.reads == [{0}]
    stage.membership.confirm(31.0)
    await stage.until(lambda: len(stage.requests.reads) > 1)
    assert stage.pipeline.has_room(0)
    assert stage.pipeline.in_flight == 1


async def test_a_partition_without_room_keeps_no_other_from_being_read(one_by_one: Stage) -> None:
    stage = one_by_one
    stage.pipeline.begin(1, PartitionRows("changelog 1"), None)
    await stage.answer(*(read(offset) for offset in range(IN_FLIGHT_MAX + 1)))
    assert not stage.pipeline.has_room(0)
    await stage.until(lambda: len(stage.requests.reads) > 3)
    assert stage.requests.reads[:4] == [{0, 1}, {1}, {1}, {1}]
    assert stage.requests.timeouts_s[1] < stage.requests.timeouts_s[0], "the other may have room soon"


async def test_only_flowing_partitions_are_read_and_new_ones_at_once(
    stage: Stage,
) -> None:
    stage.pipeline.abandon()
    stage.pipeline.end()
    stage.run()
    await asyncio.sleep(0)
    assert stage.requests.reads == []
    stage.pipeline.begin(0, stage.rows, None)
    await stage.until(lambda: stage.requests.reads == [{0}])


async def test_lingering_delays_the_next_read_but_not_composing() -> None:
    stage = Stage(BatchBounds(work_s=60.0), linger_s=60.0)
    await stage.answer(read(0))
    assert stage.pipeline.in_flight == 1
    for _ in range(3):
        await asyncio.sleep(0)
    assert stage.requests.reads == [{0}]
    stage.pipeline.abandon()
    await stage.stop()


async def test_a_read_that_fails_ends_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_nothing(*_: object) -> None:
        raise OffsetOutOfRangeError("context-requests partition 0", 3, 5, 9)

    monkeypatch.setattr(stage.requests, "read", read_nothing)
    with pytest.raises(OffsetOutOfRangeError):
        await asyncio.wait_for(stage.run(), DEADLINE_S)


async def test_a_partition_with_enough_in_flight_is_not_fetched_and_goes_on_when_there_is_room(
    one_by_one: Stage,
) -> None:
    stage = one_by_one
    await stage.answer(*(read(offset) for offset in range(IN_FLIGHT_MAX + 1)))
    assert stage.broker.topics.count(COMPOSED) == IN_FLIGHT_MAX
    assert not stage.pipeline.has_room(0)
    assert stage.requests.reads == [{0}]
    stage.broker.acknowledge()
    await stage.broker.has_sent(CHANGELOG)
    stage.broker.acknowledge()
    await stage.broker.has_sent(COMPOSED, IN_FLIGHT_MAX + 1)


async def test_an_unacknowledged_event_ends_it_and_stops_later_commits(
    one_by_one: Stage,
) -> None:
    stage = one_by_one
    await stage.answer(read(3), read(4))
    stage.broker.lose(DECISIONS)
    await stage.until(lambda: stage.failures)
    [failure] = stage.failures
    assert isinstance(failure, NotDurableError)
    assert "partition 0 offset 3: the broker did not acknowledge" in str(failure)
    assert stage.committable() is None
    assert CHANGELOG not in stage.broker.topics


async def test_a_revoked_partition_is_abandoned_and_its_rows_restored(one_by_one: Stage) -> None:
    stage = one_by_one
    await stage.answer(read(0), read(1))
    await stage.until(lambda: len(stage.requests.reads) == 2)
    stage.pipeline.abandon()
    assert stage.rows.row(b"default/s") is None
    assert set(stage.broker.withdrawn) == set(stage.broker.sent)
    stage.requests.put(0, read(2))  # a read was under way
    await stage.until(lambda: not stage.requests.records)
    await asyncio.sleep(0)
    assert len(stage.broker.sent) == 4, "nothing is composed any more"
    stage.broker.acknowledge()
    await asyncio.sleep(0)
    assert CHANGELOG not in stage.broker.topics
    stage.pipeline.end()
    stage.pipeline.begin(0, stage.rows, 0)
    assert stage.pipeline.has_room(0)


async def test_a_revoked_partition_releases_its_memory(one_by_one: Stage) -> None:
    """Its rows and its waiting fetched records are released without a cyclic collection."""
    stage, lasting = one_by_one, PartitionRows("changelog 1")
    rows, stage.rows = ref(stage.rows), lasting
    gc.collect()
    gc.disable()
    try:
        await stage.answer(*(read(offset) for offset in range(IN_FLIGHT_MAX + 1)))
        assert stage.pipeline.flows[0].waiting == 1, "the last one waits for room"
        stage.pipeline.abandon()
        stage.pipeline.end()
        await stage.until(lambda: rows() is None)  # the writing task learns that it is over
    finally:
        gc.enable()


async def test_durable_events_of_a_revoked_partition_may_be_committed(one_by_one: Stage) -> None:
    stage = one_by_one
    await stage.answer(read(0), read(1))
    stage.broker.acknowledge()
    await stage.broker.has_sent(CHANGELOG)
    stage.broker.acknowledge()
    await stage.until(lambda: stage.committable() == 1)
    stage.pipeline.abandon()
    assert stage.committable() == 1
    stage.pipeline.record_commits({0: 1})
    assert stage.committable() is None


async def test_finishing_writes_composed_events_and_composes_no_more(
    one_by_one: Stage,
) -> None:
    stage = one_by_one
    await stage.answer(read(0))
    stage.now_s = 31.0
    stage.requests.put(0, read(1))
    await stage.until(lambda: stage.pipeline.flows[0].waiting == 1)
    finishing = asyncio.ensure_future(stage.pipeline.finish(DEADLINE_S))
    await asyncio.sleep(0)
    stage.membership.confirm(31.0)
    stage.broker.acknowledge()
    await stage.broker.has_sent(CHANGELOG)
    stage.broker.acknowledge()
    await asyncio.wait_for(finishing, timeout=DEADLINE_S)
    assert stage.committable() == 1
    assert stage.broker.topics.count(COMPOSED) == 1


async def test_an_expired_membership_pauses_composing(stage: Stage) -> None:
    stage.now_s = 31.0
    answering = asyncio.ensure_future(stage.answer(read(0)))
    await asyncio.wait({answering}, timeout=0.1)
    assert stage.broker.sent == []
    stage.pipeline.abandon()
    stage.membership.confirm(31.0)
    await asyncio.wait_for(answering, timeout=DEADLINE_S)
    assert stage.broker.sent == [], "it was taken away meanwhile"


async def test_events_composed_after_the_membership_expired_are_not_sent(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a worker that was stopped in the middle of composing, and woken when its session was over."""
    real = stage.pipeline._composer.compose

    def compose(*arguments: Any) -> Any:
        stage.now_s = 31.0
        return real(*arguments)

    monkeypatch.setattr(stage.pipeline._composer, "compose", compose)
    answering = asyncio.ensure_future(stage.answer(read(0)))
    await asyncio.wait({answering}, timeout=0.1)
    assert stage.broker.sent == []
    assert stage.rows.row(b"default/s") is None
    answering.cancel()


async def test_rows_do_not_leave_while_the_group_may_have_given_the_partition_away(stage: Stage) -> None:
    await stage.answer(read(0))
    stage.now_s = 31.0
    stage.broker.acknowledge()
    await asyncio.sleep(0.1)
    assert CHANGELOG not in stage.broker.topics
    stage.membership.confirm(31.0)
    await stage.broker.has_sent(CHANGELOG)


async def test_events_before_a_failing_event_are_written(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = stage.pipeline._composer._answers
    real = answers.answer

    def answer(record: Any, *rest: Any) -> Any:
        if record.offset == 1:
            raise ZeroDivisionError
        return real(record, *rest)

    monkeypatch.setattr(answers, "answer", answer)
    with pytest.raises(EventFailedError, match="offset 1"):
        await stage.answer(read(0), read(1))
    stage.broker.acknowledge()
    await stage.broker.has_sent(CHANGELOG)
    stage.broker.acknowledge()
    await stage.until(lambda: stage.committable() == 1)


async def test_refusals_of_before_a_worker_began_count_for_its_next_refused_event() -> None:
    """Otherwise a supervisor's restarts would empty the topic, one window at a time."""
    window = Window(3, [("a", True), ("b", True), ("c", True)])
    metadata = encode_metadata(CommitMetadata(window=str(window)))
    stage = Stage(BatchBounds(work_s=60.0), share=DeadLetterShare(4, 0.5), committed=(7, metadata))
    with pytest.raises(TooManyDeadLettersError, match="4 of the last 4 events"):
        await stage.answer(read(7, {"type": "nothing"}), read(8))
    assert COMPOSED not in stage.broker.topics
    stage.pipeline.abandon()


async def test_an_unknown_end_of_the_policies_stops_sending(stage: Stage) -> None:
    stage.policies_unread = True
    with pytest.raises(PoliciesUnreadError):
        await stage.answer(read(0))
    assert stage.broker.sent == []


async def test_a_partition_that_does_not_flow_has_no_room(stage: Stage) -> None:
    assert not stage.pipeline.has_room(1)


def fail_at(stage: Stage, monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    answers = stage.pipeline._composer._answers
    real = answers.answer

    def answer(record: Any, *rest: Any) -> Any:
        if record.offset == offset:
            raise ZeroDivisionError
        return real(record, *rest)

    monkeypatch.setattr(answers, "answer", answer)


def failures(stage: Stage) -> tuple[int, int] | None:
    committable = stage.pipeline.committable().get(0)
    return None if committable is None else (committable[0], decode_metadata(committable[1]).failures)


async def test_commit_metadata_counts_the_failures_of_an_event(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at(stage, monkeypatch, 7)
    with pytest.raises(EventFailedError):
        await stage.answer(read(7))
    assert failures(stage) == (7, 1)
    stage.pipeline.abandon()
    for count in (2, 3):
        offset, metadata = stage.pipeline.committable()[0]
        stage.pipeline.end()
        stage.pipeline.begin(0, stage.rows, offset, metadata)
        with pytest.raises(EventFailedError):
            await stage.answer(read(7))
        assert failures(stage) == (7, count)


async def test_an_event_is_not_counted_as_failed_while_those_before_it_are_not_durable(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at(stage, monkeypatch, 1)
    with pytest.raises(EventFailedError):
        await stage.answer(read(0), read(1))
    assert failures(stage) is None
    stage.pipeline.abandon()
    assert failures(stage) == (0, 0)


async def test_an_event_with_the_maximum_of_failures_is_skipped(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at(stage, monkeypatch, 7)
    stage.pipeline.end()
    stage.pipeline._event_failures_max = 2
    stage.pipeline.begin(0, stage.rows, 7, encode_metadata(CommitMetadata(failures=2)))
    await stage.answer(read(7), read(8))
    [letter] = [message for message in stage.broker.sent if message.topic == SETTINGS.dead_letters_topic]
    assert json.loads(letter.values[0])["error"]["code"] == "event_failed"
    assert COMPOSED in stage.broker.topics


UNDER_WAY = CommitMetadata(under_way="batch")
ALONE = CommitMetadata(under_way="event")


def taken_over(stage: Stage, metadata: CommitMetadata, event_failures_max: int = 0) -> None:
    """Let a partition flow from offset 7, where these metadata were committed."""
    stage.pipeline.end()
    stage.pipeline._event_failures_max = event_failures_max
    stage.pipeline.begin(0, stage.rows, 7, encode_metadata(metadata))


def marks(stage: Stage) -> list[tuple[int, int, str]]:
    return [(offset, metadata.failures, metadata.under_way) for offset, metadata in stage.commits]


async def written(stage: Stage) -> None:
    """Let all that is in flight become durable."""
    before, durable = stage.broker.topics.count(CHANGELOG), len(stage.durable_batches)
    stage.broker.acknowledge()
    await stage.broker.has_sent(CHANGELOG, before + 1)
    stage.broker.acknowledge()
    await stage.until(lambda: len(stage.durable_batches) > durable or stage.failures)
    assert stage.failures == []


async def test_a_batch_under_way_is_committed_once_before_its_first_event(
    stage: Stage,
) -> None:
    taken_over(stage, CommitMetadata())
    await stage.answer(read(7))
    await stage.answer(read(8))
    assert marks(stage) == [(7, 0, "batch")]
    stage.broker.acknowledge()
    await stage.broker.has_sent(CHANGELOG)
    stage.broker.acknowledge()
    await stage.until(lambda: stage.committable() == 8)
    await stage.commit()
    assert marks(stage)[1:] == [(8, 0, "")], "what is durable clears it"


async def test_without_fetched_events_no_event_is_marked_under_way(stage: Stage) -> None:
    taken_over(stage, CommitMetadata())
    await stage.commit()
    taken_over(stage, UNDER_WAY)
    await stage.commit()
    assert stage.commits == []


async def test_a_partition_that_is_given_up_leaves_nothing_under_way(stage: Stage) -> None:
    taken_over(stage, CommitMetadata(failures=1))
    await stage.answer(read(7))
    stage.pipeline.abandon()
    await stage.commit()
    assert marks(stage) == [(7, 1, "batch"), (7, 1, "")], "and is no failure"


async def test_events_of_a_fatal_batch_are_composed_one_by_one(stage: Stage) -> None:
    taken_over(stage, UNDER_WAY)
    stage.requests.put(0, read(7), read(8))
    for _ in range(2):
        await stage.composed()
        assert stage.pipeline.in_flight == 1
        await written(stage)
    assert marks(stage) == [(7, 0, "event"), (7, 0, "batch"), (8, 0, "event"), (8, 0, "batch")]
    await stage.commit()
    assert marks(stage)[-1] == (9, 0, "batch"), "an event that comes later is suspected, and not counted"


async def test_events_are_composed_together_again_after_as_many_as_a_batch_has(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apportion.shell.stream.pipeline.flow.ALONE_MAX", 1)
    taken_over(stage, UNDER_WAY)
    await stage.answer(read(7), read(8), read(9))
    await written(stage)
    await stage.composed()
    assert marks(stage) == [(7, 0, "event"), (7, 0, "batch"), (8, 0, "batch")]
    assert [writing.batch.events for writing in stage.pipeline.flows[0].in_flight] == [2]
    stage.pipeline.abandon()


async def test_a_handover_during_single_composing_counts_no_failure(stage: Stage) -> None:
    taken_over(stage, UNDER_WAY)
    await stage.answer(read(7))
    stage.pipeline.abandon()
    await stage.commit()
    assert marks(stage) == [(7, 0, "event"), (7, 0, "batch")]


async def test_an_unwritable_event_counts_as_a_failure_of_the_batch(stage: Stage) -> None:
    taken_over(stage, ALONE)
    await stage.answer(read(7))
    stage.broker.lose(COMPOSED)
    await stage.until(lambda: stage.failures)
    assert marks(stage)[-1] == (7, 1, "batch")
    stage.pipeline.abandon()


async def test_an_event_composed_alone_when_workers_died_is_skipped(stage: Stage) -> None:
    taken_over(stage, CommitMetadata(failures=1, under_way="event"), event_failures_max=2)
    assert stage.pipeline.flows[0].failures == 2
    await stage.answer(read(7))
    assert marks(stage)[0] == (7, 2, "event"), "if the worker dies all the same, it is counted"
    [letter] = [message for message in stage.broker.sent if message.topic == SETTINGS.dead_letters_topic]
    assert json.loads(letter.values[0])["error"]["code"] == "event_failed"
    stage.pipeline.abandon()


async def test_an_event_answered_before_its_worker_died_is_not_skipped(stage: Stage) -> None:
    await stage.answer(read(7))
    taken_over(stage, ALONE, event_failures_max=1)
    before = len(stage.broker.sent)
    await stage.answer(read(7))
    assert len(stage.broker.sent) == before
    stage.pipeline.abandon()


async def test_an_event_with_an_unwritable_answer_is_found_and_skipped(stage: Stage) -> None:
    taken_over(stage, CommitMetadata(), event_failures_max=2)
    await stage.answer(read(7), read(8))
    for found in [(7, 0, "batch"), (7, 1, "batch"), (7, 2, "batch")]:
        stage.broker.lose(COMPOSED, MessageSizeTooLargeError)
        await stage.until(lambda: stage.failures)
        stage.failures.clear()
        stage.pipeline.abandon()
        await stage.commit()
        assert marks(stage)[-1] == found
        taken_over(stage, stage.commits[-1][1], event_failures_max=2)
        await stage.answer(read(7))
    [letter] = [message for message in stage.broker.sent if message.topic == SETTINGS.dead_letters_topic]
    assert json.loads(letter.values[0])["error"]["code"] == "event_failed"
    stage.pipeline.abandon()
