"""Apache Kafka in a container, for tests that only the real broker can pass."""

import os
import socket

import pytest
from commands import answers
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

CLUSTER = "KAFKA_BOOTSTRAP_SERVERS"
REQUIRE_DOCKER = "TEST_REQUIRE_DOCKER"
IMAGE = "apache/kafka:4.3.1"
START_TIMEOUT_S = 60


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def require_docker() -> None:
    if not answers("docker", "info"):  # asked by command: the library leaves a socket open where none answers
        (pytest.fail if os.environ.get(REQUIRE_DOCKER) == "1" else pytest.skip)(
            f"no Docker engine answers, and {CLUSTER} names no cluster"
        )


def container(port: int, *, security_protocol: str = "PLAINTEXT", **environment: str) -> DockerContainer:
    """Return a broker with two ways in: one for us, and one for itself, which cannot reach ours."""
    broker = DockerContainer(IMAGE).with_envs(
        KAFKA_NODE_ID="1",
        KAFKA_PROCESS_ROLES="broker,controller",
        KAFKA_CONTROLLER_QUORUM_VOTERS="1@localhost:9093",
        KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER",
        KAFKA_LISTENERS="HOST://:9092,INNER://localhost:19092,CONTROLLER://localhost:9093",
        KAFKA_ADVERTISED_LISTENERS=f"HOST://127.0.0.1:{port},INNER://localhost:19092",
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=f"HOST:{security_protocol},INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        KAFKA_INTER_BROKER_LISTENER_NAME="INNER",
        KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR="1",
        KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR="1",
        KAFKA_TRANSACTION_STATE_LOG_MIN_ISR="1",
        KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS="0",
        **environment,
    )
    # not `with_bind_ports`, which binds every interface
    broker.ports["9092/tcp"] = ("127.0.0.1", port)  # type: ignore[assignment] # Docker takes an address, too
    started = LogMessageWaitStrategy("Kafka Server started").with_startup_timeout(START_TIMEOUT_S)
    return broker.waiting_for(started)
