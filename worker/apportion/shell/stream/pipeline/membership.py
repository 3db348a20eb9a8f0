"""The membership of this worker in its group, as far as the worker can know it by itself.

An acknowledged heartbeat is good for one session timeout, counted from when it was sent: the group cannot
have given the partitions to others before. A worker that was stopped for longer wakes without the
membership, before the group has answered it. Never talks to the group.
"""

import asyncio
import time
from collections.abc import Callable

_LOOK_S = 0.05


def boot_time_s() -> float:
    """Return the seconds since the machine was started, with those during which it was suspended.

    `time.monotonic` leaves these out on Linux: a machine that wakes would take an old heartbeat for a new
    one. It is used where the platform has no such clock.
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
        """Count a heartbeat, or a joining, that was sent at this moment, and acknowledged since."""
        self._sent_s = max(self._sent_s, sent_s)

    @property
    def age_s(self) -> float:
        """The seconds since the last acknowledged heartbeat was sent; infinite before the first one."""
        return self.clock_s() - self._sent_s

    @property
    def is_held(self) -> bool:
        """Whether the group cannot have given our partitions away yet."""
        return self.age_s < self._session_timeout_s

    async def held(self) -> None:
        """Return when the membership is held; who waits is cancelled when the partitions are taken away."""
        while not self.is_held:  # noqa: ASYNC110 - time passes without an event
            await asyncio.sleep(_LOOK_S)
