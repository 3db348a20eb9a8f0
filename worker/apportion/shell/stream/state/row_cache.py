"""Cache of decoded rows of one partition, with their prepared artifacts."""

from collections import OrderedDict

from apportion.core.session.row import Session
from apportion.shell.stream.state.row_format import Row

_MAX_BYTES = 8 << 20
"""Limit of the estimated size of one partition's cache; one row may exceed it."""


class RowsInUse:
    """The decoded rows of a partition by session key."""

    def __init__(self) -> None:
        self._rows: OrderedDict[bytes, tuple[Row, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: bytes) -> Row | None:
        """Return a cached row, or None. A look-up does not count as use; only `put` does."""
        row, _ = self._rows.get(key, (None, 0))
        return row

    def put(self, key: bytes, row: Row) -> None:
        """Store a row, and evict the least recently used rows if the cache is too large."""
        self.forget(key)
        size_bytes = _size_bytes(row.session)
        self._rows[key] = row, size_bytes
        self._bytes += size_bytes
        while self._bytes > _MAX_BYTES and len(self._rows) > 1:
            self.forget(next(iter(self._rows)))

    def forget(self, key: bytes) -> None:
        """Drop a row."""
        _, size_bytes = self._rows.pop(key, (None, 0))
        self._bytes -= size_bytes


def _size_bytes(session: Session) -> int:
    """Return the estimated memory of a decoded row."""
    carried_bytes = sum([len(carried.value) for carried in session.carried]) if session.carried else 0
    pool_bytes = sum([1_500 + artifact.row_bytes for artifact in session.pool])
    ids = len(session.injections) + len(session.evicted)
    return 1_000 + 350 * len(session.recent) + 150 * ids + carried_bytes + pool_bytes
