"""Dead letters: the record that holds a refused event, as it came.

Decides how much of an oversized record is kept, so that every dead letter fits into its topic, and what is
left where nothing of an event is to be kept. Never decides that an event is refused.
"""

from msgspec.structs import replace

from apportion.core.errors import EventError
from apportion.core.identity import digest
from apportion.core.results import ContextDeadLetter, DeadLetterSource, DeadLetterValue, Failure
from apportion.core.wire.record import Record

COMPLETE_MAX_BYTES = 1 << 20
"""A longer value is its digest, its size and its first bytes."""
KEPT_BYTES = 256 << 10
"""How much of such a value is kept; key and headers together may have as much, or are left out."""


def dead_letter(record: Record, error: EventError, engine_version: str) -> ContextDeadLetter:
    """Return the dead letter of a refused record; the same record gives the same one, wherever it is met.

    A key and headers of over 256 KiB are no longer those of an event, and are left out: the message says
    so. A header without a value is an empty one.
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
    """Return a dead letter that holds no more of the event than that.

    Its key stays: consumers find by it what became of a session's events.
    """
    if kept is DeadLetterValue.FULL:
        return letter
    return replace(letter, headers=(), value=None, value_complete=not letter.value_bytes)


def _bytes_beside_value(record: Record) -> int:
    return len(record.key or b"") + sum(len(name) + len(value or b"") for name, value in record.headers)
