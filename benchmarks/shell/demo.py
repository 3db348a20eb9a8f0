"""The whole demo workload: a worker on Kafka that catches up on it, and a bare loop."""

from pathlib import Path
from time import perf_counter, sleep

from confluent_kafka import Consumer, Producer, TopicPartition
from msgspec import Struct

from apportion.settings import Settings
from benchmarks.shell.bare_loop import WARM_REQUESTS, loop_s
from benchmarks.shell.events import Workload, demo, small
from benchmarks.shell.load import clients
from benchmarks.shell.on_kafka import LOGS, topics
from benchmarks.shell.rows import OURS
from benchmarks.shell.workers import Workers

_EVENTS = 300
"""All of it: it is one session's, so one partition has it."""
_DEADLINE_S = 60.0
_LOOK_S = 0.01


class Round(Struct, frozen=True):
    """Milliseconds per event: CPU time in the loop and in the worker, and time until all were answered.

    `composing_share` is the share of decode, compose and encode in the worker's CPU time.
    """

    events: int
    loop_cpu_ms: float = 0.0
    worker_cpu_ms: float = 0.0
    worker_ms: float = 0.0
    composing_share: float = 0.0
    failure: str = ""

    def __str__(self) -> str:
        if self.failure:
            return f"demo workload: {self.failure}"
        figures = f"loop {self.loop_cpu_ms:.2f}, worker {self.worker_cpu_ms:.2f} ms of CPU an event"
        return (
            f"demo workload: {figures}, {self.worker_ms:.2f} ms passed, {self.composing_share:.3f} composing"
        )


def measure(brokers: str, share: float) -> Round:
    """Return a round's figures."""
    events = int(_EVENTS * share)
    try:
        looped_s = loop_s("demo", events)
        worker_cpu_s, worker_s, share = _worker(brokers, demo(events))
    except Exception as error:  # noqa: BLE001 - a row, and not the end of the others
        return Round(events, failure=f"{type(error).__name__}: {error}")
    loop_ms, cpu_ms, passed_ms = (seconds * 1e3 / events for seconds in (looped_s, worker_cpu_s, worker_s))
    return Round(events, loop_ms, cpu_ms, passed_ms, share)


def _worker(brokers: str, workload: Workload) -> tuple[float, float, float]:
    """Return the CPU seconds, the elapsed seconds, and the share of composing in the CPU seconds."""
    command = OURS[0].command
    assert command is not None, "it answers"
    log: Path = LOGS / "demo.log"
    with topics(brokers, 1, workload.policy) as settings, Workers(command(settings), 1, log) as workers:
        _fill(settings, small(WARM_REQUESTS, 1))
        _wait_for(settings, workers, WARM_REQUESTS)
        before = workers.samples()
        workers.hold()
        _fill(settings, workload)
        begun_s, begun_cpu_s = perf_counter(), workers.cpu_s()
        workers.release()
        _wait_for(settings, workers, WARM_REQUESTS + len(workload.records))
        took_cpu_s, took_s = workers.cpu_s() - begun_cpu_s, perf_counter() - begun_s
        composing, looks = (new - old for new, old in zip(workers.samples(), before, strict=True))
        return took_cpu_s, took_s, composing / looks


def _fill(settings: Settings, workload: Workload) -> None:
    producer = Producer(clients(settings) | {"message.max.bytes": 4 << 20})
    for key, value in workload.records:
        producer.produce(settings.requests_topic, value, key, 0)
    producer.flush(_DEADLINE_S)


def _wait_for(settings: Settings, workers: Workers, answers: int) -> None:
    consumer = Consumer(clients(settings) | {"group.id": f"{settings.app_id}.reader"})
    place, deadline_s = TopicPartition(settings.decisions_topic, 0), perf_counter() + _DEADLINE_S
    try:
        while consumer.get_watermark_offsets(place, timeout=10)[1] < answers:
            workers.check()
            assert perf_counter() < deadline_s, "the worker takes too long"
            sleep(_LOOK_S)
    finally:
        consumer.close()
