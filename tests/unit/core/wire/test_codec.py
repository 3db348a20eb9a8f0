"""Bad input: each gives one error with a code and a place, and never repeats the input."""

import json
from typing import Any

import pytest
from msgspec.structs import asdict as to_dict

from apportion.core.bounds import Bounds
from apportion.core.errors import EventError
from apportion.core.events import ContextRequest, MendedRequest
from apportion.core.wire import codec
from apportion.core.wire.codec import decode, event_of
from apportion.core.wire.record import Record

GOOD: dict[str, Any] = {
    "type": "context-request",
    "request_id": "r",
    "session_id": "s",
    "requested_at": "2026-01-01T00:00:00Z",
}


def refusal(value: bytes | None, bounds: Bounds | None = None) -> tuple[str, str]:
    with pytest.raises(EventError) as caught:
        decode(value, bounds or Bounds())
    assert "secret" not in caught.value.message
    return str(caught.value.code), caught.value.pointer


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "empty_value"),
        (b"", "empty_value"),
        (b"secret", "not_json"),
        (b'{"a": NaN}', "not_json"),
        (b'{"type":"context-request","request_id":"\xed\xa0\x80"}', "not_json"),
        (b"\xff\xfe", "not_json"),
        (b"[" * 100_000, "too_deep"),
        (b"[]", "wrong_type"),
        (b'"secret"', "wrong_type"),
        (b"{}{}", "missing_field"),
        (b" " * (1 << 20) + b"{}", "too_large"),
    ],
)
def test_an_invalid_event_is_refused_as_a_whole(value: bytes | None, code: str) -> None:
    assert refusal(value)[0] == code


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"type": "secret"}, "unknown_type", "$.type"),
        ({"type": 5}, "wrong_type", "$.type"),
        ({"request_id": None}, "wrong_type", "$.request_id"),
        ({"request_id": ""}, "invalid_value", "$.request_id"),
        ({"request_id": "x" * 129}, "invalid_value", "$.request_id"),
        ({"tenant": "a/b"}, "invalid_value", "$.tenant"),
        ({"tenant": "a\n"}, "invalid_value", "$.tenant"),
        ({"requested_at": "2026-01-01T00:00:00"}, "invalid_timestamp", "$.requested_at"),
        ({"requested_at": "secret"}, "invalid_timestamp", "$.requested_at"),
        ({"requested_at": 5}, "wrong_type", "$.requested_at"),
        ({"budget_tokens": -1}, "invalid_value", "$.budget_tokens"),
        ({"budget_tokens": 1.0}, "wrong_type", "$.budget_tokens"),
        ({"budget_tokens": True}, "wrong_type", "$.budget_tokens"),
        ({"surprise": 1}, "unknown_field", "$.surprise"),
        ({"candidates": [{}, {"lane": 5}]}, "wrong_type", "$.candidates[1].lane"),
        ({"candidates": [{"lane": 5}]}, "wrong_type", "$.candidates[0].lane"),
        ({"candidates": [{"relevance": 1.1}]}, "invalid_value", "$.candidates[0].relevance"),
        ({"candidates": [{"relevance": "0.5"}]}, "wrong_type", "$.candidates[0].relevance"),
        ({"candidates": [{"surprise": 1}]}, "unknown_field", "$.candidates[0].surprise"),
        ({"candidates": [{"id": "x" * 257}]}, "too_long", "$.candidates[0].id"),
        ({"candidates": [{"tags": ["x" * 65]}]}, "too_long", "$.candidates[0].tags[0]"),
        ({"candidates": [{"tags": ["x"] * 33}]}, "too_many", "$.candidates[0].tags"),
        ({"candidates": [{}] * 10_001}, "too_many", "$.candidates"),
        ({"vitals": {"pressure": "secret"}}, "invalid_value", "$.vitals.pressure"),
        (
            {"constraints": {"pinned": [{"match": {"type": "id"}}]}},
            "missing_field",
            "$.constraints.pinned[0].match.value",
        ),
        (
            {"constraints": {"pinned": [{"match": {"type": "id", "value": "x"}}] * 1_001}},
            "too_many",
            "$.constraints",
        ),
        (
            {"conversation": {"new_message": "x", "messages": [{}] * 10_001}},
            "too_many",
            "$.conversation.messages",
        ),
        (
            {"conversation": {"new_message": "x", "messages": [{"a": json.loads("[" * 32 + "]" * 32)}]}},
            "too_deep",
            "$",
        ),
    ],
)
def test_each_bad_field_is_refused_with_its_place(changes: dict[str, Any], code: str, pointer: str) -> None:
    assert refusal(json.dumps(GOOD | changes).encode()) == (code, pointer)


