"""A partition while its events flow: what was fetched of it, what is in flight, and what may be committed.

Decides what stands beside its committed offset. Does nothing by itself: the lane does.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import chain

from aiokafka.structs import ConsumerRecord
from msgspec import Struct
from msgspec.structs import replace

from apportion.stream.batch import Batch
from apportion.stream.breaker import window_of
from apportion.stream.commit_metadata import CommitMetadata, encode_metadata
from apportion.stream.rows import PartitionRows
from apportion.stream.writer import Writing

IN_FLIGHT_MAX = 4
"""Batches of a partition that are being written at once."""


class Flow:
    """From the offset that was committed, until the partition is taken away."""

    def __init__(
        self,
        partition: int,
        rows: PartitionRows,
        offset: int | None,
        metadata: CommitMetadata,
        event_failures_max: int = 0,
    ) -> None:
        """Begin at the committed offset, beside which the metadata stood; None: nothing is committed.

        An event there that has ended `event_failures_max` workers is set aside; 0: it is not.
        """
        self.partition = partition
        self.rows = rows
        self.window = window_of(metadata.window)
        self.metadata = self.committing = metadata
        self.committed_offset = self.durable_offset = self._begun_offset = offset
        self.failures = metadata.failures
        """How many workers ended at the event where this one began."""
        self.set_aside = offset if 0 < event_failures_max <= metadata.failures else None
        self.failed_offset: int | None = None
        """Where an error of ours has ended the worker, if everything before it becomes durable."""
        self.in_flight: deque[Writing] = deque()
        self.waiting: Fetched | None = None
        self.handed_over = 0
        self.taken = 0
        self.writing: asyncio.Task[None] | None = None
        self.is_over = False

    @property
    def is_full(self) -> bool:
        """Whether as many batches are in flight as may be."""
        return len(self.in_flight) >= IN_FLIGHT_MAX

    @property
    def is_busy(self) -> bool:
        """Whether events that were fetched have not all been composed yet."""
        return self.handed_over > self.taken or self.is_full

    def durable(self, batch: Batch) -> None:
        """Count a batch as durable, as all before it are."""
        self.window.add(batch.outcomes)
        self.durable_offset = batch.next_offset
        self.metadata = CommitMetadata(
            stream_time_us=batch.stream_time_us,
            changelog_end_offset=self.rows.changelog_end,
        )

    def commit_after(self, batches: Sequence[Batch]) -> tuple[int, str]:
        """Return the offset that is right when these are durable, which come next, with its metadata."""
        window = self.window.copy()
        window.add(list(chain.from_iterable(batch.outcomes for batch in batches)))
        last = batches[-1]
        metadata = CommitMetadata(
            stream_time_us=last.stream_time_us,
            changelog_end_offset=self.rows.changelog_end,
            window=str(window),
        )
        return last.next_offset, encode_metadata(metadata)

    def committed(self, offset: int, stream_time_us: int) -> None:
        """Count an offset as committed, and the stream time beside it: what expired before it may go."""
        self.committed_offset = offset
        self.rows.time.committed_us = stream_time_us

    def commit(self) -> tuple[int, CommitMetadata] | None:
        """Return the offset that may be committed, with its metadata; None: it is already, or there is none.

        Where an event has ended the worker, that is its very offset, and how often it did is counted there.
        """
        offset, failures = self.durable_offset, 0
        if self.failed_offset is not None and not self.in_flight:
            offset = self.failed_offset
            failures = 1 + (self.failures if offset == self._begun_offset else 0)
        elif offset == self.committed_offset:
            return None
        if offset is None:
            return None
        self.committing = replace(self.metadata, window=str(self.window), failures=failures)
        return offset, self.committing


class Fetched(Struct):
    """What a fetch brought of a partition; `number` counts them, `taken` how many records are composed."""

    flow: Flow
    number: int
    records: Sequence[ConsumerRecord]
    taken: int = 0
