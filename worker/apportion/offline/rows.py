"""The rows of sessions, held as the bytes that a worker keeps in its changelog.

So that a stream of any length takes no more memory than its sessions do.
"""

import msgspec

from apportion.core.session import EMPTY, Session

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Session)


class Rows:
    """Rows by session key; of a session that is not there, the empty one."""

    def __init__(self) -> None:
        """Start without any."""
        self._rows: dict[str, bytes] = {}

    def get(self, key: str) -> Session:
        """Return a session's row."""
        row = self._rows.get(key)
        return EMPTY if row is None else _decoder.decode(row)

    def put(self, key: str, session: Session) -> None:
        """Hold a session's next row."""
        self._rows[key] = _encoder.encode(session)
