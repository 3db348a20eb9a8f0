"""One worker after another on a real Kafka, ours and the peers, with the same requests: how each is measured.

Each run has topics of its own. Its processes are held still while a backlog is written, so that they catch up
on what lies there; then requests come evenly, and each answer is timed.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from time import perf_counter, sleep

from confluent_kafka.admin import AdminClient
from msgspec import Struct, field

from apportion.settings import Settings
from apportion.shell.kafka.topics import create_topics
from benchmarks.shell.bare_loop import loop_s
from benchmarks.shell.far import far_broker
from benchmarks.shell.load import Load, clients
from benchmarks.shell.rows import LOOP, NOBODY, Row
from benchmarks.shell.workers import Workers

PARTITIONS = 4
LOGS = Path("build") / "shell" / "logs"
_WARM_REQUESTS = 200
_WARM_SHARE = 0.2
"""Before the backlog that counts, one of so much of it."""
_WARM_S = 1.0
"""Of requests that come evenly, the first do not count."""
_SENT_SHARE = 0.97
"""Share of a rate's requests that must be sent for the rate to count."""
_READY_S = 40.0
_LOOK_S = 0.1


class Plan(Struct, frozen=True):
    """The parameters of one run."""

    row: str
    workers: int
    delay_ms: float
    rates: tuple[int, ...]
    seconds: float
    events: int


class Latency(Struct, frozen=True):
    """From a request's send to its answer read, in milliseconds; `held`: so many were sent a second."""

    per_second: int
    p50: float
    p95: float
    p99: float
    held: bool


class Measured(Struct):
    """The figures of a run; a failure is the reason for missing figures."""

    row: str
    workers: int
    delay_ms: float
    events_per_second: float = 0.0
    cpu_us: float = 0.0
    beyond_us: float = 0.0
    """The part of them outside of decode, compose and encode, if known."""
    latencies: list[Latency] = field(default_factory=list)
    """Latencies at each rate that is not above the measured throughput."""
    failure: str = ""
    took_s: float = 0.0


class NotReadyError(Exception):
    """The workers have not shared the partitions in time."""


def measure(brokers: str, row: Row, plan: Plan) -> Measured:
    """Return a run's figures; an error becomes its failure."""
    measured = Measured(row.name, plan.workers, plan.delay_ms)
    begun_s = perf_counter()
    try:
        if row is LOOP:
            measured.cpu_us = loop_s("small", plan.events) * 1e6 / plan.events
            measured.events_per_second = 1e6 / measured.cpu_us
        else:
            with topics(brokers, PARTITIONS) as settings:
                _measure_on(settings, row, plan, measured)
    except Exception as error:  # noqa: BLE001 - one peer's failure is a row, and not the end of the others
        measured.failure = f"{type(error).__name__}: {error}"
    measured.took_s = perf_counter() - begun_s
    return measured


def _measure_on(settings: Settings, row: Row, plan: Plan, measured: Measured) -> None:
    """Set the figures one by one, so that figures before a failure are kept."""
    if row is NOBODY:
        with Load(settings, settings.requests_topic) as load:
            _warm_up(load)
            for per_second in plan.rates:
                measured.latencies.append(_latency(load, per_second, plan.seconds))
        return
    with _running(row, plan, settings) as (workers, load):
        _catch_up(workers, load, plan.events, measured, is_sampled=row.is_sampled)
        for per_second in plan.rates:
            if measured.events_per_second < per_second:
                return
            measured.latencies.append(_latency(load, per_second, plan.seconds, workers.check))


@contextmanager
def topics(brokers: str, partitions: int, policy: str = "lanes") -> Iterator[Settings]:
    """Make topics for one run, and remove them and the topics that its workers made."""
    app_id = f"shell-{uuid.uuid4().hex[:8]}"
    settings = Settings(
        brokers=tuple(brokers.split(",")),
        partitions=partitions,
        replication_factor=1,
        app_id=app_id,
        topic_prefix=f"{app_id}.",
        default_policy=policy,
    )
    asyncio.run(create_topics(settings))
    try:
        yield settings
    finally:
        admin = AdminClient(clients(settings))
        named = [name for name in admin.list_topics(timeout=10).topics if app_id in name]
        for removed in admin.delete_topics(named).values():
            removed.result()


@contextmanager
def _running(row: Row, plan: Plan, settings: Settings) -> Iterator[tuple[Workers, Load]]:
    """Run the workers, until they have answered their first requests."""
    assert row.command is not None, "somebody answers"
    log = LOGS / f"{row.name}-{plan.workers}-{plan.delay_ms:g}.log"
    with (
        far_broker(settings.brokers[0], plan.delay_ms) as inside,
        Workers([*inside, *row.command(settings)], plan.workers, log) as workers,
        Load(settings, settings.composed_topic) as load,
    ):
        if row.has_group:
            _wait_for_members(settings, workers, plan.workers)
        _warm_up(load, workers.check)
        yield workers, load


def _warm_up(load: Load, watched: Callable[[], None] = lambda: None) -> None:
    load.fill(_WARM_REQUESTS)
    load.read(_WARM_REQUESTS, watched)


def _wait_for_members(settings: Settings, workers: Workers, count: int) -> None:
    """Return when the group has so many members, all of them with their partitions."""
    admin = AdminClient(clients(settings))
    deadline_s = perf_counter() + _READY_S
    while perf_counter() < deadline_s:
        workers.check()
        group = admin.describe_consumer_groups([settings.app_id])[settings.app_id].result()
        if group.state.name == "STABLE" and len(group.members) >= count:
            return
        sleep(_LOOK_S)
    raise NotReadyError(f"after {_READY_S:g} s its group has not {count} members with partitions")


def _catch_up(workers: Workers, load: Load, events: int, measured: Measured, *, is_sampled: bool) -> None:
    """Fill in events a second, and microseconds of the processor's time an event.

    They are taken over a whole backlog, from the workers' release to its last answer: within one, much may
    have been worked on that is not yet to be seen.
    """
    for backlog in (int(events * _WARM_SHARE), events):
        before = workers.samples() if is_sampled else (0, 0)
        workers.hold()
        load.fill(backlog)
        begun_s, begun_cpu_s = perf_counter(), workers.cpu_s()
        workers.release()
        load.read(load.answered + backlog, workers.check)
        took_s, took_cpu_s = perf_counter() - begun_s, workers.cpu_s() - begun_cpu_s
    measured.events_per_second, measured.cpu_us = events / took_s, took_cpu_s * 1e6 / events
    if is_sampled:
        composing, looks = (new - old for new, old in zip(workers.samples(), before, strict=True))
        measured.beyond_us = measured.cpu_us * (1 - composing / looks)


def _latency(
    load: Load, per_second: int, seconds: float, watched: Callable[[], None] = lambda: None
) -> Latency:
    """Return the latencies of evenly sent requests, without the first second."""
    count, first = int(per_second * (seconds + _WARM_S)), len(load.sent_s)
    with load.sending(count, per_second):
        load.read(first + count, watched)
    counted = slice(first + int(per_second * _WARM_S), None)
    sent_s = load.sent_s[counted]
    waited_ms = [(read - sent) * 1e3 for sent, read in zip(sent_s, load.answered_s[counted], strict=True)]
    p50, p95, p99 = _percentiles(waited_ms)
    held = len(sent_s) / (sent_s[-1] - sent_s[0]) >= per_second * _SENT_SHARE
    return Latency(per_second, p50, p95, p99, held)


def _percentiles(figures: Sequence[float]) -> tuple[float, float, float]:
    hundredths = quantiles(figures, n=100)
    return hundredths[49], hundredths[94], hundredths[98]
