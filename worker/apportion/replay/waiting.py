"""Recorded lines that were read before their events: in memory up to a bound, beyond it in a file.

Decides where they lie. Of each that is in the file, memory holds some hundred bytes. The file has no name,
and is gone when it is closed.
"""

from collections import deque
from collections.abc import Iterator
from os import SEEK_END
from tempfile import TemporaryFile
from typing import IO

from msgspec import Struct

HELD_MAX_BYTES = 32 << 20


class _WaitingLine(Struct, frozen=True, gc=False):
    """A line that is `held`, or that begins at a byte of the file."""

    number: int
    size: int
    held: bytes | None
    start: int


class Waiting:
    """Numbered lines by name, those of one name in their order."""

    def __init__(self, held_max_bytes: int = HELD_MAX_BYTES) -> None:
        """Start empty."""
        self._lines: dict[bytes, deque[_WaitingLine]] = {}
        self._left_bytes = held_max_bytes
        self._file: IO[bytes] | None = None

    def put(self, name: bytes, number: int, value: bytes) -> None:
        """Let a line wait behind those of its name."""
        size = len(value)
        if size <= self._left_bytes:
            self._left_bytes -= size
            line = _WaitingLine(number, size, value, 0)
        else:
            if self._file is None:
                self._file = TemporaryFile()  # noqa: SIM115 - `close` closes it
            line = _WaitingLine(number, size, None, self._file.seek(0, SEEK_END))
            self._file.write(value)
        self._lines.setdefault(name, deque()).append(line)

    def first(self, name: bytes) -> tuple[int, bytes] | None:
        """Return the first line of a name, which stays."""
        lines = self._lines.get(name)
        return self._loaded(lines[0]) if lines else None

    def drop(self, name: bytes) -> None:
        """Let the first line of a name go."""
        lines = self._lines[name]
        line = lines.popleft()
        if line.held is not None:
            self._left_bytes += line.size
        if not lines:
            del self._lines[name]

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield all lines, in their order."""
        lines = [line for those in self._lines.values() for line in those]
        yield from map(self._loaded, sorted(lines, key=lambda line: line.number))

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()

    def _loaded(self, line: _WaitingLine) -> tuple[int, bytes]:
        if line.held is not None:
            return line.number, line.held
        assert self._file is not None, "what is not held is in the file"
        self._file.seek(line.start)
        return line.number, self._file.read(line.size)
