"""The check that the extra `analytics` is installed, which tables and the report need."""

from collections.abc import Iterator
from contextlib import contextmanager


class NotInstalledError(Exception):
    """The extra `analytics` is not installed."""

    code = "not_installed"
    exit_code = 2


@contextmanager
def needing_analytics() -> Iterator[None]:
    """Turn the error of a missing import into one that names the extra to install.

    Raises:
        NotInstalledError: the extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise NotInstalledError(
            f"{error.name} is not installed: run `pip install 'apportion[analytics]'`"
        ) from None
