"""The standard streams, whatever they are when the command starts: closed, full, or not of Unicode."""

import io
import os
import sys
from typing import TextIO, cast

_INSTEAD = {"stdin": ("r", os.O_WRONLY), "stdout": ("w", os.O_RDONLY), "stderr": ("w", os.O_WRONLY)}
"""What is opened in the place of a closed stream: as GNU's programs do, such that reading and writing fail,
which is told; only what is told is lost."""


def mend_streams() -> None:
    """Open closed streams, or a file could take their place; write what a terminal cannot show escaped."""
    for name, (mode, flags) in _INSTEAD.items():
        if getattr(sys, name) is None:
            setattr(sys, name, _open_null(f"<{name}>", mode, flags))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def flush_stdout() -> None:
    """Write out what stdout holds while a failure can be told; what cannot be written is given up.

    Raises:
        OSError: it cannot. The interpreter would try again in the end, and report that in its own way.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _open_null(name: str, mode: str, flags: int) -> TextIO:
    descriptor = os.open(os.devnull, flags)
    return cast("TextIO", open(name, mode, opener=lambda *_: descriptor))
