"""JSON lines of a stream as records of topic `-` and partition 0; the number of a line is its offset.

A line ends at a line feed. Bytes after the last line feed are a line as well. A record does not depend on the
file's name, so the same lines give the same bytes. Memory is bounded for lines of any length.
"""

import hashlib
import os
from collections.abc import Iterator
from itertools import count
from typing import BinaryIO

from apportion.core.wire.dead_letter import COMPLETE_MAX_BYTES, KEPT_BYTES
from apportion.core.wire.record import Record

FILE_TOPIC = "-"
"""The topic of records that are lines of a file."""
UNKNOWN_MS = -1
"""The record time of a line, which is unknown."""
_PIECE_BYTES = 1 << 16


class CutRecord(Record, frozen=True, kw_only=True):
    """A line that is too long to keep. Its value is only the part that a dead letter keeps."""

    size_bytes: int
    digest: str


def read_lines(stream: BinaryIO, line_max_bytes: int) -> Iterator[Record]:
    """Yield the lines of a stream, without their line feeds; offsets count from 0.

    A line that exceeds both `line_max_bytes` and the size of a complete dead letter is a `CutRecord`.
    """
    most = max(line_max_bytes, COMPLETE_MAX_BYTES)
    for number in count():
        value = stream.readline(most + 1)
        if not value:
            return
        if value.endswith(b"\n"):
            yield Record(FILE_TOPIC, 0, number, UNKNOWN_MS, None, value[:-1])
        elif len(value) <= most:
            yield Record(FILE_TOPIC, 0, number, UNKNOWN_MS, None, value)
        else:
            yield _cut(stream, number, value)


def write_line(descriptor: int, line: bytes) -> None:
    """Write a line without buffering, so that the file has the whole line at once."""
    left = memoryview(line + b"\n")
    while left:
        left = left[os.write(descriptor, left) :]


def _cut(stream: BinaryIO, number: int, first: bytes) -> CutRecord:
    """Return the record of a long line; the rest of the line is read and not kept."""
    size_bytes, hashed = 0, hashlib.sha256()
    piece = first
    while piece:
        ended = piece.endswith(b"\n")
        part = piece.removesuffix(b"\n")
        size_bytes += len(part)
        hashed.update(part)
        piece = b"" if ended else stream.readline(_PIECE_BYTES)
    digest = f"sha256:{hashed.hexdigest()}"
    kept = first[:KEPT_BYTES]
    return CutRecord(FILE_TOPIC, 0, number, UNKNOWN_MS, None, kept, size_bytes=size_bytes, digest=digest)
