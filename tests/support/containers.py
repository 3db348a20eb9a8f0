"""Apache Kafka in a container, for tests that only the real broker can pass."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from support.requiring import DOCKER

CLUSTER = "KAFKA_BOOTSTRAP_SERVERS"
IMAGE = "apache/kafka:4.3.1"
START_TIMEOUT_S = 60


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def container(port: int, *, security_protocol: str = "PLAINTEXT", **environment: str) -> DockerContainer:
    """Return a broker with two listeners: one for tests, and one for its own connections."""
    return _broker(
        port,
        KAFKA_CONTROLLER_QUORUM_VOTERS="1@localhost:9093",
        KAFKA_ADVERTISED_LISTENERS=f"HOST://127.0.0.1:{port},INNER://localhost:19092",
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=f"HOST:{security_protocol},INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR="1",
        KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR="1",
        KAFKA_TRANSACTION_STATE_LOG_MIN_ISR="1",
        **environment,
    ).waiting_for(_started())


@contextmanager
def kafka_running() -> Iterator[str]:
    """The address of Apache Kafka: of the cluster that is named, or else of a container."""
    if CLUSTER in os.environ:
        yield os.environ[CLUSTER]
        return
    DOCKER.require()
    port = free_port()
    with container(port):
        yield f"127.0.0.1:{port}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Three brokers, by their ids from 1, as one cluster."""

    bootstrap_servers: str
    brokers: dict[int, DockerContainer]

    def kill(self, broker: int) -> None:
        """End a broker as kill -9 does."""
        self.brokers[broker].get_wrapped_container().kill()

    def start(self, broker: int) -> None:
        """Restart an ended broker with its data."""
        self.brokers[broker].get_wrapped_container().start()


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Run three brokers, each of them a controller, too."""
    ports = {number: free_port() for number in (1, 2, 3)}
    with ExitStack() as stack:
        network = stack.enter_context(Network())
        brokers = {}
        for number, port in ports.items():
            broker = _broker(
                port,
                KAFKA_NODE_ID=str(number),
                KAFKA_CONTROLLER_QUORUM_VOTERS=",".join(f"{each}@kafka-{each}:9093" for each in ports),
                KAFKA_ADVERTISED_LISTENERS=f"HOST://127.0.0.1:{port},INNER://kafka-{number}:19092",
                KAFKA_LISTENERS=f"HOST://:9092,INNER://kafka-{number}:19092,CONTROLLER://kafka-{number}:9093",
                KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="HOST:PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
                KAFKA_MIN_INSYNC_REPLICAS="2",
            )
            broker.with_network(network).with_network_aliases(f"kafka-{number}")
            brokers[number] = stack.enter_context(broker)
        for broker in brokers.values():  # none is ready alone
            _started().wait_until_ready(broker)
        yield Cluster(",".join(f"127.0.0.1:{port}" for port in ports.values()), brokers)


def _broker(port: int, **environment: str) -> DockerContainer:
    given = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": "HOST://:9092,INNER://localhost:19092,CONTROLLER://localhost:9093",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INNER",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1",  # a short life does not repay the optimizing compiler
    }
    broker = DockerContainer(IMAGE).with_envs(**given | environment)
    # not `with_bind_ports`, which binds every interface
    broker.ports["9092/tcp"] = ("127.0.0.1", port)  # type: ignore[assignment] # Docker takes an address, too
    return broker


def _started() -> LogMessageWaitStrategy:
    return LogMessageWaitStrategy("Kafka Server started").with_startup_timeout(START_TIMEOUT_S)
