"""Runs over partitions in parallel processes, which send their results, their progress and their sums."""

import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from msgspec import Struct

from apportion.core.policies.timeline import Timeline
from apportion.decisions.recompose.partition import partition_run, reporting
from apportion.decisions.recompose.ranges import PartitionRange
from apportion.decisions.recompose.snapshot import Snapshot
from apportion.decisions.replay.findings import VerificationSummary
from apportion.decisions.replay.replaying import ReplayResult, WhatIf
from apportion.decisions.replay.sums import Sum
from apportion.settings import Settings
from apportion.shell.kafka.records import open_reader

_MESSAGES_MAX = 1_000
_EVENTS_PER_REPORT = 100
_WAIT_S = 0.5


class PartitionFailedError(Exception):
    """A partition could not be read; `code` is the code of the error in its process."""

    def __init__(self, message: str, code: str = "") -> None:  # unpickling passes the message alone
        super().__init__(message)
        self.code = code


class Job(Struct, frozen=True):
    """The arguments that all processes of a run share."""

    settings: Settings
    timeline: Timeline
    snapshot: Path | None
    what_if: WhatIf | None = None


_job: Job
_messages: Any


def run_partitions(
    job: Job, ranges: Sequence[PartitionRange], processes: int, advance: Callable[[int], None]
) -> Iterator[ReplayResult | VerificationSummary | Sum]:
    """Yield the results, ordered within a partition, and each partition's sum; raise PartitionFailedError."""
    context = get_context("spawn")
    messages = context.Queue(_MESSAGES_MAX)
    with ProcessPoolExecutor(processes, context, _begin, (job, messages)) as pool:
        running = {pool.submit(_run, partition_range) for partition_range in ranges}
        dones: dict[int, int] = {}
        left = len(running)
        try:
            while left:
                message = _next(messages, running)
                if isinstance(message, PartitionFailedError):
                    raise message
                if isinstance(message, tuple):
                    dones[message[0]] = message[1]
                    advance(sum(dones.values()))
                    continue
                left -= isinstance(message, VerificationSummary | Sum)
                yield message
        finally:
            for future in running:
                future.cancel()
            if left:  # the processes may be blocked, because the queue is full
                for process in list(pool._processes.values()):  # noqa: SLF001 - no other way before Python 3.14
                    process.terminate()


def _next(messages: Any, running: set["Future[None]"]) -> Any:
    """Return the next message, or raise the error that ended a process without one."""
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


def _run(selected: PartitionRange) -> None:
    """Send the results and the sum of a partition, or the error that ended it."""
    try:
        start = None
        if _job.snapshot is not None:
            with _job.snapshot.open("rb") as file:
                start = Snapshot(_job.snapshot, file, _job.settings).rows(selected.partition)
        with open_reader(_job.settings) as reader:
            run = partition_run(_job.settings, _job.timeline, reader, selected, start, _job.what_if)

            def advance(done: int) -> None:
                _messages.put((selected.partition, done))

            for result in run.runner.run(
                reporting(run.events, selected.requests.first, advance, _EVENTS_PER_REPORT)
            ):
                _messages.put(result)
            _messages.put(run.runner.summary)
    except Exception as error:
        code = getattr(error, "code", None)
        if not isinstance(code, str):
            raise
        _messages.put(PartitionFailedError(str(error), code))
