"""Rows that are in use, decoded, with their artifacts prepared.

Decides which of them stay so: those that were used last, up to about so many bytes. All that is here can be
decoded again.
"""

from collections import OrderedDict

from msgspec import Struct

from apportion.core.session.pool import Pooled
from apportion.core.session.row import Session
from apportion.stream.state.row_format import Row

_MAX_BYTES = 8 << 20
"""Of one partition; an estimate."""


class _InUse(Struct, frozen=True):
    """A row, and about what it and its pool take in memory."""

    row: Row
    row_bytes: int
    pool_bytes: int


class RowsInUse:
    """The decoded rows of a partition by session key."""

    def __init__(self) -> None:
        """Start empty."""
        self._rows: OrderedDict[bytes, _InUse] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: bytes) -> Row | None:
        """Return a row that is here; who has used it says so by putting what has become of it."""
        held = self._rows.get(key)
        return None if held is None else held.row

    def put(self, key: bytes, row: Row) -> None:
        """Have a row here, and let those go that were not used for longest."""
        before, session = self._rows.pop(key, None), row.session
        if before is not None:
            self._bytes -= before.row_bytes + before.pool_bytes
        if before is not None and before.row.session.pool is session.pool:
            pool_bytes = before.pool_bytes
        else:
            pool_bytes = _pool_bytes(session.pool)
        row_bytes = _row_bytes(session)
        self._rows[key] = _InUse(row, row_bytes, pool_bytes)
        self._bytes += row_bytes + pool_bytes
        while self._bytes > _MAX_BYTES and len(self._rows) > 1:
            self.forget(next(iter(self._rows)))

    def forget(self, key: bytes) -> None:
        """Have a row here no more."""
        held = self._rows.pop(key, None)
        if held is not None:
            self._bytes -= held.row_bytes + held.pool_bytes


def _row_bytes(session: Session) -> int:
    """Return about what a decoded row takes in memory, without its pool: objects, more than content."""
    carried_bytes = sum([len(one.value) for one in session.carried]) if session.carried else 0
    ids = len(session.injections) + len(session.evicted)
    return 1_000 + 350 * len(session.recent) + 150 * ids + carried_bytes


def _pool_bytes(pool: tuple[Pooled, ...]) -> int:
    """Return about what the artifacts of a pool take in memory, prepared."""
    return sum([one.row_bytes for one in pool]) + 1_500 * len(pool)
