"""What is told of a worker that stops, and when too many events were refused."""

import pytest
from aiokafka.errors import KafkaTimeoutError

from apportion.core.record import Record
from apportion.stream.faults import (
    DeadLetterShare,
    EventFailedError,
    TooManyDeadLettersError,
    WorkerFailedError,
)

RECORD = Record("context-requests", 2, 7, 0, b"key", b"value")


def count_all(share: DeadLetterShare, refused: str) -> int:
    """Count events, `x` refused and `.` answered; return how many before the worker stops."""
    for number, one in enumerate(refused):
        try:
            share.count(refused=one == "x")
        except TooManyDeadLettersError:
            return number + 1
    return 0


@pytest.mark.parametrize(
    ("events", "stops_after"),
    [
        ("xxx", 0),
        ("xxxx", 4),
        ("xx..xx..xx..", 0),
        ("xx..x.x.x.xx", 12),
        ("....xxx", 7),
        ("x...xx.x", 8),
    ],
)
def test_it_stops_when_more_than_the_share_of_a_full_window_was_refused(
    events: str, stops_after: int
) -> None:
    assert count_all(DeadLetterShare(4, 0.5), events) == stops_after


def test_a_share_of_1_never_stops() -> None:
    assert count_all(DeadLetterShare(3, 1.0), "x" * 100) == 0


def test_a_share_of_0_stops_at_the_first_refused_event_of_a_full_window() -> None:
    assert count_all(DeadLetterShare(3, 0.0), "..x") == 3


def test_an_error_of_ours_is_told_by_its_type_and_place_and_never_by_its_text() -> None:
    with pytest.raises(ValueError, match="secret") as caught:
        int("secret")
    told = str(EventFailedError(RECORD, caught.value))
    assert "context-requests partition 2 offset 7" in told
    assert "ValueError at " in told
    assert "test_faults:" in told
    assert "secret" not in told


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (KafkaTimeoutError(), "KafkaTimeoutError"),
        (KafkaTimeoutError("3 s"), "KafkaTimeoutError: 3 s"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_a_lost_delivery_is_told_as_the_brokers(error: Exception, named: str) -> None:
    told = str(EventFailedError(RECORD, error))
    assert f"the broker did not acknowledge ({named})" in told
    assert "report" not in told


def test_a_stream_that_ended_for_no_reason_says_so() -> None:
    assert "no reason was given" in str(WorkerFailedError(None))
