"""The check that the extra which a command needs is installed, such as `analytics` for the report."""

from collections.abc import Iterator
from contextlib import contextmanager

from apportion.cli import CommandError, ExitCode


@contextmanager
def needing_extra(extra: str) -> Iterator[None]:
    """Turn the error of a missing import into an error that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed: run `pip install 'apportion[{extra}]'`"
        raise CommandError("not_installed", message, ExitCode.USAGE) from None
