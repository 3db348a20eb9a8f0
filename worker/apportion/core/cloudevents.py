"""CloudEvents 1.0 over Kafka: how an event lies in a record, on the way in and on the way out.

Decides where the event's own JSON is, and which headers what goes out has. Reads no attribute: our events
say what they are themselves. (Kafka Protocol Binding for CloudEvents 1.0.2, sections 3.2 and 3.3.)
"""

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from apportion.core.bounds import Bounds
from apportion.core.errors import ErrorCode, EventError
from apportion.core.not_json import why_not_json
from apportion.core.record import Headers, Record, header

_STRUCTURED = b"application/cloudevents+json"
_JSON = ("content-type", b"application/json")
_TRACE_MAX_BYTES = {"traceparent": 256, "tracestate": 512}
"""What W3C Trace Context has every receiver pass on; a longer one is dropped whole."""


class _Envelope(Struct):
    data: Raw | UnsetType = UNSET
    data_base64: bytes | UnsetType = UNSET


def event_value(record: Record, bounds: Bounds) -> bytes | None:
    """Return the event's own JSON: the record's value, or the data of an envelope (structured mode).

    Places in errors count from the event, not from the envelope.

    Raises:
        EventError: the envelope is too large, is none, or has no data.
    """
    value = record.value
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


def event_headers(
    event_type: str, event_id: str, source: str, received: Headers, time: str | None = None
) -> tuple[tuple[str, bytes], ...]:
    """Return the headers of an event that goes out (binary mode), with the trace that came with its cause.

    `source` and `event_id` together name one event, however often it is sent.
    """
    attributes = {"specversion": "1.0", "id": event_id, "source": source, "type": event_type}
    if time is not None:
        attributes["time"] = time
    headers = [_JSON, *((f"ce_{name}", text.encode()) for name, text in attributes.items())]
    for name, most in _TRACE_MAX_BYTES.items():
        value = header(received, name)
        if value and len(value) <= most:
            headers.append((name, value))
    return tuple(headers)
