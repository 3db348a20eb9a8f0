"""Observations of a running worker: for its health, and for the metrics that are no counts.

Decides what counts as having something to do. Asks the brokers now and then up to where the partitions can be
read, and where they end: what was fetched says nothing where no more is fetched.
"""

import asyncio
from collections.abc import Callable, Mapping
from math import isfinite
from time import monotonic, time
from typing import Protocol
from weakref import WeakKeyDictionary

from faust.types import TP

from apportion.kafka.commits import CommittedOffset
from apportion.kafka.reader import RequestReader
from apportion.operations import metrics as told
from apportion.operations.health import Health, Patience, Sight
from apportion.operations.log import log_fact
from apportion.operations.numbers import Batched, Numbers
from apportion.settings import Settings
from apportion.stream.faust_app.consumer import PipelineConsumer
from apportion.stream.faust_app.session_table import SessionTable
from apportion.stream.pipeline.answers import Answers
from apportion.stream.pipeline.batch import Batch
from apportion.stream.pipeline.breaker import DeadLetterShare
from apportion.stream.pipeline.flow import Flow
from apportion.stream.pipeline.membership import Membership
from apportion.stream.pipeline.pipeline import Pipeline
from apportion.stream.pipeline.verifier import ShareVerifier

_ASK_S = 5.0
_SOON_S = 1.0
_STALLED_S = 45.0
_GRACE_S = 5.0
_FAILURES_SHOWN_S = 300.0
"""How long the failures of an event that was dealt with are shown, from the scrape on that finds it so."""
_HELD_S = 10.0
"""How often it is looked how many bytes are held: that is a look at each session."""


class ProbedWorker(Protocol):
    """The parts of a worker that a probe looks at."""

    settings: Settings
    consumer: PipelineConsumer
    rebalancing: bool
    pipeline: Pipeline
    sessions: SessionTable
    answers: Answers
    verifier: ShareVerifier | None
    share: DeadLetterShare
    reader: RequestReader
    membership: Membership


