"""Dead letters: records that hold refused events as they were received.

The value of an oversized record is shortened, so that every dead letter fits into its topic.
"""

from msgspec.structs import replace

from apportion.core.errors import EventError
from apportion.core.identity import digest
from apportion.core.results import ContextDeadLetter, DeadLetterSource, DeadLetterValue, Failure
from apportion.core.wire.record import Record

COMPLETE_MAX_BYTES = 1 << 20
"""The longest value that is kept whole; of a longer one, digest, size and first bytes are kept."""
KEPT_BYTES = 256 << 10
"""The kept bytes of a longer value; also the limit for key and headers together."""


def dead_letter(record: Record, error: EventError, engine_version: str) -> ContextDeadLetter:
    """Return the dead letter of a refused record; the same record always gives the same dead letter.

    Key and headers of over 256 KiB together are left out, and the message says so. A header without a value
    gets an empty value.
    """
    value = record.value or b""
    complete = len(value) <= COMPLETE_MAX_BYTES
    message, key, headers = error.message, record.key, record.headers
    if _bytes_beside_value(record) > KEPT_BYTES:
        message += f"; key and headers are over {KEPT_BYTES} bytes and left out"
        key, headers = None, ()
    return ContextDeadLetter(
        error=Failure(code=error.code, message=message, pointer=error.pointer),
        source=DeadLetterSource(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
        ),
        key=key,
        headers=tuple((name, content or b"") for name, content in headers),
        value=record.value if complete else value[:KEPT_BYTES],
        value_bytes=len(value),
        value_digest=digest(value),
        value_complete=complete,
        engine_version=engine_version,
    )


def holding(letter: ContextDeadLetter, kept: DeadLetterValue) -> ContextDeadLetter:
    """Return a dead letter that keeps the whole event, or only its digest and size.

    The key always stays, so that consumers can find the dead letters of a session.
    """
    if kept is DeadLetterValue.FULL:
        return letter
    return replace(letter, headers=(), value=None, value_complete=not letter.value_bytes)


def _bytes_beside_value(record: Record) -> int:
    return len(record.key or b"") + sum(len(name) + len(value or b"") for name, value in record.headers)