MATCH = {"match": {"type": "id", "value": "x" * 256}}
CANDIDATE = {"id": "x" * 256, "name": "x" * 256, "tags": ["x" * 64] * 32, "path": "x" * 4_096}


def nested(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


@pytest.mark.parametrize(
    "changes",
    [
        {"request_id": "x" * 128, "session_id": "x" * 256, "tenant": "x" * 64},
        {"candidates": [{}] * 9_999 + [CANDIDATE]},
        {"constraints": {"must_exclude": [MATCH] * 400, "pinned": [MATCH] * 600}},
        {"conversation": {"new_message": "x", "messages": [{}] * 10_000}},
        {"conversation": {"new_message": "x", "messages": [{"a": nested(28)}]}},
        {"conversation": {"new_message": {"a": nested(29)}}},
    ],
    ids=["names", "candidates", "constraints", "messages", "depth of messages", "depth of the new message"],
)
def test_every_bound_may_be_reached(changes: dict[str, Any]) -> None:
    decode(json.dumps(GOOD | changes).encode(), Bounds())


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"session_id": "x" * 257}, "invalid_value", "$.session_id"),
        ({"tenant": "x" * 65}, "invalid_value", "$.tenant"),
        ({"candidates": [{"name": "x" * 257}]}, "too_long", "$.candidates[0].name"),
        ({"candidates": [{"path": "x" * 4_097}]}, "invalid_value", "$.candidates[0].path"),
        (
            {"constraints": {"must_exclude": [MATCH] * 400, "pinned": [MATCH] * 601}},
            "too_many",
            "$.constraints",
        ),
        (
            {"constraints": {"must_include": [MATCH, {"match": {"type": "id", "value": "x" * 257}}]}},
            "too_long",
            "$.constraints.must_include[1].match.value",
        ),
        (
            {"conversation": {"new_message": "x", "messages": [{}, {"a": nested(29)}]}},
            "too_deep",
            "$",
        ),
        ({"conversation": {"new_message": {"a": nested(30)}}}, "too_deep", "$"),
    ],
)
def test_one_more_than_a_bound_is_refused(changes: dict[str, Any], code: str, pointer: str) -> None:
    assert refusal(json.dumps(GOOD | changes).encode()) == (code, pointer)


@pytest.mark.parametrize("field", ["type", "request_id", "session_id", "requested_at"])
def test_each_missing_field_is_refused_with_its_place(field: str) -> None:
    raw = {key: value for key, value in GOOD.items() if key != field}
    assert refusal(json.dumps(raw).encode()) == ("missing_field", f"$.{field}")


def test_a_number_past_all_doubles_is_refused() -> None:
    value = json.dumps(GOOD | {"candidates": [{"priority": 0}]}).replace('"priority": 0', '"priority": 1e999')
    assert refusal(value.encode()) == ("invalid_value", "$.candidates[0].priority")


@pytest.mark.parametrize("levels", [30, 900, 1_100, 15_000, 200_000])
@pytest.mark.parametrize("rest", ["", "}", ' "broken', ', "conversation": 5}', ', "candidates": [{}, 5]}'])
def test_deep_nesting_is_refused_equally_at_every_depth(levels: int, rest: str) -> None:
    chat = '{"new_message": {"a": ' + "[" * levels + "]" * levels + "}}"
    value = json.dumps(GOOD)[:-1] + f', "conversation": {chat}' + rest
    assert refusal(value.encode()) == ("too_deep", "$")


def test_a_megabyte_of_brackets_is_read_once_for_its_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    def walked(*_: object) -> bool:
        raise AssertionError("its bytes tell")

    monkeypatch.setattr(codec, "is_deeper", walked)
    messages = [{"a": nested(28)}] * 5_000
    decode(json.dumps(GOOD | {"conversation": {"new_message": "x", "messages": messages}}).encode(), Bounds())


@pytest.mark.parametrize("number", [1, 5_000])
def test_one_message_among_many_may_be_too_deep(number: int) -> None:
    messages = [{"a": nested(28)}] * number + [{"a": nested(29)}]
    value = json.dumps(GOOD | {"conversation": {"new_message": "x", "messages": messages}})
    assert refusal(value.encode()) == ("too_deep", "$")


@pytest.mark.parametrize("text", ["[{" * 99, '\\" [[' * 99, "\\\\" * 99 + "[" * 99, "[" * 99 + "\\"])
def test_brackets_within_a_string_are_not_nested(text: str) -> None:
    told = refusal(json.dumps(GOOD | {"tenant": text, "candidates": [[]]}).encode())
    assert told == ("invalid_value", "$.tenant")


