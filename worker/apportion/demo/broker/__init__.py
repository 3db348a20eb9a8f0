"""An embedded Kafka-compatible broker, for `apportion demo` and quick tests.

It leaves nothing behind. It proves nothing about Apache Kafka; other tests run against Apache Kafka.
"""

from apportion.demo.broker.embedded import EmbeddedBroker, EmbeddedBrokerError, embedded_broker

__all__ = ("EmbeddedBroker", "EmbeddedBrokerError", "embedded_broker")
