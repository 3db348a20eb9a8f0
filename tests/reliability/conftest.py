"""One broker for all of these tests."""

from collections.abc import Iterator

import pytest
from support.containers import kafka_running


@pytest.fixture(scope="session")
def servers() -> Iterator[str]:
    with kafka_running() as address:
        yield address
