"""Damage on the way from a broker to the worker's parser of record batches."""

from random import Random
from struct import pack_into, unpack_from
from typing import Any

from apportion.shell.kafka.record_batches import FetchedRecords

DAMAGED_MS = 777
"""Batches are damaged if their first timestamp ends with these milliseconds."""
_HEADER_BYTES = 61


def install() -> None:
    """Damage the fetched data of this process from now on."""
    whole = FetchedRecords.__init__

    def init(self: FetchedRecords, place: Any, data: bytes, *arguments: Any) -> None:
        whole(self, place, damaged(place.partition, data), *arguments)

    FetchedRecords.__init__ = init  # type: ignore[method-assign, assignment] # the hook


def damaged(partition: int, data: bytes) -> bytes:
    """Return fetched bytes with the same damage of the same batch each time."""
    changed, start = bytearray(data), 0
    while start + _HEADER_BYTES <= len(data):
        base_offset, length = unpack_from(">qi", data, start)
        (first_ms,) = unpack_from(">q", data, start + 27)
        end = start + 12 + length
        if first_ms % 1000 == DAMAGED_MS and end <= len(data):
            _damage(Random(f"{partition} {base_offset}"), changed, start, end)  # noqa: S311 - no secret
        start = end
    return bytes(changed)


def _damage(random: Random, data: bytearray, start: int, end: int) -> None:
    kind = random.randrange(4)
    if kind == 0:  # in the header, the length and the base offset included
        data[start + random.randrange(_HEADER_BYTES)] ^= 1 << random.randrange(8)
    elif kind == 1:
        pack_into(">i", data, start + 8, random.choice((-1, 0, 13, end - start, 1 << 20, (1 << 31) - 1)))
    elif kind == 2:
        begin = random.randrange(start + 12, end)
        for place in range(begin, min(end, begin + 16)):
            data[place] = 0
    else:
        for _ in range(random.choice((1, 2, 8))):
            data[random.randrange(start + 12, end)] ^= 1 << random.randrange(8)
