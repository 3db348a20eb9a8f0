"""What a developer's machine may lack, and CI may not."""

import os
from typing import NoReturn

import pytest


def lacks(variable: str, what: str) -> NoReturn:
    """End a test for what the machine lacks: by a failure where the variable is 1, as CI sets all of them.

    Elsewhere it is a skip that says what is missing: `make test` runs on a machine with Python alone.
    """
    if os.environ.get(variable) == "1":
        pytest.fail(what)
    pytest.skip(what)  # the machine lacks it, and the test can prove nothing without; CI fails above instead
