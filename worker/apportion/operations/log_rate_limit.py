"""The lines of libraries that come again and again, as when a broker is away: told now and then, and counted.

Decides which of them pass, and when it is over. Never holds back a line of ours, nor the first of its kind,
unless it is of those that come in healthy times, too.
"""

import logging
import re
import threading
from collections.abc import Callable
from time import monotonic

_EVERY_S = 30.0
_QUIET_S = 5.0
"""After so long without another line it is over: clients that cannot reach a broker try again each second."""
_PATIENCE_S = 3.0
_OURS = "apportion"
_IN_HEALTHY_TIMES = re.compile(
    r"Group Coordinator Request failed"  # the first group of a cluster, while that makes its own topics
    r"|Marking the coordinator dead"
    r"|Heartbeat failed for group \S+ because it is rebalancing"  # another worker has come or gone
)
_VARYING = re.compile(r"\d+")


class _Kind:
    """The lines of one logger and template; those not told are counted."""

    __slots__ = ("since_s", "told_s", "untold")

    def __init__(self, now_s: float) -> None:
        self.since_s = now_s
        self.told_s = float("-inf")
        self.untold = 0


class RepeatFilter(logging.Filter):
    """Passes a line of a library at most every 30 s, with how many there were since; tells when they end.

    Lines are of one kind if they have the same logger and template, numbers aside. Those that come in healthy
    times, too, pass only when they have come for three seconds.
    """

    def __init__(
        self,
        tell_over: Callable[[int, float], None],
        clock_s: Callable[[], float] = monotonic,
        later: Callable[[float, Callable[[], None]], object] | None = None,
    ) -> None:
        """`tell_over` is given the number of lines and for how many seconds they came; not of single ones."""
        super().__init__()
        self._tell_over = tell_over
        self._clock_s = clock_s
        self._later = later or _later
        self._lock = threading.Lock()  # the client has a thread of its own
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._lines = self._untold = 0
        self._since_s = self._last_s = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is told; its field `count` says for how many it stands, if for several."""
        if record.name.partition(".")[0] == _OURS:
            return True
        now_s = self._clock_s()
        with self._lock:
            self._count(now_s)
            return self._passes(record, now_s)

    def _count(self, now_s: float) -> None:
        if not self._lines:
            self._since_s = now_s
            self._later(_QUIET_S, self._look)
        self._lines += 1
        self._last_s = now_s

    def _passes(self, record: logging.LogRecord, now_s: float) -> bool:
        template = _VARYING.sub("#", str(record.msg))
        kind = self._kinds.setdefault((record.name, template), _Kind(now_s))
        kind.untold += 1
        waits = _IN_HEALTHY_TIMES.match(record.getMessage()) and now_s - kind.since_s < _PATIENCE_S
        if waits or now_s - kind.told_s < _EVERY_S:
            self._untold += not waits
            return False
        if kind.untold > 1:
            record.fields = {"count": kind.untold}
        kind.told_s, kind.untold = now_s, 0
        return True

    def _look(self) -> None:
        """Tell that it is over if it is, and begin anew."""
        with self._lock:
            left_s = self._last_s + _QUIET_S - self._clock_s()
            if left_s > 0:
                self._later(left_s, self._look)
                return
            lines, untold, lasted_s = self._lines, self._untold, self._last_s - self._since_s
            self._lines = self._untold = 0
            self._kinds.clear()
        if untold:
            self._tell_over(lines, lasted_s)


def _later(after_s: float, do: Callable[[], None]) -> None:
    timer = threading.Timer(after_s, do)
    timer.daemon = True
    timer.start()
