"""CloudEvents 1.0 in Kafka records: the JSON of received events, and the headers of sent events.

Attributes of received events are not read, because our events carry their own data.
Source: Kafka Protocol Binding for CloudEvents 1.0.2, sections 3.2 and 3.3.
"""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from apportion.core.bounds import Bounds
from apportion.core.errors import ErrorCode, EventError
from apportion.core.text.characters import lowered
from apportion.core.wire.not_json import why_not_json
from apportion.core.wire.record import Headers, Record, header

_STRUCTURED = b"application/cloudevents+json"
_JSON = ("content-type", b"application/json")
CALLER_HEADER = "apportion-caller"
"""The header by which a client recognises the answers to its own events."""
_PASSED_ON_MAX_BYTES = {"traceparent": 256, "tracestate": 512, CALLER_HEADER: 128}
"""Headers that answers copy from their events, and their largest sizes in bytes; longer headers are dropped.
W3C Trace Context requires every receiver to pass on trace headers of these sizes."""
_REPLY_MAX_BYTES = 256
"""The largest value of a header that the setting `reply_headers` lists."""


class _Envelope(Struct):
    data: Raw | UnsetType = UNSET
    data_base64: bytes | UnsetType = UNSET


def require_readable(record: Record) -> None:
    """Raise EventError if the client could not read the record."""
    if record.unreadable:
        message = f"the record cannot be read: {record.unreadable}; send its events again in a new record"
        raise EventError(ErrorCode.UNREADABLE_RECORD, message)


def event_value(record: Record, bounds: Bounds) -> bytes | None:
    """Return the event's own JSON: the record's value, or an envelope's data (structured mode); or None.

    Pointers in errors are relative to the event, not to the envelope. Raises EventError if the record cannot
    be read, or the envelope is too large, invalid, or without data.
    """
    require_readable(record)
    value = record.value
    if not record.headers:
        return value
    content_type = header(record.headers, "content-type") or b""
    if not value or content_type.partition(b";")[0].strip().lower() != _STRUCTURED:
        return value
    if len(value) > bounds.event_max_bytes:
        message = f"the event has {len(value)} bytes, more than {bounds.event_max_bytes}"
        raise EventError(ErrorCode.TOO_LARGE, message)
    try:
        envelope = msgspec.json.decode(value, type=_Envelope)
    except (msgspec.ValidationError, RecursionError):
        raise EventError(ErrorCode.NOT_JSON, "the value is no CloudEvent in JSON") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EventError(ErrorCode.NOT_JSON, why_not_json(value, str(error))) from None
    if envelope.data is not UNSET:
        return bytes(envelope.data)
    if envelope.data_base64 is not UNSET:
        return envelope.data_base64
    raise EventError(ErrorCode.MISSING_FIELD, "a CloudEvent's data is the event", "$.data")


class EventHeaders:
    """The headers of sent events of one type and source (binary mode)."""

    def __init__(
        self,
        event_type: str,
        source: str,
        more: tuple[tuple[str, bytes], ...] = (),
        reply_headers: tuple[str, ...] = (),
    ) -> None:
        """`source` and the event's id together identify an event, however often it is sent.

        `more` are further headers of all events of the type. `reply_headers` are copied from the received
        event, like the headers of a trace.
        """
        self._passed_on = _PASSED_ON_MAX_BYTES | dict.fromkeys(reply_headers, _REPLY_MAX_BYTES)
        self._version = ("ce_specversion", b"1.0")
        self._source = ("ce_source", source.encode())
        self._type = ("ce_type", event_type.encode())
        self._more = more

    def build(
        self, event_id: str, received: Headers, time: str | None = None
    ) -> tuple[tuple[str, bytes], ...]:
        """Return the headers of an event, including copies from `received`, the headers of its cause."""
        named = ("ce_id", event_id.encode())
        timed = () if time is None else (("ce_time", time.encode()),)
        copied = _copied(received, self._passed_on) if received else ()
        return (_JSON, self._version, named, self._source, self._type, *timed, *self._more, *copied)


def _copied(received: Headers, max_bytes: Mapping[str, int]) -> list[tuple[str, bytes]]:
    first: dict[str, bytes | None] = {}
    for name, value in received:
        first.setdefault(lowered(name), value)
    return [
        (name, value)
        for name, most in max_bytes.items()
        if (value := first.get(lowered(name))) and len(value) <= most
    ]
