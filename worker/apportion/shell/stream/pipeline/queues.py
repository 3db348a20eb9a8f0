"""Queues of one partition's fetched events: in offset order, or by turns of tenants.

With turns, events that are answered may overtake older events. The committed offset is that of the first
waiting event, so after a crash they are read again. They are skipped then, because their rows mark them as
answered. A refused event leaves no mark, so it waits for its turn in offset order.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from aiokafka.structs import ConsumerRecord
from msgspec import Struct

from apportion.shell.stream.faults import EventFailedError, NotInTurnError
from apportion.shell.stream.pipeline.batch import Batch
from apportion.shell.stream.pipeline.tenants import Buckets, TenantLimits, TenantQueue
from apportion.shell.stream.state.row_format import seen_offset_of
from apportion.shell.stream.state.rows import PartitionRows

_WAIT_MIN_S = 0.001
_ALONE_WAIT_S = 0.02
"""Pause before the next event in turn is tried again if events are composed one by one."""


class Picked(Struct, frozen=True):
    """Records to compose next, from index `start` on; `is_ahead`: older events still wait."""

    records: Sequence[ConsumerRecord]
    start: int = 0
    is_ahead: bool = False


class Queue(Protocol):
    """Waiting events of one partition.

    The pipeline repeats: `pick` if the queue `is_due`, compose, `take` the batch, and `plan` the next pick.
    """

    @property
    def is_due(self) -> bool:
        """Whether events may be picked now."""

    @property
    def size_bytes(self) -> int | None:
        """Estimated memory of the waiting events; None: it is not estimated."""

    def __len__(self) -> int: ...

    def has_room(self, *, is_writing_full: bool) -> bool:
        """Return whether events may be fetched; `is_writing_full`: no more batches may be in flight."""

    def add(self, records: Sequence[ConsumerRecord]) -> None:
        """Add fetched records, in offset order."""

    def pick(self, *, is_alone: bool) -> Picked:
        """Return the records to compose next; `is_alone`: at most one."""

    def take(self, picked: Picked, batch: Batch) -> None:
        """Remove a batch's events; with turns, set its `next_offset`, and clear a failure that can wait."""

    def plan(self, *, is_alone: bool) -> bool:
        """Plan the next pick; return whether it may follow before other partitions have their turn."""

    def close(self) -> None:
        """Stop: the partition is revoked, and the waiting events are read again."""


NewQueue: TypeAlias = Callable[[PartitionRows, Callable[[], None]], Queue]
"""Makes a partition's queue from its rows and a function that wakes the pipeline."""


class FifoQueue:
    """The rest of the latest fetch, in offset order."""

    size_bytes = None

    def __init__(self) -> None:
        self._records: Sequence[ConsumerRecord] = ()
        self._start = 0

    def __len__(self) -> int:
        return len(self._records) - self._start

    @property
    def is_due(self) -> bool:
        """Whether events wait."""
        return len(self) > 0

    def has_room(self, *, is_writing_full: bool) -> bool:
        """Return True if no event waits and the writer has room."""
        return not (self or is_writing_full)

    def add(self, records: Sequence[ConsumerRecord]) -> None:
        """Replace the previous fetch, whose events are all composed."""
        self._records, self._start = records, 0

    def pick(self, *, is_alone: bool) -> Picked:
        """Return the rest of the fetch; `is_alone`: its next event."""
        return Picked(self._records[: self._start + 1] if is_alone else self._records, self._start)

    def take(self, picked: Picked, batch: Batch) -> None:  # noqa: ARG002 - the first events were picked
        """Remove a batch's events."""
        self._start += batch.events
        if not self:
            self.close()

    def plan(self, *, is_alone: bool) -> bool:  # noqa: ARG002 - waiting events are always due
        """Let the next pick follow at once."""
        return True

    def close(self) -> None:
        """Release the fetch."""
        self.add(())


class TurnQueue:
    """Picks events by turns of tenants: alternately in offset order, and ahead of older events."""

    def __init__(
        self, limits: TenantLimits, buckets: Buckets, rows: PartitionRows, wake: Callable[[], None]
    ) -> None:
        def is_seen(record: ConsumerRecord) -> bool:
            row = rows.values.get(record.key or b"")
            return row is not None and seen_offset_of(row) >= record.offset

        self.is_due = False
        self._wake = wake
        self._tenants = TenantQueue(limits, buckets, is_seen)
        self._shares: dict[bytes, int] | None = None
        """The rest of the shares for events that overtake, after events were picked in offset order."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._tenants)

    @property
    def size_bytes(self) -> int:
        """Estimated memory of the waiting events."""
        return self._tenants.size_bytes

    def has_room(self, *, is_writing_full: bool) -> bool:  # noqa: ARG002 - events of other tenants may follow
        """Return True until a limit of waiting events is reached."""
        return not self._tenants.is_full

    def add(self, records: Sequence[ConsumerRecord]) -> None:
        """Add fetched records."""
        self._tenants.add(records)
        self._make_due()

    def pick(self, *, is_alone: bool) -> Picked:
        """Return the next turn; `is_alone`: the first event, or nothing while its tenant has no share."""
        self.is_due = False
        shares, self._shares = self._shares, None
        if is_alone:
            return Picked(self._tenants.in_turn(self._tenants.shares())[:1])
        if shares is None:
            shares = self._tenants.shares()
            if records := self._tenants.in_turn(shares):
                self._shares = shares
                return Picked(records)
        return Picked(self._tenants.ahead(shares), is_ahead=True)

    def take(self, picked: Picked, batch: Batch) -> None:
        """Remove a batch's events. An event that failed ahead of its turn is held back until its turn."""
        self._tenants.taken(picked.records[: batch.events])
        batch.next_offset = self._tenants.next_offset
        batch.stream_time_us = 0  # unknown at that offset: overtaking events have advanced it
        if picked.is_ahead and isinstance(batch.failure, NotInTurnError | EventFailedError):
            self._tenants.hold_back(picked.records[batch.events])
            batch.failure = None

    def plan(self, *, is_alone: bool) -> bool:
        """Become due at once, or when a tenant's rate permits an event; other partitions come first."""
        if self and not self.is_due:
            wait_s = _ALONE_WAIT_S if is_alone else self._tenants.wait_s()
            if wait_s:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(max(_WAIT_MIN_S, wait_s), self._make_due)
            else:
                self._make_due()
        return False

    def _make_due(self) -> None:
        self.close()
        self.is_due = True
        self._wake()

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
