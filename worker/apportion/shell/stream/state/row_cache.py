"""Cache of decoded rows of one partition, with their prepared artifacts.

It keeps the rows that were stored last, up to about 8 MiB. Evicted rows can be decoded again.
"""

from collections import OrderedDict

from msgspec import Struct

from apportion.core.session.pool import Pooled
from apportion.core.session.row import Session
from apportion.shell.stream.state.row_format import Row

_MAX_BYTES = 8 << 20
"""Limit of the estimated size of one partition's cache; one row may exceed it."""


class _InUse(Struct, frozen=True):
    row: Row
    row_bytes: int
    pool_bytes: int


class RowsInUse:
    """The decoded rows of a partition by session key."""

    def __init__(self) -> None:
        self._rows: OrderedDict[bytes, _InUse] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: bytes) -> Row | None:
        """Return a cached row, or None. A look-up does not count as use; only `put` does."""
        entry = self._rows.get(key)
        return None if entry is None else entry.row

    def put(self, key: bytes, row: Row) -> None:
        """Store a row, and evict the least recently stored rows if the cache is too large."""
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
        """Drop a row."""
        entry = self._rows.pop(key, None)
        if entry is not None:
            self._bytes -= entry.row_bytes + entry.pool_bytes


def _row_bytes(session: Session) -> int:
    """Return the estimated memory of a decoded row without its pool; objects take more than their content."""
    carried_bytes = sum([len(carried.value) for carried in session.carried]) if session.carried else 0
    ids = len(session.injections) + len(session.evicted)
    return 1_000 + 350 * len(session.recent) + 150 * ids + carried_bytes


def _pool_bytes(pool: tuple[Pooled, ...]) -> int:
    return sum([artifact.row_bytes for artifact in pool]) + 1_500 * len(pool)
