"""Which sessions may have expired, without looking at all of them.

Decides who is looked at, never who goes. A session stands in the minute in which it would expire when it was
put here; it may live on since, and is then put into a later one.
"""

from heapq import heappop, heappush

from apportion.stream.state.row_format import NEVER_US

_WIDTH_US = 60_000_000


class ExpiryIndex:
    """Keys of sessions by the minute of their expiry; none of those that never expire."""

    def __init__(self) -> None:
        """Start empty."""
        self._minutes: dict[int, list[bytes]] = {}
        self._order: list[int] = []

    def add(self, key: bytes, expires_us: int) -> None:
        """Look at a session when that time is over."""
        if expires_us == NEVER_US:
            return
        minute = expires_us // _WIDTH_US
        keys = self._minutes.get(minute)
        if keys is None:
            keys = self._minutes[minute] = []
            heappush(self._order, minute)
        keys.append(key)

    def due(self, until_us: int, most: int) -> list[bytes]:
        """Take out the sessions of minutes that were over by then, the earliest first, up to so many."""
        taken: list[bytes] = []
        while self._order and len(taken) < most and (self._order[0] + 1) * _WIDTH_US <= until_us + 1:
            keys = self._minutes[self._order[0]]
            while keys and len(taken) < most:
                taken.append(keys.pop())
            if not keys:
                del self._minutes[heappop(self._order)]
        return taken
