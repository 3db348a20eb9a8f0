"""Observations of a running worker, for its health and its gauges.

The probe asks the brokers for the ends of the partitions, because a stalled fetch would show no lag.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from time import monotonic, time
from typing import Any
from weakref import WeakKeyDictionary

from apportion.core.memory import Memory
from apportion.settings import Settings
from apportion.shell.kafka.commits import CommittedOffset
from apportion.shell.kafka.reader import RequestReader
from apportion.shell.operations import metrics
from apportion.shell.operations.health import Health, Patience, Sight
from apportion.shell.operations.log import log_fact
from apportion.shell.operations.numbers import Numbers
from apportion.shell.stream.pipeline.batch import Batch
from apportion.shell.stream.pipeline.breaker import DeadLetterShare
from apportion.shell.stream.pipeline.flow import Flow
from apportion.shell.stream.pipeline.membership import Membership
from apportion.shell.stream.pipeline.pipeline import Pipeline
from apportion.shell.stream.pipeline.verifier import ShareVerifier
from apportion.shell.stream.state.rows import PartitionRows

_ASK_S = 5.0
_SOON_S = 1.0
_STALLED_S = 45.0
_GRACE_S = 5.0
_FAILURES_SHOWN_S = 300.0
"""Time for which a handled event's failures are still shown, after the first scrape that finds it handled."""
_HELD_S = 10.0
"""Interval of the measurement of held bytes, which visits each session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The parts of a worker that a probe observes; functions return parts that are created later."""

    settings: Settings
    member: Callable[[], Any]
    is_rebalancing: Callable[[], bool]
    rows: Callable[[], Mapping[int, PartitionRows]]
    pipeline: Pipeline
    reader: RequestReader
    membership: Membership
    memory: Memory
    share: DeadLetterShare
    verifier: ShareVerifier | None


def count_durable(numbers: Numbers, batch: Batch) -> None:
    """Count a durable batch in the metrics."""
    numbers.batch(
        batch.tally,
        time(),
        events=batch.events,
        size_bytes=batch.size_bytes,
        work_s=batch.work_s,
        write_s=monotonic() - batch.composed_s,
    )


