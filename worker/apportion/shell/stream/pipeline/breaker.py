"""Circuit breaker: stops a worker if too many events of most tenants are refused.

The share is taken over a window of the last events. A part of the window is committed with the offset, so a
worker that restarts continues it and does not empty the topic one window at a time. Tenants are stored as
digests. A refused event may have any tenant's name. All tenants without an answered event count as one, so a
producer cannot stop a worker by inventing names.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import chain
from typing import TypeAlias

from apportion.core.errors import ErrorCode
from apportion.core.wire.record import Record
from apportion.shell.stream.faults import TooManyDeadLettersError

_TENANTS_MAX = 64
"""Number of most recent tenants that are judged."""
_TENANT_WINDOW_MAX = 20
"""Events in a tenant's window; few, to detect a general fault early."""
_FEW_TENANTS = 3
_WINDOWS_OF_FEW = 10
"""With fewer than `_FEW_TENANTS` known tenants, this many windows must pass first: more may appear."""
_KEPT = 64
"""Events, and answered tenants, of a partition that are committed with its offset."""
_ANSWERED_MAX = 4_096
"""Maximum number of answered tenants that are remembered but no longer judged."""
_KEY_MAX_BYTES = 2_048
"""Length to which keys are cut. No tenant's name is longer, but a producer may send any key."""
_NOBODY = "-"
"""The shared name of all tenants without an answered event, and of events without a tenant in their key."""


TenantOutcome: TypeAlias = tuple[str, bool]
"""The tenant's digest, or `_NOBODY`; and whether the event was refused."""


class Window:
    """The last durable events of a partition, the number of all, and the tenants answered last."""

    def __init__(
        self, seen: int = 0, last: Iterable[TenantOutcome] = (), answered: Iterable[str] = ()
    ) -> None:
        self.seen = seen
        self.last: deque[TenantOutcome] = deque(last, _KEPT)
        self.answered: OrderedDict[str, None] = OrderedDict.fromkeys(answered)

    @property
    def names(self) -> dict[str, None]:
        """Names of the answered tenants, then of the events."""
        return dict.fromkeys(chain(self.answered, (tenant for tenant, _ in self.last)))

    def copy(self) -> "Window":
        """Return an independent copy."""
        return Window(self.seen, self.last, self.answered)

    def add(self, outcomes: Sequence[TenantOutcome]) -> None:
        """Count events that are durable."""
        self.last.extend(outcomes)
        self.seen += len(outcomes)
        answered = self.answered
        for tenant in dict.fromkeys([tenant for tenant, refused in outcomes if not refused]):
            answered[tenant] = None
            answered.move_to_end(tenant)
        while len(answered) > _KEPT:
            answered.popitem(last=False)

    def __str__(self) -> str:
        """Return the text for a commit's metadata, at most about 1.3 KB.

        It has four parts: the number of events seen; the names; a byte for each event, in hex: twice the
        index of its name, plus 1 if it was refused; the number of answered tenants.
        """
        numbers = {tenant: number for number, tenant in enumerate(self.names)}
        events = "".join([f"{2 * numbers[tenant] + refused:02x}" for tenant, refused in self.last])
        return f"{self.seen};{','.join(numbers)};{events};{len(self.answered)}"


def window_of(text: str) -> Window:
    """Return the committed window; an empty window if there is none or its format is unknown.

    An earlier version wrote no number of answered tenants, and also names of tenants without answers.
    """
    try:
        seen, names, events, *counts = text.split(";")
        tenants, numbers = names.split(","), bytes.fromhex(events)
        last = [(tenants[number >> 1], bool(number & 1)) for number in numbers]
        if counts:
            return Window(int(seen), last, tenants[: int(counts[0])])
        known = dict.fromkeys([tenant for tenant, refused in last if not refused])
        return Window(
            int(seen), [(tenant if tenant in known else _NOBODY, refused) for tenant, refused in last], known
        )
    except (ValueError, IndexError):
        return Window()


