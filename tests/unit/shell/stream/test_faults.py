"""The message of a worker that stops."""

import pytest
from aiokafka.errors import KafkaTimeoutError

from apportion.core.wire.record import Record
from apportion.shell.stream.faults import EventFailedError, WorkerFailedError

RECORD = Record("context-requests", 2, 7, 0, b"key", b"value")


def test_our_errors_are_reported_by_type_and_place_never_by_text() -> None:
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
def test_a_lost_delivery_is_reported_as_the_brokers_failure(error: Exception, named: str) -> None:
    told = str(EventFailedError(RECORD, error))
    assert f"the broker did not acknowledge ({named})" in told
    assert "report" not in told


def test_a_stream_that_ended_without_an_error_is_reported() -> None:
    assert "no reason was given" in str(WorkerFailedError(None))
