"""A dead letter is the record as it came, and always fits into its topic."""

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.core.errors import ErrorCode, EventError
from apportion.core.results import DeadLetterValue
from apportion.core.wire.codec import encode
from apportion.core.wire.dead_letter import (
    COMPLETE_MAX_BYTES,
    HEADERS_MAX_BYTES,
    KEPT_BYTES,
    dead_letter,
    holding,
)
from apportion.core.wire.record import Headers, Record
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES

ERROR = EventError(ErrorCode.WRONG_TYPE, "expected int", "$.budget_tokens")


def letter(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode(dead_letter(record, ERROR, "1.0")))
    return found


def record(value: bytes | None = b"{}", key: bytes | None = b"default/s", headers: Headers = ()) -> Record:
    return Record("context-requests", 3, 41, 1_700_000_000_123, key, value, headers)


def sha256(value: bytes) -> str:
    return f"sha256:{hashlib.sha256(value).hexdigest()}"


def test_a_dead_letter_has_the_error_and_the_source_of_the_record() -> None:
    assert letter(record()) | {"key": None, "value": None} == {
        "type": "context-dead-letter",
        "error": {"code": "wrong_type", "message": "expected int", "pointer": "$.budget_tokens"},
        "source": {
            "topic": "context-requests",
            "partition": 3,
            "offset": 41,
            "timestamp_ms": 1_700_000_000_123,
        },
        "key": None,
        "headers": [],
        "value": None,
        "value_bytes": 2,
        "value_digest": sha256(b"{}"),
        "value_complete": True,
        "engine_version": "1.0",
    }


@given(st.none() | st.binary(max_size=100), st.none() | st.binary(max_size=100))
def test_key_and_value_come_back_byte_by_byte(key: bytes | None, value: bytes | None) -> None:
    found = letter(record(value, key))
    for name, original in (("key", key), ("value", value)):
        text = found[name]
        assert (None if text is None else base64.b64decode(text)) == original


def test_headers_keep_their_order_and_may_repeat_a_name() -> None:
    found = letter(record(headers=(("b", b"1"), ("a", b"\xff"), ("b", None))))
    assert found["headers"] == [["b", "MQ=="], ["a", "/w=="], ["b", ""]]


@pytest.mark.parametrize("size", [COMPLETE_MAX_BYTES, COMPLETE_MAX_BYTES + 1])
def test_a_value_over_1_mib_is_kept_as_digest_size_and_first_256_kib(size: int) -> None:
    value = bytes(range(256)) * (size // 256) + b"." * (size % 256)
    found = letter(record(value))
    complete = size == COMPLETE_MAX_BYTES
    assert found["value_complete"] is complete
    assert base64.b64decode(found["value"]) == (value if complete else value[:KEPT_BYTES])
    assert (found["value_bytes"], found["value_digest"]) == (size, sha256(value))


LARGE = b"." * COMPLETE_MAX_BYTES
EMPTY, ESCAPED = ("", b""), ("\1" * 1000, None)
OVERSIZED = {
    "key": (record(LARGE, b"k" * (3 << 20), (EMPTY,)), ["key"]),
    "headers": (
        record(LARGE, headers=tuple((f"h{number}", b"." * 1000) for number in range(3000))),
        ["headers"],
    ),
    "names": (record(LARGE, headers=(("h" * (2 << 20), b""),)), ["headers"]),
    "empty headers": (record(LARGE, headers=(EMPTY,) * 700_000), ["headers"]),
    "escaped names": (record(LARGE, headers=(ESCAPED,) * 200), ["headers"]),
    "both": (record(LARGE, b"k" * (1 << 20), (EMPTY,) * 700_000), ["key", "headers"]),
}


@pytest.mark.parametrize(("oversized", "left_out"), OVERSIZED.values(), ids=OVERSIZED)
def test_oversized_parts_are_left_out_and_named_in_the_letter(oversized: Record, left_out: list[str]) -> None:
    found = letter(oversized)
    assert (found["key"] is None) == ("key" in left_out)
    assert (found["headers"] == []) == ("headers" in left_out)
    assert [name for name in ("key", "headers") if f"its {name}" in found["error"]["message"]] == left_out
    assert len(json.dumps(found)) < MESSAGE_MAX_BYTES - KEPT_BYTES


def test_the_largest_dead_letter_fits_into_its_topic() -> None:
    headers = (EMPTY,) * (HEADERS_MAX_BYTES // 8)
    largest = record(LARGE, b"k" * KEPT_BYTES, headers[1:])
    assert letter(largest)["key"] is not None
    assert letter(largest)["headers"]
    assert len(encode(dead_letter(largest, ERROR, "1.0"))) < MESSAGE_MAX_BYTES - KEPT_BYTES - (64 << 10)


def test_a_digest_only_letter_has_digest_size_and_key_of_the_event() -> None:
    whole = dead_letter(record(b"private", headers=(("ce_subject", b"private"),)), ERROR, "1.0")
    held = json.loads(encode(holding(whole, DeadLetterValue.DIGEST)))
    assert (held["value"], held["headers"], held["value_complete"]) == (None, [], False)
    assert (held["value_bytes"], held["value_digest"]) == (7, sha256(b"private"))
    assert base64.b64decode(held["key"]) == b"default/s"
    assert base64.b64encode(b"private").decode() not in json.dumps(held)
    assert holding(whole, DeadLetterValue.FULL) is whole


def test_a_record_without_a_value_is_complete() -> None:
    assert holding(dead_letter(record(None), ERROR, "1.0"), DeadLetterValue.DIGEST).value_complete
