"""Files that a command reads and writes; one that cannot be opened is wrong usage."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, BinaryIO, TypeAlias, cast

import typer

_STDIN = Path("-")

EventsFile: TypeAlias = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="Events as JSON lines; - or none: stdin.")
]
"""Nothing is checked by Typer: its `allow_dash` does not know `-` as a Path."""


class FileFailedError(Exception):
    """A file that was opened can no longer be read or written: its disk is full, or gone."""

    code = "file_failed"


def open_events(path: Path | None) -> AbstractContextManager[BinaryIO]:
    """Open a file of events, or stdin, which stays open."""
    return nullcontext(sys.stdin.buffer) if path is None or path == _STDIN else open_to_read(path)


def open_to_read(path: Path) -> BinaryIO:
    """Open a file of bytes."""
    return _open(path, "rb")


def open_to_write(path: Path) -> BinaryIO:
    """Open a file for bytes; what it held is gone."""
    return _open(path, "wb")


def require_distinct(*paths: Path | None) -> None:
    """Refuse to write over what is read, or twice to one file; devices and pipes may come again."""
    places = [path.resolve() for path in paths if path is not None and (path.is_file() or not path.exists())]
    if len(set(places)) < len(places):
        raise typer.BadParameter("the same file is given twice; name different ones")


def require_place(output: Path, option: str, *, force: bool) -> None:
    """Refuse to write to where no file can be, or over one that is there, unless with `force`."""
    if output.is_dir() or not output.parent.is_dir():
        raise typer.BadParameter(f"{output}: not a place for a file", param_hint=option)
    if output.exists() and not force:
        raise typer.BadParameter(f"{output} is there; --force writes over it", param_hint=option)


def require_free(path: Path | None, option: str, *, force: bool) -> None:
    """Refuse to write over a file that holds something, unless with `force`; devices and pipes are none."""
    if path is not None and not force and path.is_file() and path.stat().st_size:
        raise typer.BadParameter(f"{path} is there; --force writes over it", param_hint=option)


@contextmanager
def naming(file: BinaryIO) -> Iterator[None]:
    """Name the file that fails. A reader of stdout that went away is no failure: Typer ends without a word.

    Raises:
        FileFailedError: reading or writing failed.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) and file is sys.stdout.buffer:
            raise
        raise FileFailedError(f"{file.name}: {error.strerror}") from None


def _open(path: Path, mode: str) -> BinaryIO:
    try:
        return cast("BinaryIO", path.open(mode))
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}") from None
