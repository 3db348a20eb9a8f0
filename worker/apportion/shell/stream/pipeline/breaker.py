"""Breaker: a worker stops when too many events are refused, which is a fault of the whole topic.

Decides over which of the last events the share is taken, and what of them stands beside a committed offset.
A worker that starts again continues from there, and does not empty the topic a window at a time. Tenants are
known by a digest alone. A tenant's name in a refused event is not verified, so only names of tenants that
have been answered count: no producer stops a worker by inventing names.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import TypeAlias

from apportion.core.errors import ErrorCode
from apportion.core.wire.record import Record
from apportion.shell.stream.faults import TooManyDeadLettersError

_TENANTS_MAX = 64
"""How many tenants are judged: those whose events came last."""
_TENANT_WINDOW_MAX = 20
"""Over how many of its own last events a tenant is judged: few, so that a fault of all is seen soon."""
_FEW_TENANTS = 3
_WINDOWS_OF_FEW = 10
"""How many windows must have passed where fewer tenants than these are known: the others may come yet."""
_KEPT = 64
"""How many of a partition's last events, and how many answered tenants, stand beside its committed offset."""
_ANSWERED_MAX = 4_096
"""How many tenants are remembered as answered that are not among those whose events came last."""
_KEY_MAX_BYTES = 2_048
"""How much of a key is looked at, and remembered: no tenant's name is longer, and a key may be any."""
_NOBODY = "-"
"""The name that all share who have never been answered, and events whose key does not tell the tenant."""


TenantOutcome: TypeAlias = tuple[str, bool]
"""The name by which an event counts, a tenant's digest or that of all others; and whether it was refused."""


class Window:
    """The last events of one partition that are durable, how many there were, and the last answered tenants.

    `answered` are tenants of which an event was not refused, in the order of their latest such event.
    """

    def __init__(
        self, seen: int = 0, last: Iterable[TenantOutcome] = (), answered: Iterable[str] = ()
    ) -> None:
        self.seen = seen
        self.last: deque[TenantOutcome] = deque(last, _KEPT)
        self.answered: OrderedDict[str, None] = OrderedDict.fromkeys(answered)

    @property
    def names(self) -> dict[str, None]:
        """The answered tenants first, then the names of all events."""
        return dict.fromkeys(chain(self.answered, (tenant for tenant, _ in self.last)))

    def copy(self) -> "Window":
        """Return a window of the same events, to which others may be added."""
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
        """Return the window as it stands in a commit's metadata, at most about 1.3 KB.

        Four parts: the number of events seen; names, those of the answered tenants first; an octet an event,
        twice the number of its tenant's name and 1 where it was refused; the number of answered tenants.
        """
        numbers = {tenant: number for number, tenant in enumerate(self.names)}
        events = "".join([f"{2 * numbers[tenant] + refused:02x}" for tenant, refused in self.last])
        return f"{self.seen};{','.join(numbers)};{events};{len(self.answered)}"


def window_of(text: str) -> Window:
    """Return the window that was committed; an empty one where none was, or none that we know.

    An earlier version had no number of answered tenants, and names of tenants that were only refused.
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
    """How many of the last events were refused, of all tenants and of each.

    Says nothing before it has seen `window` events, nor of one tenant among others that are well. All tenants
    that have never been answered count as one. Where fewer than three tenants are known it waits for ten
    windows: one that fails may be the first that is read.
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
        """The share of the last events that were refused; 0 before any."""
        return self._last.share

    def restore(self, window: Window) -> None:
        """Count what another worker saw of a partition, or this one before it was started; stops nobody."""
        self._seen += max(0, window.seen - len(window.last))
        for name in window.names:
            if name != _NOBODY:
                self._own(name)
        for tenant, refused in window.last:
            if refused:
                self._refuse(tenant)
            else:
                self.answered((tenant,))

    def name_of(self, tenant: str) -> str:
        """Return by which name a refused event of a tenant counts: its own if it has ever been answered."""
        return tenant if tenant in self._tenants or tenant in self._answered else _NOBODY

    def answered(self, tenants: Sequence[str]) -> None:
        """Count events that were not refused, by whose they were, in their order."""
        self._seen += len(tenants)
        self._last.seen += len(tenants)
        for tenant in tenants:
            own = self._own(tenant)
            own.seen += 1
            if own.refusals or self._above:
                self._judge(tenant, own)

    def refused(self, tenant: str) -> None:
        """Count a refused event of a tenant.

        Raises:
            TooManyDeadLettersError: with it most tenants are above the share, and so are all events together.
        """
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
        """Return what is known of a tenant, who is now the last that was seen."""
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
    """How many events there were, and the numbers of those of the last ones that were refused: few are."""

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
    """Return whose an event is, by its key `tenant/session_id`; where the key does not tell, nobody's."""
    if refusal is ErrorCode.WRONG_KEY:
        return _NOBODY
    return _tenant_of_key((record.key or b"")[:_KEY_MAX_BYTES])


@lru_cache(1 << 12)
def _tenant_of_key(key: bytes) -> str:
    tenant, slash, _ = key.partition(b"/")
    return digest_of(tenant) if slash else _NOBODY


@lru_cache(1 << 12)
def digest_of(tenant: bytes) -> str:
    """Return a short digest of a tenant's name."""
    return blake2b(tenant, digest_size=4).hexdigest()