def test_a_string_without_end_is_read_once() -> None:
    assert refusal(b'{"a": ' + b'"\\' * 300_000)[0] == "not_json"


def test_bounds_are_settings() -> None:
    assert refusal(json.dumps(GOOD).encode(), Bounds(event_max_bytes=20)) == ("too_large", "$")


def test_a_record_holds_its_event_as_its_value_or_in_an_envelope() -> None:
    structured = (("content-type", b"application/cloudevents+json"),)
    value = Record("t", 0, 0, 0, None, json.dumps(GOOD).encode())
    envelope = Record("t", 0, 1, 0, None, json.dumps({"data": GOOD}).encode(), structured)
    assert event_of(value, Bounds()) == event_of(envelope, Bounds()) == decode(value.value, Bounds())


def test_null_for_an_optional_field_is_absent_at_any_depth() -> None:
    candidate = {"id": "a", "content": "a", "tags": None, "path": None}
    asked = GOOD | {"policy": None, "query": None, "constraints": {"pinned": None}, "candidates": [candidate]}
    absent = GOOD | {"constraints": {}, "candidates": [{"id": "a", "content": "a"}]}
    first, second = (decode(json.dumps(each).encode(), Bounds()) for each in (asked, absent))
    assert codec.encode(first) == codec.encode(second)


def test_null_in_a_message_of_a_provider_stays() -> None:
    message = {"role": "assistant", "content": None, "name": None}
    chat = {"new_message": message, "messages": [message], "system_prompt": None}
    event = decode(json.dumps(GOOD | {"policy": None, "conversation": chat}).encode(), Bounds())
    assert isinstance(event, ContextRequest)
    assert event.conversation
    assert (event.conversation.new_message, *event.conversation.messages) == (message, message)


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"request_id": None}, "wrong_type", "$.request_id"),
        ({"unknown": None, "policy": None}, "unknown_field", "$.unknown"),
        ({"candidates": [None], "policy": None}, "wrong_type", "$.candidates[0]"),
        ({"vitals": {"oxygen": 2}, "policy": None}, "invalid_value", "$.vitals.oxygen"),
    ],
)
def test_other_nulls_and_other_faults_stay_errors(changes: dict[str, Any], code: str, pointer: str) -> None:
    assert refusal(json.dumps(GOOD | changes).encode()) == (code, pointer)


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (r"cut \ud83d", "cut \ufffd"),
        (r"\ud83d\ud83d\ude80", "\ufffd\U0001f680"),
        (r"\uDE80 \ud83d\n", "\ufffd \ufffd\n"),
        (r"\\ud83d \ud83d", "\\ud83d \ufffd"),
    ],
)
def test_half_a_surrogate_pair_is_replaced(escaped: str, text: str) -> None:
    value = json.dumps(GOOD | {"query": "?"}).replace("?", escaped).encode()
    event = decode(value, Bounds())
    assert isinstance(event, MendedRequest)
    assert event.query == text
    assert decode(codec.encode(event), Bounds()) == ContextRequest(**to_dict(event))


def test_a_whole_pair_needs_no_repair() -> None:
    event = decode(json.dumps(GOOD | {"query": "\U0001f680"}).encode(), Bounds())
    assert type(event) is ContextRequest


@pytest.mark.parametrize("frame", [b"\0\0\0\0\7", b"\1" + bytes(range(16))])
def test_the_frame_of_a_schema_registry_is_named(frame: bytes) -> None:
    with pytest.raises(EventError, match=r"schema registry's frame .*send plain JSON") as caught:
        decode(frame + json.dumps(GOOD).encode(), Bounds())
    assert caught.value.code == "not_json"


@pytest.mark.parametrize("schema_id", [7, 0x7B, 0x7B7B, 0x7B00, 100_023, 2**24])
def test_the_frame_of_a_schema_registry_is_named_before_avro_and_protobuf(schema_id: int) -> None:
    with pytest.raises(EventError, match=r"schema registry's frame .*send plain JSON"):
        decode(b"\0" + schema_id.to_bytes(4) + b"\x0eacme/s1\x02", Bounds())


@pytest.mark.parametrize("time", [1_767_225_600, None, [], "yesterday", "2026-01-01T00:00:00"])
def test_a_wrong_timestamp_is_refused_with_the_form(time: Any) -> None:
    with pytest.raises(EventError, match="as 2026-01-31T12:00:00Z") as caught:
        decode(json.dumps(GOOD | {"requested_at": time}).encode(), Bounds())
    assert caught.value.pointer == "$.requested_at"
