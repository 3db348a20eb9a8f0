"""Fixtures for pytest; load them with `pytest_plugins = ["apportion.testing.fixtures"]`."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from apportion.core.strategy_api.policy import Policy
from apportion.testing.harness import Harness


@pytest.fixture
def apportion_policies() -> Sequence[Policy | Path]:
    """Policies of `apportion_harness`, in addition to the built-in ones; override it with your own."""
    return ()


@pytest.fixture
def apportion_harness(apportion_policies: Sequence[Policy | Path]) -> Harness:
    """A harness without sessions, for one test."""
    return Harness(apportion_policies)
