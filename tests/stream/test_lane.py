"""The order that makes it safe, by batches: outputs, then rows, then the offset."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any
from weakref import ref

import pytest
import pytest_asyncio
from aiokafka.errors import KafkaTimeoutError
from lane_stage import DEADLINE_S, LaneStage, read

from apportion.settings import Settings
from apportion.stream.batch import BatchBounds
from apportion.stream.breaker import DeadLetterShare, Window
from apportion.stream.commit_metadata import CommitMetadata, decode_metadata, encode_metadata
from apportion.stream.faults import (
    EventFailedError,
    EventLostError,
    NotDurableError,
    TooManyDeadLettersError,
)
from apportion.stream.flow import IN_FLIGHT_MAX, Fetched
from apportion.stream.policies import PoliciesUnreadError
from apportion.stream.row_format import seen_offset_of
from apportion.stream.rows import PartitionRows
from apportion.stream.writer import EffectivelyOnceWriter

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
    """Stands for the producer: notes what is sent, and acknowledges when it is told to."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.withdrawn: list[Sent] = []
        self._grown = asyncio.Event()

    def send(self, topic: str, _: int, groups: Iterable[Iterable[Any]]) -> list[Sent]:
        sent = Sent(topic, [entry for group in groups for entry in group])
        self.sent.append(sent)
        self._grown.set()
        return [sent]

    def withdraw(self, sent: list[Sent]) -> None:
        self.withdrawn += [one for one in sent if not one.acknowledged.done()]

    @property
    def topics(self) -> list[str]:
        return [one.topic for one in self.sent]

    def acknowledge(self, topic: str | None = None) -> None:
        for one in self.sent:
            if topic in (None, one.topic) and not one.acknowledged.done():
                one.acknowledged.set_result(None)

    def lose(self, topic: str) -> None:
        for one in self.sent:
            if one.topic == topic:
                one.acknowledged.set_exception(KafkaTimeoutError())
                one.acknowledged.exception()

    async def has_sent(self, topic: str, count: int = 1) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while self.topics.count(topic) < count:
                self._grown.clear()
                await self._grown.wait()


class Stage(LaneStage):
    """A lane with one partition, and a broker that is told when to acknowledge."""

    def __init__(self, bounds: BatchBounds, **options: Any) -> None:
        self.broker = Broker()
        super().__init__(SETTINGS, bounds, **options)

    def new_writer(self) -> EffectivelyOnceWriter:
        producer: Any = self.broker
        return EffectivelyOnceWriter(producer, self.membership, CHANGELOG, DEADLINE_S)

    def committable(self) -> int | None:
        offset, _ = self.lane.committable().get(0, (None, ""))
        return offset


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage(BatchBounds(work_s=60.0))
    yield made
    made.lane.abandon()


@pytest_asyncio.fixture
async def one_by_one() -> AsyncIterator[Stage]:
    made = Stage(BatchBounds(records=1, work_s=60.0))
    yield made
    made.lane.abandon()


