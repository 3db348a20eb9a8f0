"""Calls as events.

Fields that a call may leave out are filled in. The core decodes and checks the event.
"""

import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from time import time_ns
from uuid import UUID

import msgspec
from aiohttp import web
from msgspec import Raw, json

from apportion.core.bounds import Bounds
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import ContextRequest, Event
from apportion.core.wire.codec import decode
from apportion.core.wire.repair import decode_whole
from apportion.doors.formats import BODIES
from apportion.doors.gateway.backend import SubmittedEvent, TraceHeaders
from apportion.doors.gateway.problems import ProblemError

_REQUEST, _ARTIFACT, _RETRACTION = "context-request", "context-artifact", "context-retraction"
_fields = json.Decoder(dict[str, Raw])
_WAIT = re.compile(r'wait\s*=\s*"?(\d{1,6})"?', re.ASCII | re.IGNORECASE)
_RETRACTED_BY = ("session_id", "source", "tenant")
_TRUTH = {"true": True, "false": False}
_WAIT_MIN_S = 1.0
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_STATE_MAX_BYTES = 512
"""The size that every receiver must pass on. A longer `tracestate` is left out, as by the worker."""


def compose_query(query: Mapping[str, str]) -> tuple[str, bool]:
    """Return the query of a call that composes: a name of `BODIES` or empty, and whether to add the decision.

    Raises:
        ProblemError: a parameter or its value is unknown.
    """
    _require_known(query, ("format", "decision"))
    form, decision = query.get("format", ""), query.get("decision", "false")
    if "format" in query and form not in BODIES:
        raise _invalid_query(f"format is one of {', '.join(BODIES)}")
    if decision not in _TRUTH:
        raise _invalid_query(f"decision is one of {', '.join(_TRUTH)}")
    return form, _TRUTH[decision]


def request_of(body: bytes, key: str | None, bounds: Bounds, trace: TraceHeaders = ()) -> SubmittedEvent:
    """Return the request of a call; `key` is its `Idempotency-Key`.

    Raises:
        EventError: the body is no request, or exceeds a bound.
        ProblemError: the key differs from the body's `request_id`, or is not UTF-8.
    """
    named = idempotency_key(key)
    given = {"type": _REQUEST, "request_id": new_id() if named is None else named, "requested_at": _now()}
    event, value = _decoded(body, given, bounds)
    assert isinstance(event, ContextRequest), "its type was checked"
    require_key(named, event.request_id, "$.request_id")
    return SubmittedEvent(event, value, trace)


def idempotency_key(header: str | None) -> str | None:
    """Return the value of `Idempotency-Key`, which may be quoted.

    Raises:
        ProblemError: it is not UTF-8.
    """
    key = None if header is None else header.removeprefix('"').removesuffix('"')
    _encoded({} if key is None else {"key": key})
    return key


def require_key(key: str | None, request_id: str, pointer: str) -> None:
    """Raise ProblemError if a key differs from the call's own request id, which is at `pointer`."""
    if key is not None and request_id != key:
        message = "Idempotency-Key is the request_id; leave one of them out"
        raise ProblemError(HTTPStatus.BAD_REQUEST, "conflicting_key", message, pointer=pointer)


def artifact_of(body: bytes, bounds: Bounds, trace: TraceHeaders = ()) -> SubmittedEvent:
    """Return the artifact of a call.

    Raises:
        EventError: the body is no artifact, or exceeds a bound.
    """
    event, value = _decoded(body, {"type": _ARTIFACT, "published_at": _now()}, bounds)
    return SubmittedEvent(event, value, trace)


def retraction_of(
    artifact_id: str | None, query: Mapping[str, str], bounds: Bounds, trace: TraceHeaders = ()
) -> SubmittedEvent:
    """Return the retraction of an artifact. The query names its session, and its id if it is not in the path.

    Raises:
        EventError: a field is missing or invalid.
        ProblemError: a parameter is unknown, repeated or not UTF-8.
    """
    by_path = {} if artifact_id is None else {"id": artifact_id}
    _require_known(query, _RETRACTED_BY if by_path else ("id", *_RETRACTED_BY))
    named = {"type": _RETRACTION, **by_path, "published_at": _now(), **query}
    value = _encoded(named)
    return SubmittedEvent(decode(value, bounds), value, trace)


def wait_s(preferences: Iterable[str], most_s: float) -> float:
    """Return the seconds of `Prefer: wait=…` (RFC 7240), between 1 and `most_s`; by default `most_s`."""
    for preference in ",".join(preferences).split(","):
        if match := _WAIT.fullmatch(preference.strip()):
            return min(most_s, max(_WAIT_MIN_S, float(match[1])))
    return most_s


def trace_headers(request: web.Request) -> TraceHeaders:
    """Return the W3C trace context of a call as headers of its event; empty if `traceparent` is malformed."""
    parents = request.headers.getall("traceparent", ())
    if len(parents) != 1 or not _PARENT.fullmatch(parents[0].strip()):
        return ()
    parent = ("traceparent", parents[0].strip().encode())
    state = ",".join(request.headers.getall("tracestate", ())).encode(errors="surrogateescape")
    return (parent, ("tracestate", state)) if 0 < len(state) <= _STATE_MAX_BYTES else (parent,)


def new_id() -> str:
    """Return a UUID of version 7 (RFC 9562): the time in milliseconds, then random bits."""
    value = time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    return str(UUID(int=value & ~(0x3 << 62) | 0x2 << 62))


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _decoded(body: bytes, given: Mapping[str, str], bounds: Bounds) -> tuple[Event, bytes]:
    """Return a body's event, and the body completed by the `given` fields that it lacks or has as null.

    Raises EventError if the body is not an event of this type, or exceeds a bound.
    """
    try:
        fields = decode_whole(_fields, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        decode(body, bounds)  # raises a more specific error
        raise
    fields = {name: text for name, text in fields.items() if name not in given or bytes(text) != b"null"}
    if "type" in fields and bytes(fields["type"]) != json.encode(given["type"]):
        message = f"this path takes {given['type']}; leave type out"
        raise EventError(ErrorCode.UNKNOWN_TYPE, message, "$.type")
    absent = {name: text for name, text in given.items() if name not in fields}
    value = _encoded({**absent, **fields})
    return decode(value, bounds), value


def _encoded(fields: Mapping[str, str | Raw]) -> bytes:
    try:
        return json.encode(fields)
    except UnicodeEncodeError:
        detail = "send the path, the query and Idempotency-Key in UTF-8"
        raise ProblemError(HTTPStatus.BAD_REQUEST, "invalid_text", detail) from None


def _require_known(query: Mapping[str, str], names: tuple[str, ...]) -> None:
    if not set(query).issubset(names) or len(query) > len(set(query)):
        raise _invalid_query(f"the query takes {', '.join(names)}, each at most once")


def _invalid_query(detail: str) -> ProblemError:
    return ProblemError(HTTPStatus.BAD_REQUEST, "invalid_query", detail)