class Probe:
    """Looks at one worker."""

    def __init__(self, app: ProbedWorker, numbers: Numbers, clock_s: Callable[[], float] = monotonic) -> None:
        """Have seen nothing."""
        self._app = app
        self._clock_s = clock_s
        self._numbers = numbers
        self._ends: Mapping[int, int] = {}
        """The last stable offsets: reading gets no further while a producer's transaction is open."""
        self._held_back: Mapping[int, int] = {}
        """Offsets behind an open transaction, by partition."""
        self._heard_s: float | None = None
        self._turned_s: float | None = None
        self._held_s = float("-inf")
        self._failures_at_start: Mapping[int, int] = {}
        self._failures_seen_s: WeakKeyDictionary[Flow, float] = WeakKeyDictionary()
        self.health = Health(patience_of(app.settings))

    def begin(self, commits: Mapping[int, CommittedOffset]) -> None:
        """Take what the group had committed when this worker started, until partitions of its own flow."""
        failures = {partition: commit.metadata.event_failures for partition, commit in commits.items()}
        self._failures_at_start = {partition: count for partition, count in failures.items() if count}

    def durable(self, batch: Batch) -> None:
        """Count a batch that is durable."""
        written_s = monotonic() - batch.composed_s
        batched = Batched(batch.tally, batch.events, batch.size_bytes, batch.work_s, written_s)
        self._numbers.batch(batched, time())

    async def follow(self) -> None:
        """Ask and look, until cancelled; who only looks never ends a worker."""
        while True:
            await self.ask()
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - who asks over HTTP meets it, too, and takes it as dead
                log_fact("health cannot be told", reason=type(error).__name__)
            is_new = self._heard_s is None or self._turned_s is None
            await asyncio.sleep(_SOON_S if is_new else _ASK_S)

    async def ask(self) -> None:
        """Ask the brokers for the ends of our partitions, and see whether the client's thread turns.

        The high watermarks are asked first: so they are beyond the last stable offsets only by what an open
        transaction holds back.
        """
        consumer, partitions = self._app.consumer, self._requests()
        if consumer.is_assigned and self._turned_s is None:
            self._turned_s = self._clock_s()
        try:
            if self._turned_s is not None:
                consumer._thread.thread_loop.call_soon_threadsafe(self._turned)  # noqa: SLF001 - our own class's
            async with asyncio.timeout(self._app.settings.request_timeout_s):
                written = await self._written(partitions)
                ends = await self._app.reader.ends(partitions or [0])
        except Exception:  # noqa: BLE001 - brokers were not heard; who only looks never ends a worker
            return
        self._held_back = {
            partition: max(0, offset - ends[partition]) if ends[partition] == self._ends.get(partition) else 0
            for partition, offset in written.items()
        }
        self._ends = ends
        self._heard_s = self._clock_s()

    async def _written(self, partitions: list[int]) -> dict[int, int]:
        """Return the high watermarks, as the member's client hears them; nothing before it is a member."""
        consumer, topic = self._app.consumer, self._app.settings.requests_topic
        if not consumer.is_assigned:
            return {}
        asked = [TP(topic, partition) for partition in partitions or [0]]
        found = await consumer._thread.ends(asked)  # noqa: SLF001 - our own class's
        return {tp.partition: found[tp] for tp in asked}

    def _turned(self) -> None:
        self._turned_s = self._clock_s()

    def _requests(self) -> list[int]:
        """Return the partitions of the requests topic that are ours."""
        consumer, topic = self._app.consumer, self._app.settings.requests_topic
        if not consumer.is_assigned:
            return []
        return sorted(tp.partition for tp in consumer.assignment() if tp.topic == topic)

    def look(self) -> None:
        """See how the worker is."""
        app, flows = self._app, self._app.pipeline.flows
        consumer = app.consumer
        assigned = set(self._requests())
        recovered = None
        if consumer.is_recovering:
            recovered = sum(rows.changelog_offset for rows in app.sessions.by_partition.values())
        is_flowing = not app.rebalancing and assigned == {n for n in flows if not flows[n].is_over}
        if consumer.is_assigned and is_flowing:
            self._failures_at_start = {}
        self.health.look(
            Sight(
                self._clock_s(),
                is_assigned=consumer.is_assigned,
                is_member=app.membership.is_held,
                is_flowing=is_flowing,
                recovered=recovered,
                working={n: mark for n, flow in flows.items() if (mark := self._mark(flow)) is not None},
                thread_turned_s=self._turned_s,
                brokers_heard_s=self._heard_s,
            )
        )

    def _mark(self, flow: Flow) -> tuple[int | None, ...] | None:
        """Return what moves while a partition has something to do; None: it has nothing."""
        position = self._position(flow)
        end = self._end(flow)
        if flow.is_over or not (flow.in_flight or flow.is_busy or (position or 0) < end):
            return None
        return position, flow.handed_over, flow.taken, flow.durable_offset

    def _position(self, flow: Flow) -> int | None:
        """Return up to where (exclusive) a partition was fetched, which passes over what is no record."""
        return self._app.reader.position_of(flow.partition)

    def _end(self, flow: Flow) -> int:
        return self._ends.get(flow.partition, 0)

    async def refresh(self) -> None:
        """Bring the metrics that are no counts up to date, and look."""
        app, numbers = self._app, self._numbers
        self.look()
        flows = [flow for flow in app.pipeline.flows.values() if not flow.is_over]
        numbers.put_all(told.LAG, {flow.partition: self._lag(flow) for flow in flows})
        waiting = app.pipeline.waiting
        numbers.put_all(told.WAITING_EVENTS, {one: events for one, (events, _) in waiting.items()})
        numbers.put_all(told.WAITING_BYTES, {one: size for one, (_, size) in waiting.items()})
        numbers.put_all(told.UNCOMMITTED, {flow.partition: self._uncommitted(flow) for flow in flows})
        numbers.put_all(told.STREAM_TIME, {flow.partition: flow.rows.time.seen_us / 1e6 for flow in flows})
        numbers.put_all(told.EVENT_FAILURES, {**self._failures_at_start, **self._event_failures()})
        numbers.put_all(told.ROWS, app.sessions.row_counts)
        numbers.put(told.IN_FLIGHT_BATCHES, app.pipeline.in_flight)
        numbers.put(told.IN_FLIGHT_BYTES, app.pipeline.in_flight_bytes)
        numbers.put(told.CACHE_BYTES, app.answers.memory.compositions.size_bytes)
        counts = app.answers.memory.counts
        numbers.put(told.COUNT_MEMORY, counts.hits, "hit")
        numbers.put(told.COUNT_MEMORY, counts.misses, "miss")
        if app.verifier is not None:
            again = app.verifier.counts
            numbers.put(told.VERIFIED, again.verified, "equal")
            numbers.put(told.VERIFIED, again.differences, "different")
            numbers.put(told.VERIFIED, again.dropped, "dropped")
            numbers.put(told.VERIFIED, again.failed, "failed")
        numbers.put(told.DEAD_LETTER_SHARE, app.share.last)
        held_back = {flow.partition: self._held_back.get(flow.partition, 0) for flow in flows}
        numbers.put_all(told.OPEN_TRANSACTION_OFFSETS, held_back)
        numbers.put(told.MEMBER, app.membership.is_held)
        numbers.put(told.HEARTBEAT_SECONDS, app.membership.age_s if isfinite(app.membership.age_s) else 0)
        numbers.put(told.LIVE, not self.health.why_dead())
        numbers.put(told.READY, not self.health.why_not_ready())
        if self._heard_s is not None:
            numbers.put(told.BROKERS_HEARD_SECONDS, self._clock_s() - self._heard_s)
        if self._clock_s() - self._held_s >= _HELD_S:
            self._held_s = self._clock_s()
            numbers.put(told.ROW_BYTES, await self._held_bytes())

    def _event_failures(self) -> dict[int, int]:
        """Return how many workers an event has ended, by partition, and for a while after it was dealt with.

        A worker that sets the event aside has done so within a moment, and scrapes come every half minute.
        """
        now_s = self._clock_s()
        failures = {}
        for partition, flow in self._app.pipeline.flows.items():
            is_shown = flow.failures and (
                not flow.has_passed
                or now_s - self._failures_seen_s.setdefault(flow, now_s) < _FAILURES_SHOWN_S
            )
            failures[partition] = flow.failures if is_shown else 0
        return failures

    def _lag(self, flow: Flow) -> int:
        """Return the offsets up to the end that are not durable; those that are no records are behind us."""
        position = self._position(flow)
        idle = not (flow.in_flight or flow.is_busy)
        done = position if idle and position is not None else flow.durable_offset
        return max(0, self._end(flow) - (done or 0)) if self._end(flow) else 0

    def _uncommitted(self, flow: Flow) -> int:
        """Return the offsets between the committed one and the position; 0 where nothing is committed."""
        position, committed = self._position(flow), flow.committed_offset
        return 0 if position is None or committed is None else max(0, position - committed)

    async def _held_bytes(self) -> int:
        """Return what the rows have in bytes; others have a turn between two partitions."""
        held = 0
        for rows in list(self._app.sessions.by_partition.values()):
            held += rows.size_bytes
            await asyncio.sleep(0)
        return held


def patience_of(settings: Settings) -> Patience:
    """Return how long nothing may move: beyond what ends the worker by itself, and in a minute by default."""
    return Patience(
        stalled_s=max(_STALLED_S, 2 * settings.delivery_timeout_s + _GRACE_S),
        recovery_s=settings.recovery_timeout_s + _GRACE_S,
        flow_s=max(settings.recovery_timeout_s, settings.rebalance_timeout_s) + _GRACE_S,
        membership_s=max(2 * settings.session_timeout_s, settings.rebalance_timeout_s + _GRACE_S),
    )
