"""Group membership, judged by the worker's own clock without a request to the group.

An acknowledged heartbeat proves membership for one session timeout after it was sent: the group cannot
reassign the partitions earlier. A process that was paused for longer knows at once that this time is over.
"""

import asyncio
import time
from collections.abc import Callable

_LOOK_S = 0.05


def boot_time_s() -> float:
    """Return the seconds since boot, including suspended time if the platform counts it.

    `time.monotonic` excludes suspended time on Linux, so an old heartbeat would seem recent after a wake-up.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Membership:
    """Held until a session timeout has passed since the last acknowledged heartbeat was sent."""

    def __init__(self, session_timeout_s: float, clock_s: Callable[[], float] = boot_time_s) -> None:
        self.clock_s = clock_s
        self._session_timeout_s = session_timeout_s
        self._sent_s = float("-inf")

    def confirm(self, sent_s: float) -> None:
        """Record an acknowledged heartbeat or join request, by the time at which it was sent."""
        self._sent_s = max(self._sent_s, sent_s)

    @property
    def age_s(self) -> float:
        """Seconds since the last acknowledged heartbeat was sent; infinite before the first."""
        return self.clock_s() - self._sent_s

    @property
    def is_held(self) -> bool:
        """Whether the group cannot have reassigned our partitions yet."""
        return self.age_s < self._session_timeout_s

    async def held(self) -> None:
        """Wait until the membership is held. The caller is cancelled if its partitions are revoked."""
        while not self.is_held:  # noqa: ASYNC110 - time passes without an event
            await asyncio.sleep(_LOOK_S)
