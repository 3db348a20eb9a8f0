"""By turns, through crashes: the same answers as in the order of offsets, none lost, none twice."""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import count, cycle
from typing import Any

import pytest
from aiokafka.structs import ConsumerRecord
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from support.running import request

from apportion.engine.assembly import create_engine, create_timeline
from apportion.settings import Settings
from apportion.shell.kafka.commit_metadata import decode_metadata
from apportion.shell.kafka.producer import OutboundRecord
from apportion.shell.stream.faults import EventFailedError
from apportion.shell.stream.pipeline.answers import Answers
from apportion.shell.stream.pipeline.batch import BatchBounds, BatchComposer
from apportion.shell.stream.pipeline.breaker import DeadLetterShare
from apportion.shell.stream.pipeline.membership import Membership
from apportion.shell.stream.pipeline.pipeline import Pipeline
from apportion.shell.stream.pipeline.queues import FifoQueue, TurnQueue
from apportion.shell.stream.pipeline.tenants import DISTANCE_MAX, Buckets, TenantLimits
from apportion.shell.stream.pipeline.writer import Writing
from apportion.shell.stream.state.rows import PartitionRows

SETTINGS = Settings(partitions=1)
LIMITS = TenantLimits(0.5, 0, 1 << 20)
NOW_MS = 1_772_366_400_000
BROKEN = "broken"


def read(
    offset: int,
    tenant: str = "default",
    session: str = "s",
    *,
    bad: bool = False,
    now_ms: int = NOW_MS,
    **changes: Any,
) -> Any:
    event = request(f"r{offset}", session, tenant=tenant, **changes)
    value = json.dumps({"type": "nothing"} if bad else event).encode()
    key = f"{tenant}/{session}".encode()
    return ConsumerRecord(SETTINGS.requests_topic, 0, offset, now_ms, 0, key, value, None, 0, 0, ())


class Written(Struct):
    """A record of the changelog."""

    offset: int
    key: bytes
    value: bytes | None
    headers: Any = ()


class Topics:
    """Durable records: the outputs of a batch and its offset, all or none."""

    def __init__(self) -> None:
        self.outputs: list[OutboundRecord] = []
        self.states: list[Written] = []
        self.committed: tuple[int | None, str] = (None, "")

    def rows(self, max_lateness_s: int = 0) -> PartitionRows:
        rows = PartitionRows("c", max_lateness_s)
        rows.read(self.states)
        rows.join(len(self.states))
        return rows


class Writer:
    """Makes so many batches durable, then dies."""

    moves_offsets = True

    def __init__(self, topics: Topics, lives: int) -> None:
        self.topics, self.left = topics, lives
        self.may_write = asyncio.Event()
        self.may_write.set()

    async def start(self, _: Sequence[str]) -> None: ...

    async def stop(self) -> None: ...

    async def assign(self, _: Collection[int]) -> None: ...

    def begin(self, _: Writing) -> None: ...

    async def finish(self, writing: Writing) -> None:
        await self.may_write.wait()
        if not self.left:
            raise TimeoutError
        self.left -= 1
        topics, batch = self.topics, writing.batch
        topics.outputs += [message for messages in batch.messages.values() for message in messages]
        for key, value, headers in (each for state in batch.states for each in state):
            topics.states.append(Written(len(topics.states), key, value, headers))
        topics.committed = writing.commit_after([batch])

    def abandon(self, _: Writing) -> None: ...


class Reader:
    """Brings records in fetches of the given sizes, and then none."""

    def __init__(self) -> None:
        self.rest: list[Any] = []
        self.sizes = iter([1])

    async def read(self, partitions: Collection[int], _: float) -> Mapping[int, Sequence[Any]]:
        await asyncio.sleep(0)
        if not self.rest:
            await asyncio.Event().wait()
        size = next(self.sizes)
        fetched, self.rest = self.rest[:size], self.rest[size:]
        return dict.fromkeys(partitions, fetched)


