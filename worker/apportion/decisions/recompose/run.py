"""All partitions verified or replayed, one run: results as they are found, and the sum.

Decides whether partitions are read side by side: where there are many events, and processors. Else they
come one after another, by their numbers.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from apportion.core.policies.timeline import Timeline
from apportion.core.wire.record import Record
from apportion.decisions.recompose.parallel import Job, run_partitions
from apportion.decisions.recompose.partition import partition_run
from apportion.decisions.recompose.ranges import (
    PartitionRange,
    RecordSelection,
    require_topics,
    settle,
    topics_read,
)
from apportion.decisions.recompose.snapshot import Snapshot
from apportion.decisions.replay.findings import Finding, VerificationSummary
from apportion.decisions.replay.replaying import ReplayResult, WhatIf
from apportion.decisions.replay.sums import Sum
from apportion.settings import Settings
from apportion.shell.kafka.publishing import read_timeline
from apportion.shell.kafka.records import RecordReader, open_reader

_SIDE_BY_SIDE_FROM = 1_000
"""How many events are worth that processes begin."""


class Recomposition:
    """One run over topics, made by `open_run`; what it counted is its `summary`, or the `sum` of a replay."""

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
        """About how many events there are to compose."""
        return sum(len(partition_range.requests) for partition_range in self.ranges)

    def run(self, advance: Callable[[int], None]) -> Iterator[Finding]:
        """Yield each finding; `advance` is called with the number of events done.

        Raises:
            SettingsError: the secrets cannot be read.
            InvalidSnapshotError: the snapshot was altered.
            BrokerUnreachableError: the topics can no longer be read.
            PartitionFailedError: likewise, of partitions that are read side by side.
        """
        for each in self._told(None, advance):
            if isinstance(each, VerificationSummary):
                self.summary += each
            elif isinstance(each, Finding):
                yield each

    def replay(self, what_if: WhatIf, advance: Callable[[int], None]) -> Iterator[ReplayResult]:
        """Yield what a change makes of each decision, or why it is not replayed; see `run`."""
        for each in self._told(what_if, advance):
            if isinstance(each, Sum):
                self.sum += each
            elif not isinstance(each, VerificationSummary):
                yield each

    def _told(
        self, what_if: WhatIf | None, advance: Callable[[int], None]
    ) -> Iterator[ReplayResult | VerificationSummary | Sum]:
        own = [partition_range for partition_range in self.ranges if partition_range.requests]
        processes = min(len(own), len(os.sched_getaffinity(0)))
        if self.total < _SIDE_BY_SIDE_FROM or processes <= 1:
            yield from self._one_after_another(what_if, advance)
            return
        snapshot = None if self._snapshot is None else self._snapshot.path
        job = Job(self.settings, self.timeline, snapshot, what_if)
        yield from run_partitions(job, self.ranges, processes, advance)

    def _one_after_another(
        self, what_if: WhatIf | None, advance: Callable[[int], None]
    ) -> Iterator[ReplayResult | VerificationSummary | Sum]:
        before = 0
        for partition_range in self.ranges:
            start = None if self._snapshot is None else self._snapshot.rows(partition_range.partition)
            run = partition_run(self.settings, self.timeline, self.reader, partition_range, start, what_if)
            events = _counted(run.events, before - partition_range.requests.first, advance)
            yield from run.results(events)
            yield run.summary
            before += len(partition_range.requests)


@contextmanager
def open_run(
    settings: Settings, selection: RecordSelection, snapshot: Snapshot | None = None
) -> Iterator[Recomposition]:
    """Settle what is read, from the topics as they are now; sessions start as the snapshot has them.

    Raises:
        PolicyError, SettingsError: the policies that the settings name are wrong.
        BrokerRefusedError, BrokerUnreachableError, PoliciesUnreadError, PartitionsChangedError,
        TopicMissingError, NoSuchPartitionError: topics cannot be read.
    """
    asyncio.run(require_topics(settings, topics_read(settings)))
    timeline = asyncio.run(read_timeline(settings))
    with open_reader(settings) as reader:
        ranges = settle(settings, reader, selection, snapshot.offsets if snapshot else {})
        yield Recomposition(settings, timeline, reader, ranges, snapshot)


def _counted(events: Iterator[Record], before: int, advance: Callable[[int], None]) -> Iterator[Record]:
    for event in events:
        yield event
        advance(before + event.offset + 1)
