"""What holds in all tests."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from support.commands import give_signals_back

# An example may take as long as a machine that others use makes it take: no test judges by a clock.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

_DEADLINE_S, _AGAIN_S = 900.0, 60.0
"""The time limit of a test with its fixtures, and of each cleanup after it: no read waits for ever."""


def pytest_configure() -> None:
    """Let Ctrl-C reach the processes of tests, wherever the tests were started."""
    give_signals_back()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """End a test that hangs, so that its cleanup ends the processes that it started."""

    def end(*_: Any) -> None:
        pytest.fail(f"it took more than {_DEADLINE_S:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, _DEADLINE_S, _AGAIN_S)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
