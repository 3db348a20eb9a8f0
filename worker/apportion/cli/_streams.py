"""Preparation of the standard streams, which can be closed, full, or not able to show Unicode."""

import io
import os
import sys
from typing import TextIO, cast

_INSTEAD = {"stdin": ("r", os.O_WRONLY), "stdout": ("w", os.O_RDONLY), "stderr": ("w", os.O_WRONLY)}
"""The mode and flags with which /dev/null replaces a closed stream, as in GNU's programs: reading and writing
then fail, and the command reports an error. Only messages on a closed stderr are lost."""


def mend_streams() -> None:
    """Replace closed streams, or a file could get their descriptor; escape what stdout cannot encode."""
    for name, (mode, flags) in _INSTEAD.items():
        if getattr(sys, name) is None:
            setattr(sys, name, _open_null(f"<{name}>", mode, flags))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def flush_stdout() -> None:
    """Flush stdout while an OSError can still be reported; what cannot be written is dropped."""
    try:
        sys.stdout.flush()
    except OSError:
        # or the interpreter would try again at its end, and report the error in its own way
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _open_null(name: str, mode: str, flags: int) -> TextIO:
    descriptor = os.open(os.devnull, flags)
    return cast("TextIO", open(name, mode, opener=lambda *_: descriptor))
