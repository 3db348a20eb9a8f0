"""Moments of events in microseconds since 1970, and back."""

from datetime import UTC, datetime, timedelta

from apportion.core.lru import process_wide

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US
_MOMENTS_MAX = 1 << 10
"""An answer has a few distinct moments, and repeats each of them."""


def event_time_us(moment: datetime) -> int:
    """Return microseconds since 1970 in UTC, even if the moment in UTC is outside the years 1 to 9999."""
    since = moment - EPOCH
    return since.days * _DAY_US + since.seconds * _SECOND_US + since.microseconds


@process_wide(_MOMENTS_MAX)
def utc(moment_us: int) -> datetime:
    """Return a moment in UTC; before the year 1 or after 9999, the nearest moment that can be written."""
    try:
        return EPOCH + timedelta(microseconds=moment_us)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if moment_us > 0 else datetime.min.replace(tzinfo=UTC)
