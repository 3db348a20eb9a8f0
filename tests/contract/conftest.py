"""Brokers for the contract suites: each test runs on the embedded one and on Apache Kafka.

Apache Kafka comes in a container, where there is a Docker engine; `TEST_REQUIRE_DOCKER=1` makes a
missing one a failure. `KAFKA_BOOTSTRAP_SERVERS=localhost:9092` names a cluster that is used instead.
"""

import os
import socket
from collections.abc import Iterator

import pytest
from commands import answers
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from apportion.broker import embedded_broker

CLUSTER = "KAFKA_BOOTSTRAP_SERVERS"
REQUIRE_DOCKER = "TEST_REQUIRE_DOCKER"
IMAGE = "apache/kafka:4.3.1"
START_TIMEOUT_S = 60


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
    if CLUSTER in os.environ:
        yield os.environ[CLUSTER]
        return
    require_docker()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with container(port):
        yield f"127.0.0.1:{port}"


def require_docker() -> None:
    if not answers("docker", "info"):  # asked by command: the library leaves a socket open where none answers
        (pytest.fail if os.environ.get(REQUIRE_DOCKER) == "1" else pytest.skip)(
            f"no Docker engine answers, and {CLUSTER} names no cluster"
        )


def container(port: int) -> DockerContainer:
    """Return a broker with two ways in: one for us, and one for itself, which cannot reach ours."""
    broker = DockerContainer(IMAGE).with_envs(
        KAFKA_NODE_ID="1",
        KAFKA_PROCESS_ROLES="broker,controller",
        KAFKA_CONTROLLER_QUORUM_VOTERS="1@localhost:9093",
        KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER",
        KAFKA_LISTENERS="HOST://:9092,INNER://localhost:19092,CONTROLLER://localhost:9093",
        KAFKA_ADVERTISED_LISTENERS=f"HOST://127.0.0.1:{port},INNER://localhost:19092",
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="HOST:PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        KAFKA_INTER_BROKER_LISTENER_NAME="INNER",
        KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR="1",
        KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR="1",
        KAFKA_TRANSACTION_STATE_LOG_MIN_ISR="1",
        KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS="0",
    )
    # not `with_bind_ports`, which binds every interface
    broker.ports["9092/tcp"] = ("127.0.0.1", port)  # type: ignore[assignment] # Docker takes an address, too
    started = LogMessageWaitStrategy("Kafka Server started").with_startup_timeout(START_TIMEOUT_S)
    return broker.waiting_for(started)
