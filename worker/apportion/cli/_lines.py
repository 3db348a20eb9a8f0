"""Lines of a file that a command reads, with the file's name in errors, and a progress bar."""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO

from apportion.cli import CommandError, ExitCode, note
from apportion.cli._files import GZIP_MAGIC, naming
from apportion.cli._progress import progress

if TYPE_CHECKING:
    from apportion.core.wire.record import Record


EVENTS = ("context-request", "context-artifact", "context-retraction")
DECISIONS = ("context-decision",)
DEAD_LETTERS = ("context-dead-letter",)
_OUR_TYPE = re.compile(rb'\s*\{\s*"type"\s*:\s*"(context-[a-z-]+)"')


def lines_of(source: BinaryIO, line_max_bytes: int, holding: Sequence[str]) -> "Iterator[Record]":
    """Yield the lines of a file that holds records of these types, or raise CommandError.

    An empty file is named on stderr, unless it would hold dead letters.
    """
    from apportion.engine.offline.lines import read_lines

    with naming(source):
        lines = read_lines(source, line_max_bytes)
        first = next(lines, None)
        if first is None:
            if holding != DEAD_LETTERS:  # most runs refuse nothing
                note(f"{source.name}: is empty")
            return
        value = first.value or b""
        if value.startswith(GZIP_MAGIC):
            message = f"{source.name}: is compressed by gzip: use `gunzip -c`, or give the file"
            raise CommandError("wrong_file", message, ExitCode.USAGE)
        found = _OUR_TYPE.match(value)
        if found and (name := found[1].decode()) not in holding:
            kinds = " or ".join(holding)
            message = f"{source.name}: line 1 is a {name}, expected {kinds}: are the files swapped?"
            raise CommandError("wrong_file", message, ExitCode.USAGE)
        yield first
        yield from lines


def watched(
    lines: "Iterator[Record]", source: BinaryIO, what: str, stack: ExitStack, *, beside_output: bool
) -> "Iterator[Record]":
    """Show the progress of reading a file; a pipe has no known end, and no progress bar."""
    stored: BinaryIO = getattr(source, "fileobj", source)  # the compressed file
    status = os.fstat(source.fileno())
    if not stat.S_ISREG(status.st_mode):
        yield from lines
        return
    advance = stack.enter_context(progress(what, status.st_size, in_bytes=True, beside_output=beside_output))
    for line in lines:
        yield line
        advance(stored.tell())
