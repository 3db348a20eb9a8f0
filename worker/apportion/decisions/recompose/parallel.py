"""Partitions composed again in parallel processes; their results come as they are found.

Decides what a process gives back: its results, how far it is, and the sum. Each reads for itself, and
ends with the run.
"""

import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from msgspec import Struct

from apportion.core.policies.timeline import Timeline
from apportion.core.wire.record import Record
from apportion.decisions.recompose.partition import partition_run
from apportion.decisions.recompose.ranges import PartitionRange
from apportion.decisions.recompose.snapshot import Snapshot
from apportion.decisions.replay.findings import VerificationSummary
from apportion.decisions.replay.replaying import ReplayResult, WhatIf
from apportion.decisions.replay.sums import Sum
from apportion.settings import Settings
from apportion.shell.kafka.records import open_reader

_UNTOLD_MAX = 1_000
_TOLD_EVERY = 100
_WAIT_S = 0.5


class PartitionFailedError(Exception):
    """A partition could not be read, for a reason that has a name."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Job(Struct, frozen=True):
    """What every process of a run goes by."""

    settings: Settings
    timeline: Timeline
    snapshot: Path | None
    what_if: WhatIf | None = None


class _PartitionFailure(Struct, frozen=True):
    code: str
    message: str


_job: Job
_messages: Any


def run_partition(
    job: Job, one: PartitionRange, give: Callable[[ReplayResult], None], done: Callable[[int], None]
) -> VerificationSummary | Sum:
    """Verify or replay a partition; `done` is called with the number of events done.

    Raises:
        SettingsError, InvalidSnapshotError: what the settings and the snapshot name is wrong.
        BrokerUnreachableError: the topics can no longer be read.
    """
    start = None
    if job.snapshot is not None:
        with job.snapshot.open("rb") as file:
            start = Snapshot(job.snapshot, file, job.settings).rows(one.partition)
    with open_reader(job.settings) as reader:
        run = partition_run(job.settings, job.timeline, reader, one, start, job.what_if)
        for each in run.results(_counted(run.events, one.requests.first, done)):
            give(each)
        return run.summary


def run_partitions(
    job: Job, ranges: Sequence[PartitionRange], processes: int, advance: Callable[[int], None]
) -> Iterator[ReplayResult | VerificationSummary | Sum]:
    """Yield the results, those of a partition in their order, and the sum of each at its end.

    Raises:
        PartitionFailedError: one could not be read.
    """
    context = get_context("spawn")
    messages = context.Queue(_UNTOLD_MAX)
    with ProcessPoolExecutor(processes, context, _begin, (job, messages)) as pool:
        running = {pool.submit(_run, partition_range) for partition_range in ranges}
        dones: dict[int, int] = {}
        left = len(running)
        try:
            while left:
                message = _next(messages, running)
                if isinstance(message, _PartitionFailure):
                    raise PartitionFailedError(message.code, message.message)
                if isinstance(message, tuple):
                    dones[message[0]] = message[1]
                    advance(sum(dones.values()))
                    continue
                left -= isinstance(message, VerificationSummary | Sum)
                yield message
        finally:
            for future in running:
                future.cancel()
            if left:
                _end(pool)


def _end(pool: ProcessPoolExecutor) -> None:
    """End the processes, which may be waiting for someone to listen."""
    for process in list(pool._processes.values()):  # noqa: SLF001 - before Python 3.14 no other way
        process.terminate()


def _next(messages: Any, running: set["Future[None]"]) -> Any:
    """Return what a process says next; raise what ended one that said nothing."""
    while True:
        try:
            return messages.get(timeout=_WAIT_S)
        except queue.Empty:
            for future in running:
                if future.done():
                    future.result()


def _begin(job: Job, messages: Any) -> None:
    global _job, _messages
    _job, _messages = job, messages


def _run(partition_range: PartitionRange) -> None:
    partition = partition_range.partition
    try:
        _messages.put(
            run_partition(_job, partition_range, _messages.put, lambda done: _messages.put((partition, done)))
        )
    except Exception as error:
        code = getattr(error, "code", None)
        if not isinstance(code, str):
            raise
        _messages.put(_PartitionFailure(code, str(error)))


def _counted(events: Iterator[Record], first: int, done: Callable[[int], None]) -> Iterator[Record]:
    for count, event in enumerate(events, 1):
        yield event
        if count % _TOLD_EVERY == 0:
            done(event.offset + 1 - first)
