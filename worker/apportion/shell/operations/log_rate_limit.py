"""Rate limit for repeated log lines of libraries, as when a broker is unreachable."""

import logging
import re
import threading
from collections.abc import Callable
from time import monotonic

_EVERY_S = 30.0
_QUIET_S = 5.0
"""Time without a line after which a series has ended; clients that reach no broker retry every second."""
_PATIENCE_S = 3.0
_OURS = "apportion"
_IN_NORMAL_OPERATION = re.compile(
    r"Group Coordinator Request failed"  # the first group of a cluster that still creates its topics
    r"|Marking the coordinator dead"
    r"|Heartbeat failed for group \S+ because it is rebalancing"  # another worker has joined or left
)
_VARYING = re.compile(r"\d+")


class _Kind:
    """The lines of one logger and template, with the number of suppressed ones."""

    def __init__(self, now_s: float) -> None:
        self.since_s = now_s
        self.passed_s = float("-inf")
        self.pending = 0


class RepeatFilter(logging.Filter):
    """Passes our lines, and each kind of library line at most every 30 s with a count; reports a series' end.

    Lines are of one kind if they have the same logger and the same template, ignoring numbers. A kind that
    occurs in normal operation passes only once it has lasted for three seconds.
    """

    def __init__(
        self,
        tell_over: Callable[[int, float], None],
        clock_s: Callable[[], float] = monotonic,
        later: Callable[[float, Callable[[], None]], object] | None = None,
    ) -> None:
        """Call `tell_over` with the lines and seconds of a series that ended, if lines were suppressed.

        `later` calls a function after a number of seconds, by default in a thread.
        """
        super().__init__()
        self._tell_over = tell_over
        self._clock_s = clock_s
        self._later = later or _later
        self._lock = threading.Lock()  # the client has a thread of its own
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._lines = self._suppressed = 0
        self._since_s = self._last_s = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line passes; its field `count` is set to the number of its lines, if over 1."""
        if record.name.partition(".")[0] == _OURS:
            return True
        now_s = self._clock_s()
        with self._lock:
            if not self._lines:
                self._since_s = now_s
                self._later(_QUIET_S, self._look)
            self._lines += 1
            self._last_s = now_s
            return self._passes(record, now_s)

    def _passes(self, record: logging.LogRecord, now_s: float) -> bool:
        template = _VARYING.sub("#", str(record.msg))
        kind = self._kinds.setdefault((record.name, template), _Kind(now_s))
        kind.pending += 1
        is_normal = _IN_NORMAL_OPERATION.match(record.getMessage()) and now_s - kind.since_s < _PATIENCE_S
        if is_normal or now_s - kind.passed_s < _EVERY_S:
            self._suppressed += not is_normal
            return False
        if kind.pending > 1:
            record.fields = {"count": kind.pending}
        kind.passed_s, kind.pending = now_s, 0
        return True

    def _look(self) -> None:
        """Report the end of the series if it has ended, and start again."""
        with self._lock:
            left_s = self._last_s + _QUIET_S - self._clock_s()
            if left_s > 0:
                self._later(left_s, self._look)
                return
            lines, suppressed, lasted_s = self._lines, self._suppressed, self._last_s - self._since_s
            self._lines = self._suppressed = 0
            self._kinds.clear()
        if suppressed:
            self._tell_over(lines, lasted_s)


def _later(after_s: float, function: Callable[[], None]) -> None:
    timer = threading.Timer(after_s, function)
    timer.daemon = True
    timer.start()
