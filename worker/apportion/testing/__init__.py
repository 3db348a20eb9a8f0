"""Test kit for users: a harness that composes events without a broker, and assertions on decisions.

`apportion.testing.fixtures` has fixtures for pytest; no other module here imports pytest.
"""

from apportion.testing.assertions import assert_omitted, assert_selected
from apportion.testing.harness import Harness

__all__ = ["Harness", "assert_omitted", "assert_selected"]
