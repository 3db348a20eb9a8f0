"""Turns of tenants with limits: a noisy tenant delays only its own events.

Decides an order and nothing else: which fetched events of a partition are composed now, in their turn, and
which may go ahead of others that wait. The events of a tenant stay in their order, and so do those of a
session. The same fetched events, taken alike, are picked alike; only the limit of events a second asks a
clock.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from aiokafka.structs import ConsumerRecord
from msgspec import Struct

WAITING_MAX_RECORDS = 10_000
"""How many events of a partition may wait; where it is full nothing more of the partition is fetched."""
DISTANCE_MAX = 100_000
"""How many offsets may lie between the first event that waits and the last that was fetched: so many are read
again at most after a crash."""
_TURN_RECORDS = 128
"""How many events are picked at once where several tenants wait: few, so that who comes is soon in it."""
_ALONE_RECORDS = 1_000
_BUCKETS_MAX = 1_024
_RECORD_BYTES = 600
"""What a record takes beside its key, value and headers, with its places in the queue, as measured."""
_HEADER_BYTES = 200
"""What a header takes beside its name and value."""


class TenantLimits(Struct, frozen=True):
    """How much one tenant may have: of what is picked while others wait, and a second (0: no limit)."""

    batch_share: float
    events_per_s: int
    waiting_max_bytes: int


class Buckets:
    """How many events of each tenant this worker may answer now: a second's worth at once, then in time."""

    def __init__(self, events_per_s: int, clock_s: Callable[[], float] = monotonic) -> None:
        """Start with a second's worth for everybody; 0: there is no limit."""
        self._rate = events_per_s
        self._clock_s = clock_s
        self._held: dict[bytes, tuple[float, float]] = {}
        self._most = _BUCKETS_MAX

    def left(self, tenant: bytes) -> int | None:
        """Return how many may be answered now; None: any number."""
        return int(self._now(tenant)) if self._rate else None

    def take(self, tenant: bytes) -> None:
        """Count an event that is answered."""
        if self._rate:
            self._held[tenant] = (self._now(tenant) - 1, self._clock_s())
            if len(self._held) > self._most:  # a full one is as one that is not there
                self._held = {
                    tenant: held for tenant, held in self._held.items() if self._now(tenant) < self._rate
                }
                self._most = max(_BUCKETS_MAX, 2 * len(self._held))

    def wait_s(self, tenant: bytes) -> float:
        """Return in how many seconds one may be answered."""
        return max(0.0, (1 - self._now(tenant)) / self._rate) if self._rate else 0.0

    def _now(self, tenant: bytes) -> float:
        tokens, at_s = self._held.get(tenant, (float(self._rate), 0.0))
        return min(float(self._rate), tokens + (self._clock_s() - at_s) * self._rate)


class TenantQueue:
    """The events of a partition that were fetched and are not answered yet."""

    def __init__(
        self, limits: TenantLimits, buckets: Buckets, is_seen: Callable[[ConsumerRecord], bool]
    ) -> None:
        """Start with none; one that a row has seen (`is_seen`) gives nothing, and counts for no limit."""
        self._limits = limits
        self._buckets = buckets
        self._is_seen = is_seen
        self._order: OrderedDict[int, ConsumerRecord] = OrderedDict()
        self._tenants: OrderedDict[bytes, deque[ConsumerRecord]] = OrderedDict()
        self._held_back: dict[bytes, int] = {}
        self._free: set[int] = set()
        self.size_bytes = 0
        """The estimated memory of the events that wait."""
        self._end = 0

    def __len__(self) -> int:
        return len(self._order)

    @property
    def is_full(self) -> bool:
        """Whether nothing more may be fetched: by events, by bytes, or by the distance between offsets."""
        return (
            len(self._order) >= WAITING_MAX_RECORDS
            or self.size_bytes >= self._limits.waiting_max_bytes
            or self._end - self.next_offset >= DISTANCE_MAX
        )

    @property
    def next_offset(self) -> int:
        """The offset before which all is taken; 0 before anything was added."""
        return next(iter(self._order), self._end)

    def add(self, records: Iterable[ConsumerRecord]) -> None:
        """Take what was fetched, in the order of offsets."""
        for record in records:
            self._order[record.offset] = record
            self._tenants.setdefault(_tenant(record), deque()).append(record)
            if self._is_seen(record):
                self._free.add(record.offset)
            self.size_bytes += _size_bytes(record)
            self._end = record.offset + 1

    def shares(self) -> dict[bytes, int]:
        """Return how many events each tenant may have of what is picked next."""
        most = self._most
        share = max(1, int(self._limits.batch_share * most)) if len(self._tenants) > 1 else most
        left = self._buckets.left
        return {
            tenant: share if (now := left(tenant)) is None else min(share, now) for tenant in self._tenants
        }

    def in_turn(self, shares: dict[bytes, int]) -> list[ConsumerRecord]:
        """Return the first events in the order of offsets, up to one whose tenant has had its share."""
        most = self._most
        picked: list[ConsumerRecord] = []
        for record in self._order.values():
            if len(picked) == most or not self._has_share(record, shares):
                break
            picked.append(record)
        return picked

    def ahead(self, shares: dict[bytes, int]) -> list[ConsumerRecord]:
        """Return events that go ahead of others: one of each tenant, and again, as far as its share goes.

        Asked when what was picked in turn, of the same shares, is taken.
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
        """Let events go that were picked, of each tenant the first ones: they are answered, or refused."""
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
        """Let nothing of that tenant go ahead before this event has had its turn."""
        self._held_back[_tenant(record)] = record.offset

    def wait_s(self) -> float:
        """Return in how many seconds an event may be picked, where none may now."""
        if not self._order:
            return 0.0
        first = next(iter(self._order.values()))
        able = [tenant for tenant in self._tenants if tenant not in self._held_back]
        return min(self._buckets.wait_s(tenant) for tenant in (*able, _tenant(first)))

    @property
    def _most(self) -> int:
        return _TURN_RECORDS if len(self._tenants) > 1 else _ALONE_RECORDS

    def _has_share(self, record: ConsumerRecord, shares: dict[bytes, int]) -> bool:
        """Tell whether an event may be picked, and count it."""
        if record.offset in self._free:
            return True
        tenant = _tenant(record)
        left = shares.get(tenant, 0)
        shares[tenant] = left - 1
        return left > 0


def _tenant(record: ConsumerRecord) -> bytes:
    """Return whose an event is, by its key `tenant/session_id`; where the key does not tell, nobody's."""
    tenant, slash, _ = (record.key or b"").partition(b"/")
    return bytes(tenant) if slash else b""


def _size_bytes(record: ConsumerRecord) -> int:
    """Return about how much memory a record that waits takes."""
    headers = sum(_HEADER_BYTES + len(name) + len(value or b"") for name, value in record.headers)
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers
