"""Kafka records: bytes, and their place in a topic."""

from typing import TypeAlias

from msgspec import Struct

from apportion.core.text.characters import lowered

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Headers in the order of the record; names may repeat."""


class Record(Struct, frozen=True):
    """A record with its place, and its timestamp in milliseconds since 1970 (-1: not known)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    unreadable: str = ""
    """The reason for which the client could not read the record; empty if it could."""

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


def header(headers: Headers, name: str) -> bytes | None:
    """Return the value of the first header of that name in any case, or None; `name` is in lower case."""
    for header_name, value in headers:
        if lowered(header_name) == name:
            return value
    return None
