"""Brokers for the contract suites: each test runs on the embedded one and on Apache Kafka.

Apache Kafka comes in a container, where there is a Docker engine; `TEST_REQUIRE_DOCKER=1` makes a
missing one a failure. `KAFKA_BOOTSTRAP_SERVERS=localhost:9092` names a cluster that is used instead.
"""

from collections.abc import Iterator

import pytest
from support.containers import kafka_running

from apportion.demo.broker import embedded_broker


@pytest.fixture(params=["embedded", "kafka"])
def bootstrap_servers(request: pytest.FixtureRequest) -> str:
    """The address of a running broker, shared by all tests: name what you create after your test."""
    servers: str = request.getfixturevalue(request.param)
    return servers


@pytest.fixture(scope="session")
def embedded() -> Iterator[str]:
    with embedded_broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    with kafka_running() as address:
        yield address
