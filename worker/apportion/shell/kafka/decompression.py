"""Bounded decompression of record batches.

aiokafka has no bound, and a batch of 6.5 KB can take hundreds of megabytes.
"""

from mmap import mmap
from typing import Any

import cramjam

_SNAPPY = 2
_STREAMS = {1: cramjam.gzip.decompress_into, 3: cramjam.lz4.decompress_into, 4: cramjam.zstd.decompress_into}
_KEPT_BYTES = 1 << 20
"""Size up to which the target memory is kept for the next batch."""
_XERIAL_MAGIC = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
"""Start of snappy data in the Java clients' framing: blocks, each after its length in four bytes."""


class NotDecompressedError(Exception):
    """Data are damaged, have an unknown codec, or exceed a bound in bytes or records."""


class Decompressor:
    """Decompresses record batches to at most `max_bytes` each."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        # An anonymous mapping takes memory only for written pages, so small batches take little.
        self._target = mmap(-1, max_bytes)

    def decompress(self, codec: int, data: memoryview) -> bytes | memoryview:
        """Return decompressed data, over 1 MiB as a view without a copy; raise NotDecompressedError."""
        decoder = _snappy if codec == _SNAPPY else _STREAMS.get(codec)
        if decoder is None:
            raise NotDecompressedError(f"its compression has the unknown number {codec}")
        target, size = self._target, self.max_bytes
        try:
            size = decoder(data, target)
            return target[:size] if size <= _KEPT_BYTES else memoryview(target)[:size]
        except (cramjam.DecompressionError, ValueError):
            bound = f"{self.max_bytes} bytes (batch_decompressed_max_bytes)"
            raise NotDecompressedError(f"it is no compressed data of up to {bound}") from None
        finally:
            if size > _KEPT_BYTES:  # the view owns the old memory
                self._target = mmap(-1, self.max_bytes)


def _snappy(data: memoryview, target: Any) -> int:
    """Decompress a raw block, or framed blocks; return the size; raise DecompressionError or ValueError."""
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return int(cramjam.snappy.decompress_raw_into(data, target))
    written, at = 0, len(_XERIAL_MAGIC)
    with memoryview(target) as view:
        while at < len(data):
            block = at + 4
            at = block + int.from_bytes(data[at:block], "big", signed=True)
            if not block <= at <= len(data):
                raise ValueError("a block ends outside of the data")
            with view[written:] as rest:
                written += cramjam.snappy.decompress_raw_into(data[block:at], rest)
    return written
