"""Dead letters: records that hold refused events as they were received.

To fit into its topic, a dead letter leaves out the rest of a long value, long headers and a long key.
"""

from msgspec import json
from msgspec.structs import replace

from apportion.core.digests import digest
from apportion.core.errors import EventError
from apportion.core.results import ContextDeadLetter, DeadLetterSource, DeadLetterValue, Failure
from apportion.core.wire.record import Record

COMPLETE_MAX_BYTES = 1 << 20
"""The longest value that is kept whole; of a longer one, digest, size and first bytes are kept."""
KEPT_BYTES = 256 << 10
"""The kept bytes of a longer value; also the longest key that is kept."""
HEADERS_MAX_BYTES = 512 << 10
"""The longest headers that are kept, as JSON in a dead letter: an empty header takes 8 bytes there."""


def dead_letter(record: Record, error: EventError, engine_version: str) -> ContextDeadLetter:
    """Return the dead letter of a refused record; the same record always gives the same dead letter.

    A key of over 256 KiB, and headers of over 512 KiB as they are written, are left out, and the message says
    so. A header without a value gets an empty value.
    """
    value = record.value or b""
    complete = len(value) <= COMPLETE_MAX_BYTES
    message, key = error.message, record.key
    headers = tuple([(name, content or b"") for name, content in record.headers])
    if key is not None and len(key) > KEPT_BYTES:
        message += f"; its key is over {KEPT_BYTES} bytes and left out"
        key = None
    if headers and len(json.encode(headers)) > HEADERS_MAX_BYTES:
        message += f"; its headers are over {HEADERS_MAX_BYTES} bytes as written and left out"
        headers = ()
    return ContextDeadLetter(
        error=Failure(code=error.code, message=message, pointer=error.pointer),
        source=DeadLetterSource(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
        ),
        key=key,
        headers=headers,
        value=record.value if complete else value[:KEPT_BYTES],
        value_bytes=len(value),
        value_digest=digest(value),
        value_complete=complete,
        engine_version=engine_version,
    )


def holding(letter: ContextDeadLetter, kept: DeadLetterValue) -> ContextDeadLetter:
    """Return a dead letter unchanged, or without headers and value; the key stays, as consumers need it."""
    if kept is DeadLetterValue.FULL:
        return letter
    return replace(letter, headers=(), value=None, value_complete=not letter.value_bytes)
