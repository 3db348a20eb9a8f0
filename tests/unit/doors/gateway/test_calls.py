"""Calls as events: filled-in fields, refusals, and the time to wait for an answer."""

import json
import time
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.composing import NOW
from support.gateways import artifact_body, body

from apportion.core.bounds import Bounds
from apportion.core.errors import EventError
from apportion.core.events import ContextRequest
from apportion.core.wire.codec import decode
from apportion.doors.gateway.calls import (
    artifact_of,
    compose_query,
    new_id,
    request_of,
    retraction_of,
    wait_s,
)
from apportion.doors.gateway.problems import ProblemError

BOUNDS = Bounds()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(), part, max_size=3),
)
FIELDS = st.sampled_from(
    ["type", "request_id", "requested_at", "session_id", "tenant", "candidates", "trigger"]
)


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def requested(value: bytes, key: str | None) -> ContextRequest:
    event = request_of(value, key, BOUNDS).event
    assert isinstance(event, ContextRequest)
    return event


def test_a_complete_body_is_the_event_that_it_would_be_in_the_topic() -> None:
    value = as_json(body(type="context-request", request_id="r", requested_at=NOW))
    submitted = request_of(value, None, BOUNDS)
    assert submitted.event == decode(submitted.value, BOUNDS) == decode(value, BOUNDS)


def test_absent_fields_of_a_call_are_filled_in() -> None:
    event = requested(as_json(body()), None)
    assert UUID(event.request_id).version == 7
    assert abs(event.requested_at.timestamp() - time.time()) < 3600


def test_nulls_and_half_a_surrogate_pair_are_repaired_as_in_the_topic() -> None:
    nulls = as_json(body(request_id=None, requested_at=None, policy=None))
    assert UUID(requested(nulls, None).request_id).version == 7
    cut = as_json(body(query="cut")).replace(b"cut", rb"cut \ud83d")
    assert requested(cut, None).query == "cut \ufffd"


@pytest.mark.parametrize("key", ["k1", '"k1"'])
def test_the_idempotency_key_is_the_request_id(key: str) -> None:
    assert requested(as_json(body()), key).request_id == "k1"
    assert requested(as_json(body(request_id="k1")), key).request_id == "k1"
    with pytest.raises(ProblemError, match="conflicting_key"):
        request_of(as_json(body(request_id="k2")), key, BOUNDS)


@pytest.mark.parametrize("key", ["", "x" * 129])
def test_a_key_that_is_no_request_id_is_refused(key: str) -> None:
    with pytest.raises(EventError) as caught:
        request_of(as_json(body()), key, BOUNDS)
    assert caught.value.pointer == "$.request_id"


def test_a_key_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(ProblemError, match="invalid_text"):
        request_of(as_json(body()), "k\udc80", BOUNDS)
    with pytest.raises(ProblemError, match="invalid_text"):
        retraction_of("k\udc80", {"session_id": "s", "source": "x"}, BOUNDS)


def test_an_event_of_another_type_is_refused() -> None:
    with pytest.raises(EventError, match=r"takes context-request.*\$\.type"):
        request_of(as_json(artifact_body() | {"type": "context-artifact"}), None, BOUNDS)
    request = body(type="context-request", request_id="r", requested_at=NOW)
    with pytest.raises(EventError, match=r"takes context-artifact.*\$\.type"):
        artifact_of(as_json({**request}), BOUNDS)


def test_a_retraction_names_its_session_in_the_query() -> None:
    submitted = retraction_of("a/b", {"session_id": "s", "source": "x", "tenant": "acme"}, BOUNDS)
    assert decode(submitted.value, BOUNDS) == submitted.event
    assert (submitted.event.tenant, submitted.event.session_id) == ("acme", "s")
    with pytest.raises(EventError, match=r"\$\.source"):
        retraction_of("a", {"session_id": "s"}, BOUNDS)
    with pytest.raises(ProblemError, match="invalid_query"):
        retraction_of("a", {"session_id": "s", "source": "x", "path": "p"}, BOUNDS)


@given(
    st.binary(max_size=200) | JSON.map(as_json) | st.dictionaries(FIELDS, JSON).map(as_json),
    st.none() | st.text(),
)
def test_any_body_and_key_is_an_event_or_refused(value: bytes, key: str | None) -> None:
    with suppress(EventError, ProblemError):
        submitted = request_of(value, key, BOUNDS)
        assert decode(submitted.value, BOUNDS) == submitted.event


@pytest.mark.parametrize(
    ("preferences", "seconds"),
    [
        ([], 30.0),
        (["wait=10"], 10.0),
        (['respond-async, Wait="5"'], 5.0),
        (["return=minimal", "wait = 7"], 7.0),
        (["wait=600"], 30.0),
        (["wait=0"], 1.0),
        (["wait=-1", "wait=soon"], 30.0),
    ],
)
def test_a_call_can_ask_for_less_waiting(preferences: list[str], seconds: float) -> None:
    assert wait_s(preferences, 30.0) == seconds


def test_a_setting_below_a_second_is_the_longest_wait() -> None:
    assert wait_s(["wait=5"], 0.2) == 0.2


def test_ids_are_uuids_of_version_7_in_the_order_of_their_times() -> None:
    before_ms = time.time_ns() // 1_000_000
    made = UUID(new_id())
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert before_ms <= made.int >> 80 <= time.time_ns() // 1_000_000
    assert new_id() != new_id()


@pytest.mark.parametrize(
    "query", [{"format": "xml"}, {"format": ""}, {"decision": "yes"}, {"decison": "true"}]
)
def test_an_unknown_query_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(ProblemError, match="invalid_query"):
        compose_query(query)
