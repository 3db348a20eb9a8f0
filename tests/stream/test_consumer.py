"""The requests topic flows when the session table is read, and no event is lost on the way unseen."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
import pytest_asyncio
from aiokafka.errors import OffsetOutOfRangeError as NotInTopicError
from faust.types import TP, ConsumerMessage

from apportion.settings import Settings
from apportion.stream.app import create_app
from apportion.stream.consumer import GaplessConsumer
from apportion.stream.faults import OffsetOutOfRangeError
from apportion.stream.topics import PartitionsChangedError

pytestmark = pytest.mark.asyncio

REQUESTS = {TP("context-requests", 0), TP("context-requests", 1)}
CHANGELOG = {TP("apportion-sessions-changelog", 0), TP("apportion-sessions-changelog", 1)}
PLACE = TP("context-requests", 0)


@pytest_asyncio.fixture
async def consumer() -> AsyncIterator[GaplessConsumer]:
    """A consumer that was just assigned its partitions, as Faust leaves it then."""
    found: GaplessConsumer = create_app(Settings()).consumer
    found._set_active_tps(REQUESTS | CHANGELOG)
    found.stop_flow()
    found.pause_partitions(REQUESTS | CHANGELOG)
    yield found
    found._thread.thread_loop.close()


def active(consumer: GaplessConsumer) -> set[TP]:
    return set(consumer._get_active_partitions())


def message(offset: int) -> ConsumerMessage:
    return ConsumerMessage(*PLACE, offset, 0.0, 0, (), b"k", b"v", None, tp=PLACE)


async def read(consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch, *offsets: int) -> None:
    """Let the client give records of these offsets."""
    records = [SimpleNamespace(offset=offset) for offset in offsets]

    async def getmany(*_: object) -> dict[TP, list[SimpleNamespace]]:
        return {PLACE: records}

    monkeypatch.setattr(consumer._thread, "getmany", getmany)
    assert await consumer._getmany({PLACE}, 1.0) == {PLACE: records}


def follow(consumer: GaplessConsumer, *offsets: int) -> list[bool]:
    return [consumer.follows(message(offset)) for offset in offsets]


async def test_changelogs_are_read_at_once(consumer: GaplessConsumer) -> None:
    consumer.resume_partitions(CHANGELOG)
    assert active(consumer) == CHANGELOG


async def test_requests_are_not_read_before_the_flow_is_resumed(consumer: GaplessConsumer) -> None:
    consumer.resume_partitions(REQUESTS)
    assert active(consumer) == set()
    consumer.resume_flow()
    assert active(consumer) == REQUESTS


async def test_partitions_are_taken_over_paused(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that had none flows, and Faust would let it read them for a moment."""
    active_when_taken = []

    async def take(*_: object) -> None:
        active_when_taken.append(active(consumer))

    monkeypatch.setattr(consumer, "_on_partitions_assigned", take)
    consumer._paused_partitions.clear()
    consumer.resume_flow()
    await consumer.on_partitions_assigned(REQUESTS | CHANGELOG, 2)
    assert active_when_taken == [set()]


