"""The rows of sessions, held as bytes, but for those of the sessions that were met last.

So that a stream of any length takes no more memory than its sessions do, and what is prepared of a pool's
artifacts is there for the next request.
"""

from collections import OrderedDict

import msgspec

from apportion.core.session.row import EMPTY, Session

_IN_USE_MAX = 32
"""Sessions that are held decoded; each may have a row of 1 MiB."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Session)


class SessionRows:
    """Rows by session key; of a session that is not there, the empty one."""

    def __init__(self, rows: dict[str, bytes] | None = None) -> None:
        """Start without any, or with these, in JSON."""
        self._rows = rows or {}
        self._in_use: OrderedDict[str, Session] = OrderedDict()

    def get(self, key: str) -> Session:
        """Return a session's row."""
        session = self._in_use.get(key)
        if session is not None:
            return session
        row = self._rows.get(key)
        return EMPTY if row is None else _decoder.decode(row)

    def put(self, key: str, session: Session) -> None:
        """Hold a session's next row."""
        self._in_use[key] = session
        self._in_use.move_to_end(key)
        if len(self._in_use) > _IN_USE_MAX:
            oldest, row = self._in_use.popitem(last=False)
            self._rows[oldest] = _encoder.encode(row)