async def test_rows_leave_when_all_outputs_stand_and_the_offset_is_good_when_the_rows_do(
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


async def test_outputs_of_the_next_batch_leave_at_once_and_its_rows_after_those_of_the_first(
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
    seen = [seen_offset_of(one.values[0]) for one in stage.broker.sent if one.topic == CHANGELOG]
    assert seen == [0, 1], "a row never tells of an event whose outputs may be lost"
    assert stage.committable() == 1


async def test_who_waits_for_room_goes_on_as_soon_as_what_was_fetched_is_composed(stage: Stage) -> None:
    stage.lane.fetched(0, [read(0)])
    assert not stage.lane.has_room(0)
    waiting = asyncio.create_task(stage.lane.room([0], 2 * DEADLINE_S))
    await asyncio.sleep(0)
    await stage.lane.answer(stage.fetched.pop())
    async with asyncio.timeout(DEADLINE_S):
        await waiting
    assert stage.lane.has_room(0)


async def test_who_waits_for_room_waits_no_longer_than_they_say(stage: Stage) -> None:
    stage.lane.fetched(0, [read(0)])
    async with asyncio.timeout(DEADLINE_S):
        await stage.lane.room([0], 0.001)
    assert not stage.lane.has_room(0)


async def test_a_partition_with_enough_in_flight_is_not_fetched_and_goes_on_when_there_is_room(
    one_by_one: Stage,
) -> None:
    stage = one_by_one
    await stage.answer(*(read(offset) for offset in range(IN_FLIGHT_MAX + 1)))
    assert stage.broker.topics.count(COMPOSED) == IN_FLIGHT_MAX
    assert not stage.lane.has_room(0)
    assert stage.fetched == []
    stage.broker.acknowledge()
    await stage.broker.has_sent(CHANGELOG)
    stage.broker.acknowledge()
    await stage.until(lambda: stage.fetched)
    await stage.lane.answer(stage.fetched.pop())
    assert stage.broker.topics.count(COMPOSED) == IN_FLIGHT_MAX + 1


async def test_what_is_not_acknowledged_ends_it_and_neither_it_nor_what_follows_is_committed(
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


async def test_what_is_taken_away_is_abandoned_and_the_rows_are_what_they_were(one_by_one: Stage) -> None:
    stage = one_by_one
    await stage.answer(read(0), read(1))
    waiting = Fetched(stage.lane._flows[0], 2, [read(2)])
    stage.lane.abandon()
    assert stage.rows.row(b"default/s") is None
    assert set(stage.broker.withdrawn) == set(stage.broker.sent)
    await stage.lane.answer(waiting)
    assert len(stage.broker.sent) == 4, "nothing is composed any more"
    stage.broker.acknowledge()
    await asyncio.sleep(0)
    assert CHANGELOG not in stage.broker.topics
    stage.lane.end()
    stage.lane.begin(0, stage.rows, 0)
    assert stage.lane.has_room(0)


async def test_of_a_partition_that_is_taken_away_nothing_is_held(one_by_one: Stage) -> None:
    """Neither its rows nor what was fetched of it, which waited for room; no look for cycles is needed."""
    stage, lasting = one_by_one, PartitionRows("changelog 1")
    rows, stage.rows = ref(stage.rows), lasting
    gc.collect()
    gc.disable()
    try:
        await stage.answer(*(read(offset) for offset in range(IN_FLIGHT_MAX + 1)))
        assert stage.fetched == [], "the last one waits for room"
        stage.lane.abandon()
        stage.lane.end()
        await stage.until(lambda: rows() is None)  # what was writing learns that it is over
    finally:
        gc.enable()


async def test_what_is_durable_when_a_partition_is_taken_away_may_be_committed(one_by_one: Stage) -> None:
    stage = one_by_one
    await stage.answer(read(0), read(1))
    stage.broker.acknowledge()
    await stage.broker.has_sent(CHANGELOG)
    stage.broker.acknowledge()
    await stage.until(lambda: stage.committable() == 1)
    stage.lane.abandon()
    assert stage.committable() == 1
    stage.lane.committed({0: 1})
    assert stage.committable() is None


async def test_asked_to_finish_it_lets_be_written_what_is_composed_and_composes_nothing_more(
    one_by_one: Stage,
) -> None:
    stage = one_by_one
    await stage.answer(read(0))
    stage.lane.fetched(0, [read(1)])
    finishing = asyncio.ensure_future(stage.lane.finish(DEADLINE_S))
    await asyncio.sleep(0)
    await stage.lane.answer(stage.fetched.pop())
    stage.broker.acknowledge()
    await stage.broker.has_sent(CHANGELOG)
    stage.broker.acknowledge()
    await asyncio.wait_for(finishing, timeout=DEADLINE_S)
    assert stage.committable() == 1
    assert stage.broker.topics.count(COMPOSED) == 1


async def test_nothing_is_composed_while_the_group_may_have_given_the_partition_away(stage: Stage) -> None:
    stage.now_s = 31.0
    answering = asyncio.ensure_future(stage.answer(read(0)))
    await asyncio.wait({answering}, timeout=0.1)
    assert stage.broker.sent == []
    stage.lane.abandon()
    stage.membership.confirm(31.0)
    await asyncio.wait_for(answering, timeout=DEADLINE_S)
    assert stage.broker.sent == [], "it was taken away meanwhile"


async def test_what_was_composed_when_the_membership_ended_is_not_sent(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a worker that was stopped in the middle of composing, and woken when its session was over."""
    real = stage.lane._composer.compose

    def compose(*arguments: Any) -> Any:
        stage.now_s = 31.0
        return real(*arguments)

    monkeypatch.setattr(stage.lane._composer, "compose", compose)
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


async def test_events_before_one_that_cannot_be_dealt_with_are_written(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = stage.lane._composer._answers
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
    """So a supervisor that starts it again and again does not empty the topic a window at a time."""
    window = Window(3, [("a", True), ("b", True), ("c", True)])
    metadata = encode_metadata(CommitMetadata(window=str(window)))
    stage = Stage(BatchBounds(work_s=60.0), share=DeadLetterShare(4, 0.5), committed=(7, metadata))
    with pytest.raises(TooManyDeadLettersError, match="4 of the last 4 events"):
        await stage.answer(read(7, {"type": "nothing"}), read(8))
    assert COMPOSED not in stage.broker.topics
    stage.lane.abandon()


async def test_what_was_fetched_and_lost_is_missed_by_the_next(stage: Stage) -> None:
    stage.lane.fetched(0, [read(0)])
    stage.lane.fetched(0, [read(1)])
    with pytest.raises(EventLostError, match="offset 1"):
        await stage.lane.answer(stage.fetched.pop())


async def test_while_the_end_of_the_policies_is_not_known_nothing_is_sent(stage: Stage) -> None:
    stage.policies_unread = True
    with pytest.raises(PoliciesUnreadError):
        await stage.answer(read(0))
    assert stage.broker.sent == []


async def test_a_partition_that_does_not_flow_has_no_room(stage: Stage) -> None:
    assert not stage.lane.has_room(1)


def fail_at(stage: Stage, monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    answers = stage.lane._composer._answers
    real = answers.answer

    def answer(record: Any, *rest: Any) -> Any:
        if record.offset == offset:
            raise ZeroDivisionError
        return real(record, *rest)

    monkeypatch.setattr(answers, "answer", answer)


def failures(stage: Stage) -> tuple[int, int] | None:
    committable = stage.lane.committable().get(0)
    return None if committable is None else (committable[0], decode_metadata(committable[1]).failures)


async def test_how_often_an_event_has_ended_a_worker_stands_beside_its_offset(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at(stage, monkeypatch, 7)
    with pytest.raises(EventFailedError):
        await stage.answer(read(7))
    assert failures(stage) == (7, 1)
    stage.lane.abandon()
    for count in (2, 3):
        offset, metadata = stage.lane.committable()[0]
        stage.lane.end()
        stage.lane.begin(0, stage.rows, offset, metadata)
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
    stage.lane.abandon()
    assert failures(stage) is None


async def test_an_event_that_has_ended_enough_workers_is_set_aside_where_that_is_wanted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at(stage, monkeypatch, 7)
    stage.lane.end()
    stage.lane._event_failures_max = 2
    stage.lane.begin(0, stage.rows, 7, encode_metadata(CommitMetadata(failures=2)))
    await stage.answer(read(7), read(8))
    [letter] = [one for one in stage.broker.sent if one.topic == SETTINGS.dead_letters_topic]
    assert json.loads(letter.values[0])["error"]["code"] == "event_failed"
    assert COMPOSED in stage.broker.topics