class Probe:
    """Observes one worker."""

    def __init__(self, sources: Sources, numbers: Numbers, clock_s: Callable[[], float] = monotonic) -> None:
        self._sources = sources
        self._clock_s = clock_s
        self._numbers = numbers
        self._ends: Mapping[int, int] = {}
        """The last stable offsets: readers stop there while a producer's transaction is open."""
        self._held_back: Mapping[int, int] = {}
        """Number of offsets after the start of a transaction that was open twice in a row, by partition."""
        self._heard_s: float | None = None
        self._turned_s: float | None = None
        self._held_s = float("-inf")
        self._failures_at_start: Mapping[int, int] = {}
        self._failures_seen_s: WeakKeyDictionary[Flow, float] = WeakKeyDictionary()
        self.health = Health(patience_of(sources.settings))

    def begin(self, commits: Mapping[int, CommittedOffset]) -> None:
        """Show the event failures that were committed at the start, until all assigned partitions flow."""
        failures = {partition: commit.metadata.event_failures for partition, commit in commits.items()}
        self._failures_at_start = {partition: count for partition, count in failures.items() if count}

    async def follow(self) -> None:
        """Ask and look periodically until cancelled; an error never ends the worker."""
        while True:
            await self.ask()
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the health endpoint fails with it too
                log_fact("health cannot be told", reason=type(error).__name__)
            is_new = self._heard_s is None or self._turned_s is None
            await asyncio.sleep(_SOON_S if is_new else _ASK_S)

    async def ask(self) -> None:
        """Ask the brokers for the ends of our partitions, and let the client's thread report that it runs."""
        member, partitions = self._sources.member(), self._requests()
        if member.is_assigned and self._turned_s is None:
            self._turned_s = self._clock_s()
        try:
            if self._turned_s is not None:
                member.call_in_thread(self._turned)
            async with asyncio.timeout(self._sources.settings.request_timeout_s):
                # High watermarks first: offsets appended in between then count for no open transaction.
                written = await member.ends(partitions or [0]) if member.is_assigned else {}
                ends = await self._sources.reader.ends(partitions or [0])
        except Exception:  # noqa: BLE001 - brokers did not answer; an observation never ends the worker
            return
        self._held_back = {
            partition: max(0, offset - ends[partition]) if ends[partition] == self._ends.get(partition) else 0
            for partition, offset in written.items()
        }
        self._ends = ends
        self._heard_s = self._clock_s()

    def _turned(self) -> None:
        self._turned_s = self._clock_s()

    def _requests(self) -> list[int]:
        member = self._sources.member()
        return sorted(member.requests_assigned()) if member.is_assigned else []

    def look(self) -> None:
        """Update the worker's health."""
        sources, flows = self._sources, self._sources.pipeline.flows
        member = sources.member()
        assigned = set(self._requests())
        recovered = None
        if member.is_recovering:
            recovered = sum(rows.changelog_offset for rows in sources.rows().values())
        is_flowing = not sources.is_rebalancing() and assigned == {n for n in flows if not flows[n].is_over}
        if member.is_assigned and is_flowing:
            self._failures_at_start = {}
        self.health.look(
            Sight(
                self._clock_s(),
                is_assigned=member.is_assigned,
                is_member=sources.membership.is_held,
                is_flowing=is_flowing,
                recovered=recovered,
                working={n: mark for n, flow in flows.items() if (mark := self._mark(flow)) is not None},
                thread_turned_s=self._turned_s,
                brokers_heard_s=self._heard_s,
            )
        )

    def _mark(self, flow: Flow) -> tuple[int | None, ...] | None:
        """Return values that change while a partition makes progress; None: it has nothing to do."""
        position = self._position(flow)
        if flow.is_over or not (flow.in_flight or flow.is_busy or (position or 0) < self._end(flow)):
            return None
        return position, flow.waiting, flow.durable_offset

    def _position(self, flow: Flow) -> int | None:
        """Return the offset after the last fetched one, transaction markers included; None: unknown."""
        return self._sources.reader.position_of(flow.partition)

    def _end(self, flow: Flow) -> int:
        return self._ends.get(flow.partition, 0)

    async def refresh(self) -> None:
        """Update the gauges and the health."""
        sources, numbers = self._sources, self._numbers
        self.look()
        flows = [flow for flow in sources.pipeline.flows.values() if not flow.is_over]
        numbers.put_all(metrics.LAG, {flow.partition: self._lag(flow) for flow in flows})
        waiting = sources.pipeline.waiting
        numbers.put_all(metrics.WAITING_EVENTS, {n: events for n, (events, _) in waiting.items()})
        numbers.put_all(metrics.WAITING_BYTES, {n: size for n, (_, size) in waiting.items()})
        numbers.put_all(metrics.UNCOMMITTED, {flow.partition: self._uncommitted(flow) for flow in flows})
        numbers.put_all(metrics.STREAM_TIME, {flow.partition: flow.rows.time.seen_us / 1e6 for flow in flows})
        numbers.put_all(metrics.EVENT_FAILURES, {**self._failures_at_start, **self._event_failures()})
        numbers.put_all(metrics.ROWS, {partition: len(rows) for partition, rows in sources.rows().items()})
        numbers.put(metrics.IN_FLIGHT_BATCHES, sources.pipeline.in_flight)
        numbers.put(metrics.IN_FLIGHT_BYTES, sources.pipeline.in_flight_bytes)
        numbers.put(metrics.CACHE_BYTES, sources.memory.compositions.size_bytes)
        counts = sources.memory.counts
        numbers.put(metrics.COUNT_MEMORY, counts.hits, "hit")
        numbers.put(metrics.COUNT_MEMORY, counts.misses, "miss")
        if sources.verifier is not None:
            verified = sources.verifier.counts
            numbers.put(metrics.VERIFIED, verified.verified, "equal")
            numbers.put(metrics.VERIFIED, verified.differences, "different")
            numbers.put(metrics.VERIFIED, verified.dropped, "dropped")
            numbers.put(metrics.VERIFIED, verified.failed, "failed")
        numbers.put(metrics.DEAD_LETTER_SHARE, sources.share.last)
        held_back = {flow.partition: self._held_back.get(flow.partition, 0) for flow in flows}
        numbers.put_all(metrics.OPEN_TRANSACTION_OFFSETS, held_back)
        numbers.put(metrics.MEMBER, sources.membership.is_held)
        age_s = sources.membership.age_s
        numbers.put(metrics.HEARTBEAT_SECONDS, age_s if isfinite(age_s) else 0)
        numbers.put(metrics.LIVE, not self.health.why_dead())
        numbers.put(metrics.READY, not self.health.why_not_ready())
        if self._heard_s is not None:
            numbers.put(metrics.BROKERS_HEARD_SECONDS, self._clock_s() - self._heard_s)
        if self._clock_s() - self._held_s >= _HELD_S:
            self._held_s = self._clock_s()
            numbers.put(metrics.ROW_BYTES, await self._held_bytes())

    def _event_failures(self) -> dict[int, int]:
        """Return the number of workers that an event has ended, also for a while after it was handled."""
        now_s = self._clock_s()
        failures = {}
        for partition, flow in self._sources.pipeline.flows.items():
            is_shown = flow.failures and (
                not flow.has_passed
                or now_s - self._failures_seen_s.setdefault(flow, now_s) < _FAILURES_SHOWN_S
            )
            failures[partition] = flow.failures if is_shown else 0
        return failures

    def _lag(self, flow: Flow) -> int:
        """Return the offsets from the durable offset to the end; if idle, from the read position instead."""
        position = self._position(flow)
        idle = not (flow.in_flight or flow.is_busy)
        done = position if idle and position is not None else flow.durable_offset
        return max(0, self._end(flow) - (done or 0)) if self._end(flow) else 0

    def _uncommitted(self, flow: Flow) -> int:
        position, committed = self._position(flow), flow.committed_offset
        return 0 if position is None or committed is None else max(0, position - committed)

    async def _held_bytes(self) -> int:
        held = 0
        for rows in list(self._sources.rows().values()):
            held += rows.size_bytes
            await asyncio.sleep(0)
        return held


def patience_of(settings: Settings) -> Patience:
    """Return the time limits without progress, which are longer than the timeouts that end the worker."""
    return Patience(
        stalled_s=max(_STALLED_S, 2 * settings.delivery_timeout_s + _GRACE_S),
        recovery_s=settings.recovery_timeout_s + _GRACE_S,
        flow_s=max(settings.recovery_timeout_s, settings.rebalance_timeout_s) + _GRACE_S,
        membership_s=max(2 * settings.session_timeout_s, settings.rebalance_timeout_s + _GRACE_S),
    )
