"""Reading JSON lines from a stream of bytes, with bounded memory for lines of any length.

A line ends at a line feed. Bytes after the last line feed are a line, too.
"""

import hashlib
from collections.abc import Iterator
from itertools import count
from typing import BinaryIO

from msgspec import Struct

from apportion.core.wire.dead_letter import COMPLETE_MAX_BYTES, KEPT_BYTES

_PIECE_BYTES = 1 << 16


class Cut(Struct, frozen=True):
    """Size and digest of a line that was too long to be held in memory."""

    size_bytes: int
    digest: str


class Line(Struct, frozen=True):
    """A line without its line feed, numbered from 0. If it is `cut`, `value` is what a dead letter keeps."""

    number: int
    value: bytes
    cut: Cut | None = None


def read_lines(stream: BinaryIO, line_max_bytes: int) -> Iterator[Line]:
    """Yield the lines of a stream. Longer lines are cut, except those that a dead letter holds whole."""
    most = max(line_max_bytes, COMPLETE_MAX_BYTES)
    for number in count():
        value = stream.readline(most + 1)
        if not value:
            return
        if value.endswith(b"\n"):
            yield Line(number, value[:-1])
        elif len(value) <= most:
            yield Line(number, value)
        else:
            yield _cut(stream, number, value)


def _cut(stream: BinaryIO, number: int, first: bytes) -> Line:
    """Read the rest of a line whose first part was read; keep only its size and digest."""
    size_bytes, hashed = 0, hashlib.sha256()
    piece = first
    while piece:
        ended = piece.endswith(b"\n")
        part = piece.removesuffix(b"\n")
        size_bytes += len(part)
        hashed.update(part)
        piece = b"" if ended else stream.readline(_PIECE_BYTES)
    return Line(number, first[:KEPT_BYTES], Cut(size_bytes, f"sha256:{hashed.hexdigest()}"))
