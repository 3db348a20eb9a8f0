"""Outbound records, on their way to a producer."""

from msgspec import Struct


class OutboundRecord(Struct, frozen=True, gc=False):
    """A record to send, and its partition."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
