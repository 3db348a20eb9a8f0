"""Scheduling of a partition's fetched events by tenant limits: a noisy tenant delays only its own events.

Events of a tenant, and so of a session, keep their order. The order depends only on the fetched and taken
events, except that the limit of events per second uses a clock.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from aiokafka.structs import ConsumerRecord
from msgspec import Struct

WAITING_MAX_RECORDS = 10_000
"""Maximum number of waiting events of a partition; a full queue stops the partition's fetches."""
DISTANCE_MAX = 100_000
"""Maximum offsets from the first waiting to the last fetched event; after a crash all are read again."""
_TURN_RECORDS = 128
"""Events that are picked together if several tenants wait. Small, so that a new tenant is served soon."""
_ALONE_RECORDS = 1_000
_BUCKETS_MAX = 1_024
_RECORD_BYTES = 600
"""Measured memory of a record in the queue, without its key, value and headers."""
_HEADER_BYTES = 200
"""Memory of a header, without its name and value."""


class TenantLimits(Struct, frozen=True):
    """Limits of each tenant: its share of a turn while others wait, and its events per second (0: no limit).

    `waiting_max_bytes` limits the memory of a partition's whole queue.
    """

    batch_share: float
    events_per_s: int
    waiting_max_bytes: int


class Buckets:
    """Token buckets of this worker's tenants; a bucket holds the tokens of one second, and starts full."""

    def __init__(self, events_per_s: int, clock_s: Callable[[], float] = monotonic) -> None:
        self._rate = events_per_s
        self._clock_s = clock_s
        self._held: dict[bytes, tuple[float, float]] = {}
        self._most = _BUCKETS_MAX

    def left(self, tenant: bytes) -> int | None:
        """Return how many events may be answered now; None: there is no limit."""
        return int(self._now(tenant)) if self._rate else None

    def take(self, tenant: bytes) -> None:
        """Count an answered event."""
        if self._rate:
            self._held[tenant] = (self._now(tenant) - 1, self._clock_s())
            if len(self._held) > self._most:  # a full bucket equals an absent one
                self._held = {
                    tenant: held for tenant, held in self._held.items() if self._now(tenant) < self._rate
                }
                self._most = max(_BUCKETS_MAX, 2 * len(self._held))

    def wait_s(self, tenant: bytes) -> float:
        """Return the seconds until an event of a tenant may be answered."""
        return max(0.0, (1 - self._now(tenant)) / self._rate) if self._rate else 0.0

    def _now(self, tenant: bytes) -> float:
        tokens, at_s = self._held.get(tenant, (float(self._rate), 0.0))
        return min(float(self._rate), tokens + (self._clock_s() - at_s) * self._rate)


