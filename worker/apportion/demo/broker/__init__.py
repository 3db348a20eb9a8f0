"""An embedded Kafka-compatible broker, for `apportion demo` and quick tests; it is no proof about Kafka."""

from apportion.demo.broker.embedded import EmbeddedBroker, EmbeddedBrokerError, embedded_broker

__all__ = ("EmbeddedBroker", "EmbeddedBrokerError", "embedded_broker")
