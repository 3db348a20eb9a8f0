"""Files that a command reads and writes. A file of lines may be compressed by gzip."""

import gzip
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeAlias, cast

import typer

from apportion.cli import CommandError

_STDIN = Path("-")
GZIP_MAGIC = b"\x1f\x8b"

EventsFile: TypeAlias = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="Events as JSON lines; - or no file: stdin.")
]
"""Without checks by Typer, because its `allow_dash` does not accept `-` as a Path."""


def open_events(path: Path | None) -> AbstractContextManager[BinaryIO]:
    """Open a file of events, or stdin, which stays open."""
    if path is None or path == _STDIN:
        stdin = sys.stdin.buffer
        return nullcontext(cast("BinaryIO", gzip.open(stdin)) if _is_gzip(stdin) else stdin)
    return open_to_read(path)


def open_to_read(path: Path) -> BinaryIO:
    """Open a file of bytes, or the bytes that are compressed in it by gzip."""
    file = path.open("rb")
    if not _is_gzip(file):
        return file
    file.close()  # gzip closes only a file that it has opened
    return cast("BinaryIO", gzip.open(path))


def require_distinct(*paths: Path | None) -> None:
    """Refuse a file that is given twice; devices and pipes may be given twice."""
    known = [path.resolve() for path in paths if path is not None and (path.is_file() or not path.exists())]
    if len(set(known)) < len(known):
        raise typer.BadParameter("the same file is given twice; name different ones")


def require_place(output: Path, option: str, *, force: bool) -> None:
    """Refuse a path that is a folder or is in no folder, and an existing file unless `force` is set."""
    if output.is_dir() or not output.parent.is_dir():
        raise typer.BadParameter(f"{output}: is a folder, or its folder does not exist", param_hint=option)
    if output.exists() and not force:
        raise typer.BadParameter(f"{output} exists; --force overwrites it", param_hint=option)


def require_free(path: Path | None, option: str, *, force: bool) -> None:
    """Refuse to overwrite a file that is not empty, unless `force` is set; devices and pipes are allowed."""
    if path is not None and not force and path.is_file() and path.stat().st_size:
        raise typer.BadParameter(f"{path} exists; --force overwrites it", param_hint=option)


@contextmanager
def naming(file: BinaryIO) -> Iterator[None]:
    """Turn errors of an open file into a CommandError that names it, except a closed reader of stdout."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:  # the last two: of a damaged gzip file
        if isinstance(error, BrokenPipeError) and file is sys.stdout.buffer:
            raise
        message = f"{file.name}: {getattr(error, 'strerror', None) or error}"
        raise CommandError("file_failed", message) from None


def write_json(file: BinaryIO, value: Any) -> None:
    """Write a line without buffering: a reader may wait for it, and a failed write must not be repeated."""
    from apportion.core.wire.codec import encode
    from apportion.engine.offline.lines import write_line

    with naming(file):
        write_line(file.fileno(), encode(value))


def _is_gzip(file: BinaryIO) -> bool:
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return False  # to look ahead could wait for a writer
    with naming(file):
        return cast("BufferedReader", file).peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
