"""A partition while its events flow: what was fetched of it, what is in flight, and what may be committed.

Decides what stands beside its committed offset. Does nothing by itself: the pipeline does.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import chain

from aiokafka.structs import ConsumerRecord
from msgspec.structs import replace

from apportion.shell.kafka.commit_metadata import BATCH, EVENT, NOTHING_KNOWN, CommitMetadata, encode_metadata
from apportion.shell.stream.pipeline.batch import Batch
from apportion.shell.stream.pipeline.breaker import window_of
from apportion.shell.stream.pipeline.writer import Writing
from apportion.shell.stream.state.rows import PartitionRows

IN_FLIGHT_MAX = 4
"""Batches of a partition that are being written at once."""
ALONE_MAX = 1_000
"""How many events are composed one by one where a worker died over a batch, which has as many at most."""


class Flow:
    """From the offset that was committed, until the partition is taken away.

    Before the first batch is composed it is committed that one is under way. If that stands there when the
    partition is taken over, the worker has died meanwhile, killed by memory or a signal, and an event of the
    batch may be why. So the next worker composes the events one by one. Before each it commits that the event
    is under way, and afterwards that it is not: an event under way when a worker died has ended that worker.
    A worker that ends by itself, or gives the partition up, commits that nothing is under way. If events are
    left to be composed one by one, it commits that a batch is, and the next worker goes on with them.
    """

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
        self.failures = metadata.event_failures
        """How many workers ended at the event where this one began."""
        self.set_aside = offset if 0 < event_failures_max <= self.failures else None
        self._committed = offset, metadata.failures, metadata.under_way
        self._alone = ALONE_MAX if metadata.under_way else 0
        self._is_begun = self._is_suspect = False
        self._is_proven = False
        """True if a batch of this worker is durable; events that are composed one by one prove nothing."""
        self._is_foreign = offset is not None and metadata == NOTHING_KNOWN
        """True if another client made the commit. Once accepted, the worker commits it again as its own."""
        self.may_move = False
        """Whether a batch is being written that moves the offset with it, or was given up and may yet."""
        self.failed_offset: int | None = None
        """Where an error of ours has ended the worker, if everything before it becomes durable."""
        self.in_flight: deque[Writing] = deque()
        self.fetched: Sequence[ConsumerRecord] = ()
        """The latest fetch, until all of it is composed."""
        self.waiting = 0
        """Events that were fetched and are not composed yet."""
        self.writing: asyncio.Task[None] | None = None
        self.is_over = False

    @property
    def is_full(self) -> bool:
        """Whether as many batches are in flight as may be."""
        return len(self.in_flight) >= (1 if self._alone else IN_FLIGHT_MAX)

    @property
    def is_busy(self) -> bool:
        """Whether events wait to be composed, or as many batches are in flight as may be."""
        return self.waiting > 0 or self.is_full

    @property
    def is_alone(self) -> bool:
        """Whether events are composed one by one."""
        return self._alone > 0

    @property
    def is_marked(self) -> bool:
        """Whether more may be composed: it is committed what is under way, or need not be any more."""
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

    def begin(self, records: Sequence[ConsumerRecord]) -> None:
        """Count records that were fetched, and are to be composed next."""
        self._is_begun = True
        self.waiting += len(records)
        if self.durable_offset is None:
            self.durable_offset = self._begun_offset = records[0].offset

    def next(self) -> tuple[Sequence[ConsumerRecord], int]:
        """Return records of the latest fetch, and the index in them where the next batch begins."""
        start = len(self.fetched) - self.waiting
        return (self.fetched[: start + 1] if self._alone else self.fetched), start

    def durable(self, batch: Batch) -> None:
        """Count a batch as durable, as all before it are."""
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

    def refused(self, batch: Batch) -> None:
        """Count a batch that brokers refuse for its size, all before it being durable.

        It is its event's failure if written alone. If not, the next worker composes events one by one.
        """
        self._is_suspect, self.may_move = True, False
        if batch.events == len(self.in_flight) == 1:
            self.failed_offset = batch.offset

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

    def committed(self, offset: int, metadata: CommitMetadata) -> None:
        """Count an offset as committed, with its metadata: what expired before their stream time may go."""
        self.committed_offset = offset
        self._is_foreign = False
        self._committed = offset, metadata.failures, metadata.under_way
        self.rows.time.committed_us = metadata.stream_time_us

    def commit(self) -> tuple[int, CommitMetadata] | None:
        """Return the offset that may be committed, with its metadata; None: it is already, or there is none.

        Where an event has ended the worker, that is its very offset, and how often it did is counted there.
        """
        offset, failures, under_way = self.durable_offset, self._failures, self._under_way
        if self._is_foreign and offset is not None and not self._is_begun:
            self.committing = CommitMetadata()
            return offset, self.committing
        if self.failed_offset is not None and not self.in_flight:
            offset, under_way = self.failed_offset, BATCH if self._is_suspect else ""
            failures = 1 + (self.failures if offset == self._begun_offset else 0)
        elif offset == self.committed_offset and (self.may_move or not self._is_begun):
            return None  # an offset that a batch moves must not be put back
        if offset is None or (offset, failures, under_way) == self._committed:
            return None
        self.committing = replace(
            self.metadata, window=str(self.window), failures=failures, under_way=under_way
        )
        return offset, self.committing