async def test_a_partition_that_was_added_ends_the_worker(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
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


async def test_an_offset_that_is_not_in_its_topic_ends_the_read_and_is_named_with_those_that_are(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def getmany(*_: object) -> None:
        raise NotInTopicError({PLACE: 7})

    async def earliest_offsets(*_: object) -> dict[TP, int]:
        return {PLACE: 12}

    async def highwaters(*_: object) -> dict[TP, int]:
        return {PLACE: 30}

    for fake in (getmany, earliest_offsets, highwaters):
        monkeypatch.setattr(consumer._thread, fake.__name__, fake)
    told = "context-requests partition 0 goes on at offset 7, and the topic has those from 12 to before 30"
    with pytest.raises(OffsetOutOfRangeError, match=told):
        await consumer._getmany({PLACE}, 1.0)


async def test_the_flow_of_a_recovery_brings_no_requests(consumer: GaplessConsumer) -> None:
    consumer.resume_partitions(CHANGELOG)
    consumer.resume_flow()
    consumer.pause_partitions(CHANGELOG)
    assert active(consumer) == set()


async def test_what_waited_for_the_flow_is_forgotten_when_the_next_rebalance_pauses_it(
    consumer: GaplessConsumer,
) -> None:
    consumer.resume_partitions(REQUESTS)
    consumer.pause_partitions(REQUESTS | CHANGELOG)
    consumer.resume_flow()
    assert active(consumer) == set()


async def test_a_queue_that_drains_resumes_only_what_is_not_paused(consumer: GaplessConsumer) -> None:
    consumer.resume_partitions(REQUESTS)
    consumer.resume_flow()
    consumer.on_buffer_full(PLACE)
    assert active(consumer) == REQUESTS - {PLACE}
    consumer.on_buffer_drop(PLACE)
    assert active(consumer) == REQUESTS
    consumer.on_buffer_full(PLACE)
    consumer.pause_partitions(REQUESTS)
    consumer.on_buffer_drop(PLACE)
    assert active(consumer) == set()


class Reads:
    """Stands for the client: notes what it is asked for, and answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[set[TP] | None] = []
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def getmany(self, partitions: set[TP] | None, _: float) -> dict[TP, list[object]]:
        self.begun.set()
        await self.may_end.wait()
        self.asked.append(partitions)
        return {}


async def read_all(consumer: GaplessConsumer) -> list[object]:
    return [one async for one in consumer.getmany(1.0)]


async def test_a_read_asks_for_what_was_active_when_it_began(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client takes a set that is empty for all partitions, and the set empties in a rebalance."""
    reads = Reads()
    monkeypatch.setattr(consumer._thread, "getmany", reads.getmany)
    consumer.resume_partitions(CHANGELOG)
    consumer.resume_flow()
    reading = asyncio.ensure_future(read_all(consumer))
    await reads.begun.wait()
    consumer.pause_partitions(CHANGELOG)
    reads.may_end.set()
    assert await reading == []
    assert reads.asked == [CHANGELOG]


async def test_a_read_asks_for_nothing_where_nothing_is_active_and_keeps_no_rebalance_waiting(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[set[TP] | None, float]] = []

    async def getmany(partitions: set[TP] | None, timeout: float) -> dict[TP, list[object]]:  # noqa: ASYNC109 - Faust's
        asked.append((partitions, timeout))
        return {}

    monkeypatch.setattr(consumer._thread, "getmany", getmany)
    for active, timeout_s in ((set[TP](), 1.0), ({PLACE}, 0.1), (None, 1.0)):
        assert await consumer._getmany(active, timeout_s) == {}
    assert asked == [({PLACE}, 0.1), (None, 0.2)]


async def test_the_committed_offsets_are_sought_when_no_read_is_under_way(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that began before may bring records of a partition that does not flow yet: they are dropped."""
    reads, steps = Reads(), []

    async def seek_to_committed() -> dict[TP, int]:
        steps.append("sought")
        return {}

    monkeypatch.setattr(consumer._thread, "getmany", reads.getmany)
    monkeypatch.setattr(consumer._thread, "seek_to_committed", seek_to_committed)
    consumer.resume_partitions(CHANGELOG)
    consumer.resume_flow()
    reading = asyncio.ensure_future(read_all(consumer))
    await reads.begun.wait()
    seeking = asyncio.ensure_future(consumer.perform_seek())
    await asyncio.wait({seeking}, timeout=0.1)
    assert steps == []
    reads.may_end.set()
    await asyncio.wait_for(asyncio.gather(reading, seeking), timeout=5)
    assert steps == ["sought"]


async def test_the_changelogs_are_sought_when_no_read_is_under_way(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that began before may bring rows from behind the seek, and nobody to take them yet."""
    reads, steps = Reads(), []

    async def seek_wait(partitions: dict[TP, int]) -> None:
        steps.append(partitions)

    monkeypatch.setattr(consumer._thread, "getmany", reads.getmany)
    monkeypatch.setattr(consumer._thread, "seek_wait", seek_wait)
    consumer.resume_partitions(CHANGELOG)
    consumer.resume_flow()
    reading = asyncio.ensure_future(read_all(consumer))
    await reads.begun.wait()
    seeking = asyncio.ensure_future(consumer.seek_wait(dict.fromkeys(CHANGELOG, 0)))
    await asyncio.wait({seeking}, timeout=0.1)
    assert steps == []
    reads.may_end.set()
    await asyncio.wait_for(asyncio.gather(reading, seeking), timeout=5)
    assert steps == [dict.fromkeys(CHANGELOG, 0)]


async def test_a_read_waits_for_a_seek_that_a_rebalance_made_nobody_wait_for(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client seeks on, and what was read meanwhile would be read again."""
    reads, begun, may_end = Reads(), asyncio.Event(), asyncio.Event()

    async def seek_to_committed() -> dict[TP, int]:
        begun.set()
        await may_end.wait()
        return {PLACE: 1}

    monkeypatch.setattr(consumer._thread, "getmany", reads.getmany)
    monkeypatch.setattr(consumer._thread, "seek_to_committed", seek_to_committed)
    consumer.resume_partitions(REQUESTS)
    consumer.resume_flow()
    seeking = asyncio.ensure_future(consumer.perform_seek())
    await begun.wait()
    seeking.cancel()
    reading = asyncio.ensure_future(read_all(consumer))
    await asyncio.wait({seeking, reading}, timeout=0.1)
    assert seeking.cancelled()
    assert not reads.begun.is_set()
    may_end.set()
    reads.may_end.set()
    await asyncio.wait_for(reading, timeout=5)
    assert reads.asked == [REQUESTS]


async def test_partitions_without_a_committed_offset_are_sought_to_their_beginning(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client leaves them where they are: what was read of them and dropped would never come again."""
    other = TP("context-requests", 1)
    committed: dict[TP, int | None] = dict.fromkeys(CHANGELOG) | {PLACE: None, other: 7}
    sought = []

    async def seek_to_committed() -> dict[TP, int | None]:
        return committed

    async def earliest_offsets(*partitions: TP) -> dict[TP, int]:
        return dict.fromkeys(partitions, 3)

    async def seek_wait(offsets: dict[TP, int]) -> None:
        sought.append(offsets)

    monkeypatch.setattr(consumer._thread, "seek_to_committed", seek_to_committed)
    monkeypatch.setattr(consumer._thread, "earliest_offsets", earliest_offsets)
    monkeypatch.setattr(consumer._thread, "seek_wait", seek_wait)
    await consumer.perform_seek()
    committed[PLACE] = 9
    await consumer.perform_seek()
    assert sought == [{PLACE: 3}]


async def test_what_is_read_across_a_rebalance_is_dropped(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partitions have a new owner, or are sought again: rows are not read for them yet."""

    async def getmany(*_: object) -> dict[TP, list[SimpleNamespace]]:
        consumer.app.consumer_generation_id += 1
        return {PLACE: [SimpleNamespace(offset=0)]}

    monkeypatch.setattr(consumer._thread, "getmany", getmany)
    assert await consumer._getmany({PLACE}, 1.0) == {}
    assert follow(consumer, 0) == [False]


async def test_events_follow_as_they_were_read(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await read(consumer, monkeypatch, 5, 6)
    await read(consumer, monkeypatch, 7)
    assert follow(consumer, 5, 6, 7) == [True] * 3


async def test_an_event_that_was_read_and_lost_is_missed_by_the_next(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await read(consumer, monkeypatch, 0, 1, 2)
    assert follow(consumer, 0, 2) == [True, False]


async def test_also_the_first_event_is_missed(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await read(consumer, monkeypatch, 7, 8)
    assert follow(consumer, 8) == [False]


async def test_offsets_that_hold_no_event_are_not_missed(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await read(consumer, monkeypatch, 0, 2, 9)
    assert follow(consumer, 0, 2, 9) == [True] * 3


async def test_an_event_that_nobody_read_does_not_follow(consumer: GaplessConsumer) -> None:
    assert follow(consumer, 0) == [False]


async def test_after_a_seek_events_are_read_again(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def seek_to_committed() -> dict[TP, int]:
        return {PLACE: 1}

    monkeypatch.setattr(consumer._thread, "seek_to_committed", seek_to_committed)
    await read(consumer, monkeypatch, 0, 1, 2)
    assert follow(consumer, 0) == [True]
    await consumer.perform_seek()
    await read(consumer, monkeypatch, 1, 2, 3)
    assert follow(consumer, 1, 2, 3) == [True] * 3


async def test_changelogs_do_not_come_to_the_agent_and_are_not_missed(
    consumer: GaplessConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def getmany(*_: object) -> dict[TP, list[SimpleNamespace]]:
        return {place: [SimpleNamespace(offset=0)] for place in CHANGELOG}

    monkeypatch.setattr(consumer._thread, "getmany", getmany)
    await consumer._getmany(CHANGELOG, 1.0)
    assert not consumer._expected
