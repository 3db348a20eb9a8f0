"""A run over all partitions, which verifies or replays their decisions.

If there are many events and several processors, partitions are read in parallel. Otherwise they are read one
after another, in the order of their numbers.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from apportion.core.policies.timeline import Timeline
from apportion.decisions.recompose.parallel import Job, run_partitions
from apportion.decisions.recompose.partition import partition_run, reporting
from apportion.decisions.recompose.ranges import PartitionRange, RecordSelection, require_topics, settle
from apportion.decisions.recompose.snapshot import Snapshot
from apportion.decisions.replay.findings import Finding, VerificationSummary
from apportion.decisions.replay.replaying import ReplayResult, WhatIf
from apportion.decisions.replay.sums import Sum
from apportion.settings import Settings
from apportion.shell.kafka.publishing import read_timeline
from apportion.shell.kafka.records import RecordReader, open_reader

_PARALLEL_EVENTS_MIN = 1_000
"""Number of events from which starting processes pays off."""


class Recomposition:
    """One run over topics, made by `open_run`. A verification counts in `summary`, a replay in `sum`."""

    def __init__(
        self,
        settings: Settings,
        timeline: Timeline,
        reader: RecordReader,
        ranges: tuple[PartitionRange, ...],
        snapshot: Snapshot | None,
    ) -> None:
        self.ranges = ranges
        self.summary = VerificationSummary()
        self.sum = Sum()
        self.settings = settings
        self.timeline = timeline
        self.reader = reader
        self._snapshot = snapshot

    @property
    def total(self) -> int:
        """Approximate number of events to compose."""
        return sum(len(partition_range.requests) for partition_range in self.ranges)

    def run(self, advance: Callable[[int], None]) -> Iterator[Finding]:
        """Yield each finding; `advance` is called with the number of events done.

        Raises SettingsError, InvalidSnapshotError or BrokerUnreachableError, and PartitionFailedError for one
        of these in a parallel process.
        """
        for result in self._results(None, advance):
            if isinstance(result, VerificationSummary):
                self.summary += result
            elif isinstance(result, Finding):
                yield result

    def replay(self, what_if: WhatIf, advance: Callable[[int], None]) -> Iterator[ReplayResult]:
        """Yield the result of a change for each decision. Arguments and errors are as in `run`."""
        for result in self._results(what_if, advance):
            if isinstance(result, Sum):
                self.sum += result
            elif not isinstance(result, VerificationSummary):
                yield result

    def _results(
        self, what_if: WhatIf | None, advance: Callable[[int], None]
    ) -> Iterator[ReplayResult | VerificationSummary | Sum]:
        filled = sum(1 for selected in self.ranges if selected.requests)
        processes = min(filled, len(os.sched_getaffinity(0)))
        if self.total < _PARALLEL_EVENTS_MIN or processes <= 1:
            yield from self._one_after_another(what_if, advance)
            return
        snapshot = None if self._snapshot is None else self._snapshot.path
        job = Job(self.settings, self.timeline, snapshot, what_if)
        yield from run_partitions(job, self.ranges, processes, advance)

    def _one_after_another(
        self, what_if: WhatIf | None, advance: Callable[[int], None]
    ) -> Iterator[ReplayResult | VerificationSummary | Sum]:
        done = 0
        for selected in self.ranges:
            start = None if self._snapshot is None else self._snapshot.rows(selected.partition)
            run = partition_run(self.settings, self.timeline, self.reader, selected, start, what_if)
            yield from run.runner.run(reporting(run.events, selected.requests.first - done, advance))
            yield run.runner.summary
            done += len(selected.requests)


@contextmanager
def open_run(
    settings: Settings, selection: RecordSelection, snapshot: Snapshot | None = None
) -> Iterator[Recomposition]:
    """Open a run over the topics as they are now. Sessions start with the snapshot's rows, if there is one.

    Raises PolicyError or SettingsError for invalid policies, and as `require_topics`, `read_timeline` and
    `settle` for topics that cannot be read.
    """
    topics = {settings.requests_topic, settings.policies_topic}
    topics |= {settings.decisions_topic, settings.dead_letters_topic}
    asyncio.run(require_topics(settings, topics))
    timeline = asyncio.run(read_timeline(settings))
    with open_reader(settings) as reader:
        ranges = settle(settings, reader, selection, snapshot.offsets if snapshot else {})
        yield Recomposition(settings, timeline, reader, ranges, snapshot)
