"""An embedded Kafka-compatible broker, for `apportion demo` and quick tests.

It leaves nothing behind. It proves nothing about Apache Kafka; other tests run against Apache Kafka.
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
