"""Stream time of a partition: the greatest event time so far, which decides lateness and expiry.

Every well-formed request and artifact on its partition counts, unless it is too late or too far ahead. So an
event that a row has already processed counts without being composed. Rows expire by the committed stream
time, because only that time is known after a crash.
"""

from apportion.core.bounds import Bounds
from apportion.core.errors import ErrorCode, EventError
from apportion.core.event_time import event_time_us
from apportion.core.events import ContextRequest, ContextRetraction, Event
from apportion.core.wire import codec
from apportion.core.wire.record import Record
from apportion.settings.value_types import Partitioner
from apportion.shell.kafka.partitioning import check_place

_AHEAD_MAX_S = 60 * 60
_MICROSECONDS = 1_000_000
_AHEAD_MAX_US = _AHEAD_MAX_S * _MICROSECONDS


class StreamTime:
    """The stream time of one partition, in microseconds since 1970; 0 before any event."""

    def __init__(self, max_lateness_s: int) -> None:
        """Start at 0. With `max_lateness_s` 0, no event is too late and no row expires."""
        self._max_lateness_us = max_lateness_s * _MICROSECONDS
        self.is_bounded = max_lateness_s > 0
        """Whether events can be too late, and rows expire."""
        self.seen_us = 0
        """The stream time up to the last composed event."""
        self.committed_us = 0
        """The stream time up to the committed offset."""

    @property
    def let_go_until_us(self) -> int:
        """Rows that expired by this event time can be removed; 0 before any commit."""
        return max(0, self.committed_us - self._max_lateness_us)

    def begin(self, committed_us: int) -> None:
        """Continue from the committed stream time."""
        self.seen_us = self.committed_us = committed_us

    def see(self, event: Event, record: Record) -> None:
        """Advance to the time of a request or artifact; raise EventError if it is too far ahead or behind."""
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


def event_of(
    record: Record, time: StreamTime | None, bounds: Bounds, *, partitioner: Partitioner, partitions: int
) -> Event:
    """Return the event of a record, and advance the stream time to it; raise EventError."""
    event = codec.event_of(record, bounds)
    check_place(event, record, partitioner, partitions)
    if time is not None:
        time.see(event, record)
    return event
