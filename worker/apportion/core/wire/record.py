"""A record as Kafka holds it: bytes and a place, not yet an event."""

from typing import TypeAlias

from msgspec import Struct

from apportion.core.text.characters import lowered

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""In the order of the record; a name may stand twice."""


class Record(Struct, frozen=True):
    """What came, where it stood, and when it was recorded (milliseconds since 1970; -1: not known)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    unreadable: str = ""
    """Why the client could not read it; empty if it could. What could be read of it is here."""

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


def header(headers: Headers, name: str) -> bytes | None:
    """Return the value of the first header of that name, in whatever case it is written."""
    for found, value in headers:
        if lowered(found) == name:
            return value
    return None