class TenantQueue:
    """The waiting events of a partition; one that is already processed uses up no tenant limit."""

    def __init__(
        self, limits: TenantLimits, buckets: Buckets, is_seen: Callable[[ConsumerRecord], bool]
    ) -> None:
        self._limits = limits
        self._buckets = buckets
        self._is_seen = is_seen
        self._order: OrderedDict[int, ConsumerRecord] = OrderedDict()
        self._tenants: OrderedDict[bytes, deque[ConsumerRecord]] = OrderedDict()
        self._held_back: dict[bytes, int] = {}
        self._free: set[int] = set()
        self.size_bytes = 0
        """Estimated memory of the waiting events."""
        self._end = 0

    def __len__(self) -> int:
        return len(self._order)

    @property
    def is_full(self) -> bool:
        """Whether a limit of events, bytes or distance stops further fetches."""
        return (
            len(self._order) >= WAITING_MAX_RECORDS
            or self.size_bytes >= self._limits.waiting_max_bytes
            or self._end - self.next_offset >= DISTANCE_MAX
        )

    @property
    def next_offset(self) -> int:
        """The offset before which all events are taken; 0 before the first fetch."""
        return next(iter(self._order), self._end)

    def add(self, records: Iterable[ConsumerRecord]) -> None:
        """Add fetched records, in offset order."""
        for record in records:
            self._order[record.offset] = record
            self._tenants.setdefault(_tenant(record), deque()).append(record)
            if self._is_seen(record):
                self._free.add(record.offset)
            self.size_bytes += _size_bytes(record)
            self._end = record.offset + 1

    def shares(self) -> dict[bytes, int]:
        """Return how many events of each tenant may be picked in the next turn."""
        most = self._most
        share = max(1, int(self._limits.batch_share * most)) if len(self._tenants) > 1 else most
        left = self._buckets.left
        return {
            tenant: share if (now := left(tenant)) is None else min(share, now) for tenant in self._tenants
        }

    def in_turn(self, shares: dict[bytes, int]) -> list[ConsumerRecord]:
        """Return the first events in offset order, deducted from `shares`, up to a tenant without a share."""
        most = self._most
        picked: list[ConsumerRecord] = []
        for record in self._order.values():
            if len(picked) == most or not self._has_share(record, shares):
                break
            picked.append(record)
        return picked

    def ahead(self, shares: dict[bytes, int]) -> list[ConsumerRecord]:
        """Return events that overtake others: round-robin by tenant, within the rest of the shares.

        The events that `in_turn` returned for the same shares must have been taken before.
        """
        rest = {
            tenant: iter(records)
            for tenant, records in self._tenants.items()
            if tenant not in self._held_back
        }
        picked: list[ConsumerRecord] = []
        while rest and len(picked) < _TURN_RECORDS:
            for tenant in list(rest):
                record = next(rest[tenant], None)
                if record is None or not self._has_share(record, shares):
                    del rest[tenant]
                else:
                    picked.append(record)
        return picked[:_TURN_RECORDS]

    def taken(self, records: Sequence[ConsumerRecord]) -> None:
        """Remove events that are answered or refused; they are the first of their tenants."""
        for record in records:
            tenant = _tenant(record)
            waiting = self._tenants[tenant]
            first = waiting.popleft()
            assert first.offset == record.offset, "a tenant's events are taken in their order"
            if waiting:
                self._tenants.move_to_end(tenant)
            else:
                del self._tenants[tenant]
            if self._held_back.get(tenant) == record.offset:
                del self._held_back[tenant]
            if record.offset in self._free:
                self._free.discard(record.offset)
            else:
                self._buckets.take(tenant)
            del self._order[record.offset]
            self.size_bytes -= _size_bytes(record)

    def hold_back(self, record: ConsumerRecord) -> None:
        """Let no event of this event's tenant overtake others before this event has had its turn."""
        self._held_back[_tenant(record)] = record.offset

    def wait_s(self) -> float:
        """Return the seconds until an event may be picked, by the tenants' rates; 0 if none waits."""
        if not self._order:
            return 0.0
        first = next(iter(self._order.values()))
        able = [tenant for tenant in self._tenants if tenant not in self._held_back]
        return min(self._buckets.wait_s(tenant) for tenant in (*able, _tenant(first)))

    @property
    def _most(self) -> int:
        return _TURN_RECORDS if len(self._tenants) > 1 else _ALONE_RECORDS

    def _has_share(self, record: ConsumerRecord, shares: dict[bytes, int]) -> bool:
        """Return whether the share permits an event, and use it up."""
        if record.offset in self._free:
            return True
        tenant = _tenant(record)
        left = shares.get(tenant, 0)
        shares[tenant] = left - 1
        return left > 0


def _tenant(record: ConsumerRecord) -> bytes:
    """Return the tenant in an event's key `tenant/session_id`; empty if there is none."""
    tenant, slash, _ = (record.key or b"").partition(b"/")
    return bytes(tenant) if slash else b""


def _size_bytes(record: ConsumerRecord) -> int:
    headers = sum(_HEADER_BYTES + len(name) + len(value or b"") for name, value in record.headers)
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers
