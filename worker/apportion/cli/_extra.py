"""What tables and report need beside the package: the extra `analytics`."""

from collections.abc import Iterator
from contextlib import contextmanager


class NotInstalledError(Exception):
    """The extra `analytics` is not installed."""

    code = "not_installed"
    exit_code = 2


@contextmanager
def needing_analytics() -> Iterator[None]:
    """Say what to install, where what is imported is not there.

    Raises:
        NotInstalledError: the extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise NotInstalledError(
            f"{error.name} is missing: pip install 'apportion[analytics]' brings what this needs"
        ) from None
