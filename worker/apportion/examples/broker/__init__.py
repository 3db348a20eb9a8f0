"""An embedded Kafka-compatible broker, for `apportion demo` and quick tests.

Decides where the broker comes from, how it starts, and that nothing of it stays behind. Never proves anything
about Apache Kafka: what only the real broker can show is tested against the real broker.
"""

from apportion.examples.broker.embedded import EmbeddedBroker, embedded_broker
from apportion.examples.broker.errors import (
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
