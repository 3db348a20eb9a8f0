"""An embedded Kafka-compatible broker, for `apportion demo` and quick tests.

It leaves nothing behind. Its behaviour is no evidence of how Apache Kafka behaves: such tests run against
Apache Kafka.
"""

from apportion.demo.broker.embedded import EmbeddedBroker, embedded_broker
from apportion.demo.broker.errors import (
    BrokerEndedError,
    BrokerErrorCode,
    BrokerNotInstalledError,
    BrokerNotStartedError,
    BrokerNotSupportedError,
    EmbeddedBrokerError,
)

__all__ = (
    "BrokerEndedError",
    "BrokerErrorCode",
    "BrokerNotInstalledError",
    "BrokerNotStartedError",
    "BrokerNotSupportedError",
    "EmbeddedBroker",
    "EmbeddedBrokerError",
    "embedded_broker",
)
