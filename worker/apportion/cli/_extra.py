"""The check that the extra which a command needs is installed, such as `analytics` for the report."""

from collections.abc import Iterator
from contextlib import contextmanager


class NotInstalledError(Exception):
    """An extra is not installed."""

    code = "not_installed"
    exit_code = 2


@contextmanager
def needing_extra(extra: str) -> Iterator[None]:
    """Turn the error of a missing import into a NotInstalledError, which names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise NotInstalledError(
            f"{error.name} is not installed: run `pip install 'apportion[{extra}]'`"
        ) from None