class DeadLetterShare:
    """The share of the last events that were refused, of all tenants and of each tenant.

    It stops nobody before `window` events were seen, or ten windows if fewer than three tenants are known.
    """

    def __init__(self, window: int, share_max: float) -> None:
        self._window = window
        self._share_max = share_max
        self._seen = 0
        self._last = _Last(window)
        self._tenants: OrderedDict[str, _Last] = OrderedDict()
        self._answered: OrderedDict[str, None] = OrderedDict()
        self._above: set[str] = set()

    @property
    def last(self) -> float:
        """The share of the last events that were refused; 0 before the first event."""
        return self._last.share

    def restore(self, window: Window) -> None:
        """Count the events of a committed window; unlike `refused`, it never stops the worker."""
        self._seen += max(0, window.seen - len(window.last))
        for name in window.names:
            if name != _NOBODY:
                self._own(name)
        for tenant, refused in window.last:
            if refused:
                self._refuse(tenant)
            else:
                self.answered(tenant)

    def name_of(self, tenant: str) -> str:
        """Return the name for a tenant's refused event: `_NOBODY` if the tenant has no answered event."""
        return tenant if tenant in self._tenants or tenant in self._answered else _NOBODY

    def answered(self, tenant: str) -> None:
        """Count an event of a tenant that was not refused."""
        self._seen += 1
        own = self._own(tenant)
        self._last.seen += 1
        own.seen += 1
        self._judge(tenant, own)

    def refused(self, tenant: str) -> None:
        """Count a refused event; raise TooManyDeadLettersError if too many of most tenants are refused."""
        self._refuse(tenant)
        few = len(self._tenants) < _FEW_TENANTS
        enough = self._seen >= self._window * (_WINDOWS_OF_FEW if few else 1)
        most = 2 * len(self._above) > len(self._tenants)
        if enough and most and self._last.share > self._share_max:
            tenants = len(self._above), len(self._tenants)
            window = min(self._last.seen, self._window)  # fewer are known after a start
            raise TooManyDeadLettersError(self._last.refused, window, tenants, self._share_max)

    def _refuse(self, tenant: str) -> None:
        self._seen += 1
        name = self.name_of(tenant)
        own = self._own(name)
        for last in (self._last, own):
            last.seen += 1
            last.refusals.append(last.seen)
        self._judge(name, own)

    def _own(self, tenant: str) -> "_Last":
        """Return a tenant's window, and make the tenant the most recent."""
        own = self._tenants.get(tenant)
        if own is not None:
            self._tenants.move_to_end(tenant)
            return own
        own = self._tenants[tenant] = _Last(min(self._window, _TENANT_WINDOW_MAX))
        if len(self._tenants) > _TENANTS_MAX:
            oldest, _ = self._tenants.popitem(last=False)
            self._above.discard(oldest)
            self._answered[oldest] = None
            self._answered.move_to_end(oldest)
            if len(self._answered) > _ANSWERED_MAX:
                self._answered.popitem(last=False)
        return own

    def _judge(self, tenant: str, own: "_Last") -> None:
        if own.share > self._share_max:
            self._above.add(tenant)
        else:
            self._above.discard(tenant)


class _Last:
    """The number of events, and the sequence numbers of refused events among the last `size`."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.seen = 0
        self.refusals: deque[int] = deque(maxlen=size)

    @property
    def refused(self) -> int:
        while self.refusals and self.refusals[0] <= self.seen - self._size:
            self.refusals.popleft()
        return len(self.refusals)

    @property
    def share(self) -> float:
        return self.refused / min(self.seen, self._size) if self.seen else 0.0


def tenant_of(record: Record, refusal: ErrorCode | None) -> str:
    """Return the digest of the tenant in an event's key; `_NOBODY` if there is none or the key is wrong."""
    if refusal is ErrorCode.WRONG_KEY:
        return _NOBODY
    tenant, slash, _ = (record.key or b"")[:_KEY_MAX_BYTES].partition(b"/")
    return digest_of(tenant) if slash else _NOBODY


def digest_of(tenant: bytes) -> str:
    """Return a short digest of a tenant's name."""
    return blake2b(tenant, digest_size=4).hexdigest()