class Stage:
    """A worker over topics, until it dies or has nothing to do."""

    def __init__(
        self,
        topics: Topics,
        *,
        lives: int = -1,
        limits: TenantLimits | None = LIMITS,
        max_lateness_s: int = 0,
    ) -> None:
        self.topics, self.writer = topics, Writer(topics, lives)
        self.answers = Answers(SETTINGS, create_engine(SETTINGS), create_timeline(SETTINGS), "w")
        bounds = BatchBounds(records=7, work_s=60.0)
        composer = BatchComposer(self.answers, DeadLetterShare(2, 1.0), bounds)
        membership = Membership(30.0, lambda: 0.0)
        membership.confirm(0.0)
        policies: Any = self
        self.reader = Reader()
        self.failures: list[Exception] = []
        options: dict[str, Any] = {
            "topic": SETTINGS.requests_topic,
            "reader": self.reader,
            "composer": composer,
            "writer": self.writer,
            "membership": membership,
            "policies": policies,
            "commit": self.commit,
            "durable": lambda _: None,
            "failed": self.failures.append,
            "event_failures_max": 3,
        }
        if limits is None:
            self.pipeline = Pipeline(new_queue=lambda _rows, _wake: FifoQueue(), **options)
        else:
            queue = partial(TurnQueue, limits, Buckets(limits.events_per_s))
            self.pipeline = Pipeline(new_queue=queue, **options)
        offset, metadata = topics.committed
        self.pipeline.begin(0, topics.rows(max_lateness_s), offset, metadata)

    async def commit(self) -> bool:
        """Commit the offsets of the pipeline."""
        offsets = self.pipeline.committable()
        for committed in offsets.values():
            self.topics.committed = committed
        self.pipeline.record_commits({partition: offset for partition, (offset, _) in offsets.items()})
        return bool(offsets)

    async def current(self) -> None:
        """Fake the reader of policies."""

    @property
    def is_idle(self) -> bool:
        flow = self.pipeline.flows[0]
        return not self.reader.rest and not flow.is_busy and not flow.in_flight

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the pipeline's tasks go on until a condition holds."""
        while not condition():  # noqa: ASYNC110 - tasks tell nobody when they have gone on
            await asyncio.sleep(0)

    async def written(self) -> None:
        """Wait until composed events are durable."""
        await self.until(lambda: not self.pipeline.in_flight)

    async def run(self) -> None:
        """Let the pipeline run until all is durable, or the worker has died."""
        running = asyncio.create_task(self.pipeline.run())
        try:
            await self.until(lambda: bool(self.failures) or self.is_idle or running.done())
            if running.done():
                await running
        finally:
            running.cancel()
            await asyncio.wait({running})

    async def live(self, records: Sequence[Any], fetches: Sequence[int]) -> None:
        """Fetch from the committed offset on, and run; then be gone."""
        offset, _ = self.topics.committed
        self.reader.rest = [record for record in records if record.offset >= (offset or 0)]
        self.reader.sizes = cycle(fetches)
        await self.run()
        self.pipeline.abandon()
        self.pipeline.end()


def told(outputs: Sequence[OutboundRecord]) -> list[tuple[Any, ...]]:
    """Return what outputs are, but for the run of decisions."""
    return [
        (
            output.topic,
            output.key,
            {name: part for name, part in json.loads(output.value).items() if name != "run"},
            output.headers,
        )
        for output in outputs
    ]


async def lives(
    records: Sequence[Any], fetches: Sequence[int], deaths: Sequence[int], limits: TenantLimits | None
) -> Topics:
    topics = Topics()
    for batches in deaths:
        await Stage(topics, lives=batches, limits=limits).live(records, fetches)
    await Stage(topics, limits=limits).live(records, fetches)
    return topics


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["noisy", "noisy", "noisy", "a", "b"]),
        st.sampled_from("st"),
        st.sampled_from([0, 0, 0, 1]),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(EVENTS, st.lists(st.integers(1, 12), min_size=1, max_size=4), st.lists(st.integers(0, 4), max_size=4))
def test_through_any_crashes_each_answer_comes_once_in_offset_order(
    events: list[tuple[str, str, int]], fetches: list[int], deaths: list[int]
) -> None:
    records = [
        read(3 * number, tenant, session, bad=bool(bad))
        for number, (tenant, session, bad) in enumerate(events)
    ]

    async def both() -> tuple[Topics, Topics]:
        return await lives(records, [len(records)], (), None), await lives(records, fetches, deaths, LIMITS)

    plain, fair = asyncio.run(both())
    wanted, got = told(plain.outputs), told(fair.outputs)
    assert len(got) == len(wanted), "none lost, none twice: outputs stand with their offset"
    for key in {output[1] for output in wanted}:
        for topic in {output[0] for output in wanted}:
            assert [output for output in got if output[:2] == (topic, key)] == [
                output for output in wanted if output[:2] == (topic, key)
            ], "the answers of a session, in their order"
    letters = [output for output in got if output[0] == SETTINGS.dead_letters_topic]
    assert letters == [output for output in wanted if output[0] == SETTINGS.dead_letters_topic]
    assert fair.committed[0] == records[-1].offset + 1
    assert decode_metadata(fair.committed[1]).stream_time_us == 0, "what went ahead has moved it"
    assert fair.rows().values == plain.rows().values


@pytest.mark.asyncio
async def test_a_waiting_event_holds_the_commit_back_though_later_are_answered() -> None:
    topics = Topics()
    stage = Stage(topics, limits=TenantLimits(0.01, 0, 1 << 20))
    stage.pipeline.fetched(0, [*(read(n, "noisy", f"s{n}") for n in range(20)), read(20, "quiet")])
    for _ in range(2):
        await stage.pipeline.compose_waiting()
    await stage.written()
    assert [json.loads(output.value)["request_id"] for output in topics.outputs[::2]][:2] == ["r0", "r20"]
    assert topics.committed[0] == 1
    assert {offset for offset, _ in stage.pipeline.committable().values()} <= {1}
    stage.pipeline.abandon()


@pytest.mark.asyncio
async def test_fetching_stops_beyond_a_distance_between_offsets() -> None:
    topics = Topics()
    stage = Stage(topics, limits=TenantLimits(0.01, 0, 1 << 20))
    stage.pipeline.fetched(
        0, [*(read(n, "noisy", f"s{n}") for n in range(20)), read(DISTANCE_MAX - 1, "quiet")]
    )
    assert stage.pipeline.waiting[0][0] == 21
    assert not stage.pipeline.has_room(0)
    await stage.pipeline.compose_waiting()
    assert stage.pipeline.waiting[0][0] == 20
    assert stage.pipeline.has_room(0), "the first event that waits is another now"
    stage.pipeline.abandon()


@pytest.mark.asyncio
async def test_sessions_that_are_over_can_go_between_two_times_with_limits() -> None:
    """As docs/operations/tune.md has it: limits, then max_lateness_s without them, then limits again."""
    topics, day = Topics(), "2026-03-03T12:00:00Z"
    await Stage(topics).live([read(0, "a", "over"), read(1, "b", "over")], [2])
    later = [read(n, "a", "new", requested_at=day, now_ms=NOW_MS + 2 * 86_400_000) for n in range(2, 9)]
    for end in (2, 4):  # the second one begins with a stream time that is committed
        await Stage(topics, limits=None, max_lateness_s=7_200).live(later[:end], [1])
    await Stage(topics).live(later, [1])
    assert set(topics.rows().values) == {b"a/new"}
    assert topics.committed[0] == 9


@pytest.mark.asyncio
async def test_a_tenant_above_its_limit_waits_for_time_while_others_are_answered() -> None:
    topics = Topics()
    stage = Stage(topics, limits=TenantLimits(1.0, 2, 1 << 20))
    stage.pipeline.fetched(0, [*(read(n, "noisy", f"s{n}") for n in range(4)), read(4, "quiet")])
    async with asyncio.timeout(10):
        await stage.pipeline.compose_waiting()
        assert stage.pipeline.has_room(0), "others may come"
        stage.pipeline.fetched(0, [read(5, "quiet")])
        await stage.pipeline.compose_waiting()
        assert not stage.pipeline.flows[0].queue.is_due, "nobody turns in vain"
        await stage.run()
    answered = [
        json.loads(output.value)["request_id"]
        for output in topics.outputs
        if output.topic == SETTINGS.composed_topic
    ]
    assert answered[:4] == ["r0", "r1", "r4", "r5"]
    assert answered[4:] == ["r2", "r3"]
    stage.pipeline.abandon()


@pytest.mark.asyncio
async def test_an_event_that_ends_workers_fails_and_is_skipped_in_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Answers.answer

    def answer(self: Answers, record: Any, *rest: Any) -> Any:
        if record.key == b"quiet/broken":
            raise ZeroDivisionError
        return real(self, record, *rest)

    monkeypatch.setattr(Answers, "answer", answer)
    records = [
        *(read(n, "noisy", f"s{n}") for n in range(9)),
        read(9, "quiet", BROKEN),
        read(10, "quiet", BROKEN),
    ]
    topics, limits = Topics(), TenantLimits(0.01, 0, 1 << 20)
    for failures in (1, 2, 3):
        stage = Stage(topics, limits=limits)
        with pytest.raises(EventFailedError, match="offset 9"):
            await stage.live(records, [11])
        await stage.written()
        [(offset, metadata)] = stage.pipeline.committable().values()
        assert (offset, decode_metadata(metadata).failures) == (9, failures), "all before it is answered"
        topics.committed = offset, metadata
        stage.pipeline.abandon()
    stage = Stage(topics, limits=limits)
    with pytest.raises(EventFailedError, match="offset 10"):
        await stage.live(records, [11])
    await stage.written()
    stage.pipeline.abandon()
    letters = [
        json.loads(output.value) for output in topics.outputs if output.topic == SETTINGS.dead_letters_topic
    ]
    assert [letter["error"]["code"] for letter in letters] == ["event_failed"]


@pytest.mark.asyncio
async def test_others_go_ahead_also_where_writing_is_what_all_wait_for() -> None:
    stage = Stage(Topics(), limits=TenantLimits(0.01, 0, 1 << 20))
    stage.writer.may_write.clear()
    noisy = [read(n, "noisy", f"s{n % 3}") for n in range(60)]
    stage.pipeline.fetched(0, [*noisy, read(60, "quiet"), read(61, "quiet"), read(62, "quiet")])
    running = asyncio.create_task(stage.pipeline.run())
    async with asyncio.timeout(10):
        while not stage.is_idle:
            await stage.until(lambda: stage.pipeline.flows[0].is_full or not stage.pipeline.flows[0].waiting)
            stage.writer.may_write.set()
            await asyncio.sleep(0)
            stage.writer.may_write.clear()
    running.cancel()
    composed = [output for output in stage.topics.outputs if output.topic == SETTINGS.composed_topic]
    answered = [json.loads(message.value)["request_id"] for message in composed]
    assert answered[:6] == ["r0", "r60", "r1", "r61", "r2", "r62"]
    assert len(answered) == 63
    stage.pipeline.abandon()


@pytest.mark.asyncio
async def test_during_slow_writes_events_are_fetched_up_to_a_bound() -> None:
    stage = Stage(Topics(), limits=TenantLimits(0.5, 0, 5_000))
    stage.writer.may_write.clear()
    offsets = count()
    async with asyncio.timeout(10):
        while stage.pipeline.has_room(0):
            stage.pipeline.fetched(0, [read(next(offsets), "noisy")])
            await stage.pipeline.compose_waiting()
        assert stage.pipeline.flows[0].is_full
        stage.writer.may_write.set()
        await stage.run()
    assert stage.pipeline.has_room(0)
    assert stage.topics.committed[0] == next(offsets)
    stage.pipeline.abandon()


class KilledError(BaseException):
    """Ends a worker on the spot, as a signal does: it says nothing, and commits nothing."""


@pytest.mark.asyncio
@pytest.mark.parametrize("limits", [None, LIMITS], ids=["in the order of offsets", "by turns"])
@pytest.mark.parametrize("killing", [0, 3, 11])
async def test_only_the_event_that_kills_workers_is_skipped(
    monkeypatch: pytest.MonkeyPatch, killing: int, limits: TenantLimits | None
) -> None:
    real = Answers.answer

    def answer(self: Answers, record: Any, *rest: Any) -> Any:
        if record.offset == killing:
            raise KilledError
        return real(self, record, *rest)

    monkeypatch.setattr(Answers, "answer", answer)
    records = [read(n, "acme", f"s{n % 4}") for n in range(20)]
    topics, kills = Topics(), 0
    while True:
        stage = Stage(topics, limits=limits)
        try:
            await stage.live(records, [20])
        except KilledError:
            kills += 1
            for flow in stage.pipeline.flows.values():
                if flow.writing is not None:
                    flow.writing.cancel()
        else:
            break
    letters = [
        json.loads(output.value) for output in topics.outputs if output.topic == SETTINGS.dead_letters_topic
    ]
    assert [(letter["source"]["offset"], letter["error"]["code"]) for letter in letters] == [
        (killing, "event_failed")
    ]
    answered = {
        json.loads(output.value)["request_id"]
        for output in topics.outputs
        if output.topic == SETTINGS.decisions_topic
    }
    assert answered == {f"r{n}" for n in range(20) if n != killing}
    assert kills <= 2 + 3, (
        "before and after it is known that a batch is under way, and event_failures_max alone"
    )
