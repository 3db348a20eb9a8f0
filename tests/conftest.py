"""Settings of all tests."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from support.commands import give_signals_back

# Tests share machines, so no example has a deadline. `make test` and CI draw the same examples in each run:
# only a change makes a test fail. `make explore` draws new examples.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

_DEADLINE_S, _AGAIN_S = 900.0, 60.0
"""The time limit of a test with its fixtures, and of each cleanup after it: no read waits for ever."""


def pytest_configure() -> None:
    """Let Ctrl-C reach the processes of tests, even if the tests' own process ignores it."""
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
