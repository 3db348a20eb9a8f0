"""A record on its way out, whoever sends it."""

from msgspec import Struct


class OutboundRecord(Struct, frozen=True, gc=False):
    """Where it goes, and what it is."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
