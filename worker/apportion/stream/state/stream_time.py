"""A partition's stream time: the greatest event time so far, by which events are late and sessions let go.

Decides which events come too late, and which lie in the future. Every event counts that is well-formed, at
its place and in time, whatever a policy says of it: an event that is passed over, for its row has seen it, is
not composed again to find out. Only what is committed lets rows go, for only that is known after a crash.
"""

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import ContextRequest, ContextRetraction, Event
from apportion.core.identity import event_time_us
from apportion.core.wire.record import Record

_AHEAD_MAX_S = 60 * 60
_MICROSECONDS = 1_000_000
_AHEAD_MAX_US = _AHEAD_MAX_S * _MICROSECONDS


class StreamTime:
    """The stream time of one partition, in microseconds since 1970; 0 before any event."""

    def __init__(self, max_lateness_s: int) -> None:
        """Start before any event; with 0 no event is too late, and no row goes."""
        self._max_lateness_us = max_lateness_s * _MICROSECONDS
        self.is_bounded = max_lateness_s > 0
        """Whether there are events that come too late."""
        self.seen_us = 0
        """Up to the last event that was composed."""
        self.committed_us = 0
        """Up to the committed offset."""

    @property
    def let_go_until_us(self) -> int:
        """Rows that expired until then are met by no event any more; nothing counts before any commit."""
        return max(0, self.committed_us - self._max_lateness_us)

    def begin(self, committed_us: int) -> None:
        """Go on from what is committed."""
        self.seen_us = self.committed_us = committed_us

    def see(self, event: Event, record: Record) -> None:
        """Move on by an event, unless it is refused; a retraction does not move time.

        Raises:
            EventError: it is further ahead of its record's time, or further behind stream time, than may be.
        """
        if isinstance(event, ContextRequest):
            event_us, pointer = event_time_us(event.requested_at), "$.requested_at"
        elif isinstance(event, ContextRetraction):
            return
        else:
            event_us, pointer = event_time_us(event.published_at), "$.published_at"
        timestamp_ms = record.timestamp_ms
        if timestamp_ms >= 0 and event_us - timestamp_ms * 1_000 > _AHEAD_MAX_US:
            message = f"more than {_AHEAD_MAX_S} s ahead of when it was recorded; set the client's clock"
            raise EventError(ErrorCode.IN_FUTURE, message, pointer)
        if self._max_lateness_us and event_us < self.seen_us - self._max_lateness_us:
            most_s = self._max_lateness_us // _MICROSECONDS
            message = f"more than {most_s} s behind the latest event of its partition (max_lateness_s)"
            raise EventError(ErrorCode.TOO_LATE, message, pointer)
        self.seen_us = max(self.seen_us, event_us)
