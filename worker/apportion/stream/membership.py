"""Whether this worker is still a member of its group, as far as it can know by itself.

Decides how long an acknowledged heartbeat is good for: as long as the group waits for the next one, counted
from when it was sent. A worker that was stopped for longer wakes without it, before anybody has told it that
others have its partitions. Never talks to the group.
"""

import asyncio
from collections.abc import Callable
from time import monotonic

_LOOK_S = 0.05


class Membership:
    """Held until a session has passed since the last heartbeat that was acknowledged."""

    def __init__(self, session_timeout_s: float, clock_s: Callable[[], float] = monotonic) -> None:
        """Start as no member."""
        self.clock_s = clock_s
        self._session_timeout_s = session_timeout_s
        self._until_s = float("-inf")

    def confirm(self, sent_s: float) -> None:
        """Count a heartbeat, or a joining, that was sent at this moment, and acknowledged since."""
        self._until_s = max(self._until_s, sent_s + self._session_timeout_s)

    @property
    def is_held(self) -> bool:
        """Whether the group cannot have given our partitions away yet."""
        return self.clock_s() < self._until_s

    async def held(self) -> None:
        """Return when the membership is held; who waits is cancelled when the partitions are taken away."""
        while not self.is_held:  # noqa: ASYNC110 - time passes without an event
            await asyncio.sleep(_LOOK_S)
