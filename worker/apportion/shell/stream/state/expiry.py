"""Index of sessions by the minute of event time in which they expire; the caller adds extended ones again."""

from heapq import heappop, heappush

from apportion.shell.stream.state.row_format import NEVER_US

_WIDTH_US = 60_000_000


class ExpiryIndex:
    """Session keys by the minute of their expiry; sessions that never expire are left out."""

    def __init__(self) -> None:
        self._minutes: dict[int, list[bytes]] = {}
        self._order: list[int] = []

    def add(self, key: bytes, expires_us: int) -> None:
        """Add a session that expires at a time, in microseconds of event time."""
        if expires_us == NEVER_US:
            return
        minute = expires_us // _WIDTH_US
        keys = self._minutes.get(minute)
        if keys is None:
            keys = self._minutes[minute] = []
            heappush(self._order, minute)
        keys.append(key)

    def due(self, until_us: int, most: int) -> list[bytes]:
        """Take out at most `most` sessions of minutes that ended by `until_us`, the earliest minute first."""
        taken: list[bytes] = []
        while self._order and len(taken) < most and (self._order[0] + 1) * _WIDTH_US <= until_us + 1:
            keys = self._minutes[self._order[0]]
            while keys and len(taken) < most:
                taken.append(keys.pop())
            if not keys:
                del self._minutes[heappop(self._order)]
        return taken
