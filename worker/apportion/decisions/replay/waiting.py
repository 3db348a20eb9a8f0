"""Records that were read before their events. Their values are in memory up to a bound, then in a file."""

from collections import deque
from collections.abc import Iterator
from os import SEEK_END
from tempfile import TemporaryFile
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from apportion.core.wire.record import Record

HELD_MAX_BYTES = 32 << 20


class _WaitingRecord(Struct, frozen=True, gc=False):
    """A record and the size of its value. With `start`, the value is in the file, from that byte on."""

    record: Record
    size_bytes: int
    start: int | None = None


class Waiting:
    """Records by name; records of one name keep their order. Their keys and headers are dropped."""

    def __init__(self, held_max_bytes: int = HELD_MAX_BYTES) -> None:
        self._records: dict[bytes, deque[_WaitingRecord]] = {}
        self._left_bytes = held_max_bytes
        self._file: IO[bytes] | None = None

    def put(self, name: bytes, record: Record) -> None:
        """Add a record after the others of its name."""
        value = record.value or b""
        size_bytes = len(value)
        bare = replace(record, key=None, headers=(), value=None)
        if size_bytes <= self._left_bytes:
            self._left_bytes -= size_bytes
            waiting = _WaitingRecord(replace(bare, value=value), size_bytes)
        else:
            if self._file is None:
                self._file = TemporaryFile()  # noqa: SIM115 - `close` closes it
            waiting = _WaitingRecord(bare, size_bytes, self._file.seek(0, SEEK_END))
            self._file.write(value)
        self._records.setdefault(name, deque()).append(waiting)

    def first(self, name: bytes) -> Record | None:
        """Return the first record of a name, without removing it; None if there is none."""
        records = self._records.get(name)
        return self._loaded(records[0]) if records else None

    def drop(self, name: bytes) -> None:
        """Remove the first record of a name."""
        records = self._records[name]
        waiting = records.popleft()
        if waiting.start is None:
            self._left_bytes += waiting.size_bytes
        if not records:
            del self._records[name]

    def __iter__(self) -> Iterator[Record]:
        waiting = [waiting for records in self._records.values() for waiting in records]
        yield from map(self._loaded, sorted(waiting, key=lambda waiting: waiting.record.offset))

    def close(self) -> None:
        """Close the file, which deletes it."""
        if self._file is not None:
            self._file.close()

    def _loaded(self, waiting: _WaitingRecord) -> Record:
        if waiting.start is None:
            return waiting.record
        assert self._file is not None, "values that are not held are in the file"
        self._file.seek(waiting.start)
        return replace(waiting.record, value=self._file.read(waiting.size_bytes))
