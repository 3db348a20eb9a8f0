"""The shell's own processor time without a broker: what each step adds to composing in a bare loop."""

import gc
from collections.abc import Callable, Sequence
from statistics import quantiles
from time import thread_time
from types import SimpleNamespace
from typing import Any, cast

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord
from pydantic import SecretStr

from apportion.core.composer import Composer
from apportion.core.memory import Memory
from apportion.core.session.row import EMPTY, Session
from apportion.core.wire import codec
from apportion.engine.assembly import create_engine, create_timeline
from apportion.settings import Settings
from apportion.shell.kafka.producer import RecordProducer
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES
from apportion.shell.operations.gc_tuning import collect_seldom, keep_what_is_here
from apportion.shell.stream.pipeline.answers import Answers
from apportion.shell.stream.pipeline.batch import Batch, BatchBounds, BatchComposer
from apportion.shell.stream.pipeline.breaker import DeadLetterShare
from apportion.shell.stream.pipeline.membership import Membership
from apportion.shell.stream.pipeline.writer import EffectivelyOnceWriter, Writing
from apportion.shell.stream.state.rows import PartitionRows
from benchmarks.shell.events import Workload, record_batches

BATCH = BatchBounds(records=200, bytes=1 << 30, work_s=60.0)
"""About the number of small requests in the default bound of 20 ms, and the same in every round."""
STEPS = (
    "decode, compose, encode in a bare loop",
    "BatchComposer over the same records",
    "… and packed into record batches",
    "… and parsed from record batches",
)


def main(workload: Workload, rounds: int) -> None:
    """Print what each step takes, and adds to the first."""
    took_us = measure(workload, rounds)
    bare_us, _ = _low_and_middle(took_us[0])
    print(f"\n{workload.name}: µs of CPU an event, 10th percentile of {rounds} rounds in turn (median)")
    for name, each_us in zip(STEPS, took_us, strict=True):
        low_us, middle_us = _low_and_middle(each_us)
        paired = [one - bare for one, bare in zip(each_us, took_us[0], strict=True)]
        added_us, (lower, _, upper) = low_us - bare_us, quantiles(paired, n=4)
        print(
            f"  {name:<42}{low_us:8.1f} ({middle_us:.1f})"
            f"   +{added_us:5.1f} (quartiles of each round's: {lower:.1f} to {upper:.1f})"
            f"   {bare_us / low_us:.3f} of the loop's speed"
        )


def measure(workload: Workload, rounds: int) -> list[list[float]]:
    """Return the microseconds an event of each step in each round; in every round another one is first."""
    shell = Shell(workload)
    runs: Sequence[Callable[[], None]] = (shell.bare, shell.composed, shell.packed, shell.parsed)
    took_us: list[list[float]] = [[] for _ in runs]
    pace = gc.get_threshold()
    collect_seldom()  # as a worker does
    keep_what_is_here()
    for number in range(rounds + 1):
        for turn in range(len(runs)):
            place = (number + turn) % len(runs)
            shell.afresh()
            begun_s = thread_time()
            runs[place]()
            took_us[place].append((thread_time() - begun_s) * 1e6 / len(workload.records))
    gc.unfreeze()
    gc.set_threshold(*pace)
    return [each[1:] for each in took_us]


def _low_and_middle(figures: Sequence[float]) -> tuple[float, float]:
    tenths = quantiles(figures, n=10)
    return tenths[0], tenths[4]


class Shell:
    """The same events again and again, each time from no session and without a memory."""

    def __init__(self, workload: Workload) -> None:
        self._settings = Settings(
            partitions=1,
            default_policy=workload.policy,
            fingerprint_secret=SecretStr("a secret of this benchmark"),
        )
        self._engine, self._timeline = create_engine(self._settings), create_timeline(self._settings)
        self._values = workload.records
        self._fetched = record_batches(workload.records)
        self._records = self._parse()
        producer = RecordProducer(self._settings)
        producer._client = _Client()  # noqa: SLF001 - in a broker's place
        self._writer = EffectivelyOnceWriter(producer, Membership(1.0), "changelog", 1.0)
        self.afresh()

    def afresh(self) -> None:
        """Forget the answers."""
        settings = self._settings
        answers = Answers(settings, self._engine, self._timeline, "benchmark")
        share = DeadLetterShare(settings.dead_letter_window, settings.dead_letter_share_max)
        self._batches = BatchComposer(answers, share, BATCH)
        self._rows = PartitionRows("changelog 0")
        catalogue = self._timeline.catalogue_at(self._records[0].timestamp)
        self._composer = Composer(self._engine, catalogue, settings.default_policy, Memory())

    def bare(self) -> None:
        """Answer as the command does, with the rows in a dictionary."""
        sessions: dict[bytes, Session] = {}
        bounds, handle = self._settings.bounds, self._composer.handle
        for key, value in self._values:
            sessions[key], answered = handle(codec.decode(value, bounds), sessions.get(key, EMPTY))
            assert answered is not None, "all of them are requests"
            codec.encode(answered.composed)
            codec.encode(answered.decision)

    def batches(self) -> list[Batch]:
        """Return the batches that the events give."""
        batches: list[Batch] = []
        self._compose(self._records, batches.append)
        return batches

    def composed(self) -> None:
        """Compose batches."""
        self._compose(self._records, lambda _: None)

    def packed(self) -> None:
        """Compose batches, and hand them over to the producer."""
        self._compose(self._records, self._send)

    def parsed(self) -> None:
        """Read record batches, compose, and hand over."""
        self._compose(self._parse(), self._send)

    def _compose(self, records: Sequence[ConsumerRecord], send: Callable[[Batch], None]) -> None:
        taken = 0
        while taken < len(records):
            batch = self._batches.compose(self._rows, records, taken)
            assert batch.failure is None, batch.failure
            assert self._settings.dead_letters_topic not in batch.messages, "all of them are answered"
            taken += batch.events
            send(batch)

    def _send(self, batch: Batch) -> None:
        writing = Writing(batch, self._rows, lambda batches: (batches[-1].next_offset, ""))
        self._writer.send_outputs(writing)
        self._writer.send_rows(writing)

    def _parse(self) -> Sequence[ConsumerRecord]:
        place = TopicPartition(self._settings.requests_topic, 0)
        fetched = MemoryRecords(self._fetched)
        return tuple(PartitionRecords(place, fetched, [], 0, None, None, True, READ_COMMITTED))  # noqa: FBT003 - the client's


class _Client:
    """The part of a client that `RecordProducer` calls, up to the bytes that would be sent."""

    def __init__(self) -> None:
        self._message_accumulator = self

    def create_batch(self) -> BatchBuilder:
        return BatchBuilder(MESSAGE_MAX_BYTES, 0)

    def _append_batch(self, builder: Any, _: TopicPartition) -> Any:
        builder._build()  # noqa: SLF001 - as the client's sender does
        return SimpleNamespace(future=SimpleNamespace(add_done_callback=cast("Any", id)))
