"""Lines of a file that a command reads, with the file's name in errors, and a progress bar."""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO

from apportion.cli._files import naming
from apportion.cli._progress import progress

if TYPE_CHECKING:
    from apportion.core.wire.record import Record


def lines_of(source: BinaryIO, line_max_bytes: int) -> "Iterator[Record]":
    """Yield the lines of a file.

    Raises:
        FileFailedError: the file cannot be read.
    """
    from apportion.offline.lines import read_lines

    with naming(source):
        yield from read_lines(source, line_max_bytes)


def watched(
    lines: "Iterator[Record]", source: BinaryIO, what: str, stack: ExitStack, *, beside_output: bool
) -> "Iterator[Record]":
    """Show how far a file is read; of a pipe nobody knows the end."""
    status = os.fstat(source.fileno())
    if not stat.S_ISREG(status.st_mode):
        yield from lines
        return
    advance = stack.enter_context(progress(what, status.st_size, in_bytes=True, beside_output=beside_output))
    for line in lines:
        yield line
        advance(source.tell())
