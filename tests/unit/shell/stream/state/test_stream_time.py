"""Stream time: it advances with events, and only committed time expires rows."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate, ContextArtifact, ContextRequest, ContextRetraction, Event
from apportion.core.wire.record import Record
from apportion.shell.stream.state.stream_time import StreamTime

START = datetime(2026, 3, 1, tzinfo=UTC)
START_US = int(START.timestamp()) * 1_000_000
HOUR_US = 3_600_000_000


def request(hours: float) -> Event:
    return ContextRequest("r", "s", START + timedelta(hours=hours))


def artifact(hours: float) -> Event:
    return ContextArtifact("s", START + timedelta(hours=hours), "source", Candidate(id="a"))


def recorded(hours: float | None = None) -> Record:
    timestamp_ms = -1 if hours is None else START_US // 1000 + int(hours * 3_600_000)
    return Record("requests", 0, 7, timestamp_ms, b"default/s", b"{}")


def refusal(time: StreamTime, event: Event, record: Record) -> tuple[ErrorCode, str]:
    before = time.seen_us
    with pytest.raises(EventError) as refused:
        time.see(event, record)
    assert time.seen_us == before
    return refused.value.code, refused.value.pointer


def test_the_greatest_event_time_counts_of_requests_and_artifacts() -> None:
    time = StreamTime(0)
    for event in (request(2), artifact(3), request(1)):
        time.see(event, recorded())
    assert time.seen_us == START_US + 3 * HOUR_US


def test_a_retraction_has_no_time() -> None:
    time = StreamTime(60)
    time.see(request(5), recorded())
    time.see(ContextRetraction("s", START, "source", id="a"), recorded())
    assert time.seen_us == START_US + 5 * HOUR_US


def test_an_event_may_be_late_up_to_the_bound() -> None:
    time = StreamTime(3_600)
    time.see(request(5), recorded())
    time.see(request(4), recorded())
    assert refusal(time, request(3.999), recorded()) == (ErrorCode.TOO_LATE, "$.requested_at")
    assert refusal(time, artifact(3), recorded()) == (ErrorCode.TOO_LATE, "$.published_at")


def test_without_a_bound_no_event_is_late_and_no_row_is_removed() -> None:
    time = StreamTime(0)
    time.see(request(5000), recorded())
    time.see(request(0), recorded())
    assert not time.is_bounded


def test_an_event_may_be_an_hour_ahead_of_its_record() -> None:
    time = StreamTime(0)
    time.see(request(5), recorded(4))
    assert refusal(time, request(5.001), recorded(4)) == (ErrorCode.IN_FUTURE, "$.requested_at")
    time.see(request(9), recorded(None))


def test_an_event_that_is_both_is_in_the_future() -> None:
    time = StreamTime(1)
    time.see(request(9), recorded())
    assert refusal(time, request(5), replace(recorded(1))) == (ErrorCode.IN_FUTURE, "$.requested_at")


def test_rows_expire_by_committed_time_alone() -> None:
    time = StreamTime(3_600)
    time.see(request(5), recorded())
    assert time.let_go_until_us == 0
    time.committed_us = time.seen_us
    assert time.let_go_until_us == START_US + 4 * HOUR_US
    time.begin(START_US)
    assert time.seen_us == START_US
