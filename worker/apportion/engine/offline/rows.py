"""Rows of sessions in memory: encoded, except the most recently stored ones with their prepared pools."""

from collections import OrderedDict

import msgspec

from apportion.core.session.row import EMPTY, Session

_IN_USE_MAX = 32
"""Number of rows that stay decoded; a row can have 1 MiB."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Session)


class SessionRows:
    """Rows by session key; an unknown session has the empty row."""

    def __init__(self, rows: dict[str, bytes] | None = None) -> None:
        self._rows = rows or {}
        self._in_use: OrderedDict[str, Session] = OrderedDict()

    def get(self, key: str) -> Session:
        """Return a session's row."""
        if key in self._in_use:
            return self._in_use[key]
        row = self._rows.get(key)
        return EMPTY if row is None else _decoder.decode(row)

    def put(self, key: str, session: Session) -> None:
        """Store a session's next row."""
        self._in_use[key] = session
        self._in_use.move_to_end(key)
        if len(self._in_use) > _IN_USE_MAX:
            oldest, row = self._in_use.popitem(last=False)
            self._rows[oldest] = _encoder.encode(row)
