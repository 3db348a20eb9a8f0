"""State of one assigned partition: its waiting events, batches in flight, and next commit."""

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import chain

from aiokafka.structs import ConsumerRecord
from msgspec.structs import replace

from apportion.shell.kafka.commit_metadata import BATCH, EVENT, NOTHING_KNOWN, CommitMetadata, encode_metadata
from apportion.shell.stream.pipeline.batch import Batch
from apportion.shell.stream.pipeline.breaker import window_of
from apportion.shell.stream.pipeline.queues import Queue
from apportion.shell.stream.pipeline.writer import Writing
from apportion.shell.stream.state.rows import PartitionRows

IN_FLIGHT_MAX = 4
"""Maximum number of batches of a partition in flight."""
ALONE_MAX = 1_000
"""Number of events that are composed one by one after a crash: the maximum number of events in a batch."""


class Flow:
    """State of a partition from its committed offset until it is revoked.

    A crash by memory or a signal leaves no trace of the event that caused it. An in-progress marker in the
    commit metadata finds that event:

    1. Before the first batch is composed, the marker `BATCH` is committed. It is cleared once a batch is
       durable, and when a worker stops or loses the partition.
    2. A worker that finds the marker composes the next `ALONE_MAX` events one by one. It commits the marker
       `EVENT` before each event and `BATCH` after it. If it stops before the last of them, `BATCH` stays.
    3. A worker that finds the marker `EVENT` counts a failure of the event at the committed offset.

    Attributes:
        metadata: Metadata of the durable offset; `next_commit` adds the window, failures and the marker.
        committing: Metadata of the commit that is being made.
        durable_offset: All events before it are durable; None: there is no commit, and nothing was fetched.
        failures: Number of workers that ended at the event where this flow began.
        set_aside: Offset of an event that is refused without being composed; None: there is none.
        may_move: True while a batch that commits its own offset is being written, or was given up and may
            still commit.
        failed_offset: Offset of an event that ended this worker by an error. It is committed if all events
            before it become durable.
        in_flight: Batches that are being written, oldest first.
        is_over: True once the partition is revoked or the worker stops.
    """

    def __init__(
        self,
        partition: int,
        rows: PartitionRows,
        offset: int | None,
        metadata: CommitMetadata,
        queue: Queue,
        event_failures_max: int = 0,
    ) -> None:
        """Begin at a committed offset or None; set aside an event that ended `event_failures_max` workers."""
        self.partition = partition
        self.rows = rows
        self.queue = queue
        self.window = window_of(metadata.window)
        self.metadata = self.committing = metadata
        self.committed_offset = self.durable_offset = self._begun_offset = offset
        self.failures = metadata.event_failures
        self.set_aside = offset if 0 < event_failures_max <= self.failures else None
        self._committed = offset, metadata.failures, metadata.under_way
        self._alone = ALONE_MAX if metadata.under_way else 0
        self._is_begun = self._is_suspect = False
        self._is_proven = False
        """True once a batch is durable that was not composed one by one."""
        self._is_foreign = offset is not None and metadata == NOTHING_KNOWN
        """True if another client made the commit, and this worker has not committed it again as its own."""
        self.may_move = False
        self.failed_offset: int | None = None
        self.in_flight: deque[Writing] = deque()
        self.writing: asyncio.Task[None] | None = None
        self.is_over = False

    @property
    def waiting(self) -> int:
        """Number of events that are fetched and not yet composed."""
        return len(self.queue)

    @property
    def is_full(self) -> bool:
        """Whether the maximum number of batches is in flight; 1 while events are composed one by one."""
        return len(self.in_flight) >= (1 if self._alone else IN_FLIGHT_MAX)

    @property
    def is_busy(self) -> bool:
        """Whether events wait to be composed, or the maximum number of batches is in flight."""
        return self.waiting > 0 or self.is_full

    @property
    def is_alone(self) -> bool:
        """Whether events are composed one by one."""
        return self._alone > 0

    @property
    def is_marked(self) -> bool:
        """True once the current marker is committed, or after the first durable batch."""
        return self._is_proven or self._committed == (self.durable_offset, self._failures, self._under_way)

    @property
    def has_passed(self) -> bool:
        """Whether the event where this flow began is durable."""
        return self.durable_offset != self._begun_offset

    @property
    def _failures(self) -> int:
        return 0 if self.has_passed else self.failures

    @property
    def _under_way(self) -> str:
        if self._alone:
            is_next = self.waiting > 0 and not self.in_flight
            return EVENT if is_next and not self.is_over else BATCH
        return "" if (self._is_proven or self.is_over) and not self._is_suspect else BATCH

    def add_records(self, records: Sequence[ConsumerRecord]) -> None:
        """Queue fetched records."""
        self._is_begun = True
        self.queue.add(records)
        if self.durable_offset is None:
            self.durable_offset = self._begun_offset = records[0].offset

    def record_durable(self, batch: Batch) -> None:
        """Record that a batch is durable, after all earlier batches."""
        if self._alone:
            self._alone = max(0, self._alone - batch.events)
        elif batch.events:
            self._is_proven = True
        self.window.add(batch.outcomes)
        self.durable_offset = batch.next_offset
        self.metadata = CommitMetadata(
            stream_time_us=batch.stream_time_us,
            changelog_end_offset=self.rows.changelog_end,
        )

    def record_too_large(self, batch: Batch) -> None:
        """Record that brokers refused a batch for its size; all earlier batches are durable.

        If the batch is one event, that event failed. Otherwise the next worker composes events one by one.
        """
        self._is_suspect, self.may_move = True, False
        if batch.events == len(self.in_flight) == 1:
            self.failed_offset = batch.offset

    def commit_after(self, batches: Sequence[Batch]) -> tuple[int, str]:
        """Return the offset and encoded metadata to commit together with these batches, the next ones."""
        window = self.window.copy()
        window.add(list(chain.from_iterable(batch.outcomes for batch in batches)))
        last = batches[-1]
        metadata = CommitMetadata(
            stream_time_us=last.stream_time_us,
            changelog_end_offset=self.rows.changelog_end,
            window=str(window),
        )
        return last.next_offset, encode_metadata(metadata)

    def record_commit(self, offset: int, metadata: CommitMetadata) -> None:
        """Record a commit. Rows that expired `max_lateness_s` before its stream time may be deleted."""
        self.committed_offset = offset
        self._is_foreign = False
        self._committed = offset, metadata.failures, metadata.under_way
        self.rows.time.committed_us = metadata.stream_time_us

    def next_commit(self) -> tuple[int, CommitMetadata] | None:
        """Return the offset and metadata to commit now; None: there is nothing new to commit.

        If an event has ended this worker, that is the event's offset with its number of failures.
        """
        offset, failures, under_way = self.durable_offset, self._failures, self._under_way
        if self._is_foreign and offset is not None and not self._is_begun:
            self.committing = CommitMetadata()
            return offset, self.committing
        if self.failed_offset is not None and not self.in_flight:
            offset, under_way = self.failed_offset, BATCH if self._is_suspect else ""
            failures = 1 + (self.failures if offset == self._begun_offset else 0)
        elif offset == self.committed_offset and (self.may_move or not self._is_begun):
            return None  # an offset that a batch commits must not be moved back
        if offset is None or (offset, failures, under_way) == self._committed:
            return None
        self.committing = replace(
            self.metadata, window=str(self.window), failures=failures, under_way=under_way
        )
        return offset, self.committing
