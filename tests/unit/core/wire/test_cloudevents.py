"""CloudEvents 1.0: both modes are read, binary mode is written."""

import json
from typing import Any

import pytest

from apportion.core.bounds import Bounds
from apportion.core.errors import ErrorCode, EventError
from apportion.core.wire.cloudevents import EventHeaders, event_value
from apportion.core.wire.record import Headers, Record

STRUCTURED: Headers = (("content-type", b"application/cloudevents+json"),)
EVENT = {"type": "context-request", "request_id": "ü"}


def value_of(
    value: bytes | None, headers: Headers = STRUCTURED, bounds: Bounds | None = None
) -> bytes | None:
    return event_value(Record("t", 0, 0, 0, None, value, headers), bounds or Bounds())


def envelope(**attributes: Any) -> bytes:
    return json.dumps({"specversion": "1.0", "id": "1", "source": "s", "type": "t"} | attributes).encode()


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("content-type", b"application/json"),),
        (("content-type", None),),
        (("ce_type", b"application/cloudevents+json"),),
    ],
)
def test_in_binary_mode_the_value_is_the_event(headers: Headers) -> None:
    assert value_of(envelope(data=EVENT), headers) == envelope(data=EVENT)


@pytest.mark.parametrize(
    "headers",
    [STRUCTURED, (("Content-Type", b" Application/CloudEvents+JSON ; charset=UTF-8"),)],
)
def test_in_structured_mode_the_data_is_the_event(headers: Headers) -> None:
    found = value_of(envelope(data=EVENT, traceparent="00-…"), headers)
    assert json.loads(found or b"") == EVENT


def test_data_may_be_base64() -> None:
    assert value_of(envelope(data_base64="e30=")) == b"{}"


def test_a_record_without_a_value_stays_one() -> None:
    assert value_of(None) is None
    assert value_of(b"") == b""


@pytest.mark.parametrize(
    ("value", "code", "pointer"),
    [
        (b"{", "not_json", "$"),
        (b"[]", "not_json", "$"),
        (b"\xff", "not_json", "$"),
        (envelope(), "missing_field", "$.data"),
        (envelope(data=" " * 200), "too_large", "$"),
    ],
)
def test_an_envelope_without_an_event_is_refused(value: bytes, code: str, pointer: str) -> None:
    with pytest.raises(EventError) as caught:
        value_of(value, bounds=Bounds(event_max_bytes=200))
    assert (caught.value.code, caught.value.pointer) == (code, pointer)


def test_outgoing_events_have_the_attributes_as_headers() -> None:
    assert EventHeaders("context-composed.v1", "apportion/a").build("1", (), "2026-01-01T00:00:00Z") == (
        ("content-type", b"application/json"),
        ("ce_specversion", b"1.0"),
        ("ce_id", b"1"),
        ("ce_source", b"apportion/a"),
        ("ce_type", b"context-composed.v1"),
        ("ce_time", b"2026-01-01T00:00:00Z"),
    )


def test_the_trace_and_the_caller_are_passed_on_and_no_other_header() -> None:
    trace: Headers = (("TraceParent", b"00-1"), ("tracestate", b"a=b"))
    received: Headers = (*trace, ("Apportion-Caller", b"c/1"), ("ce_id", b"9"), ("x", b"y"))
    assert EventHeaders("t", "s").build("1", received)[5:] == (
        ("traceparent", b"00-1"),
        ("tracestate", b"a=b"),
        ("apportion-caller", b"c/1"),
    )


def test_listed_headers_are_copied_in_the_listed_spelling_up_to_256_bytes() -> None:
    received: Headers = (("KAFKA_correlationId", b"\0\xff"), ("long", b"x" * 257), ("other", b"y"))
    headers = EventHeaders("t", "s", reply_headers=("kafka_correlationId", "long")).build("1", received)
    assert headers[5:] == (("kafka_correlationId", b"\0\xff"),)


def test_a_trace_may_be_as_long_as_everybody_must_take() -> None:
    received: Headers = (("traceparent", b"0" * 256), ("tracestate", b"a" * 512))
    assert EventHeaders("t", "s").build("1", received)[5:] == received


def test_a_trace_that_is_longer_than_anybody_must_take_is_dropped() -> None:
    received: Headers = (("traceparent", b"0" * 257), ("tracestate", b"a" * 513))
    assert len(EventHeaders("t", "s").build("1", received)) == 5


@pytest.mark.parametrize("headers", [(), STRUCTURED], ids=["binary", "structured"])
def test_a_record_that_the_client_could_not_read_is_refused_with_the_reason(headers: Headers) -> None:
    record = Record("t", 0, 0, 0, b"k", envelope(data=EVENT), headers, "its batch is damaged")
    with pytest.raises(EventError, match="its batch is damaged; send its events again") as refused:
        event_value(record, Bounds())
    assert refused.value.code is ErrorCode.UNREADABLE_RECORD
