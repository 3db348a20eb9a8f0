"""An embedded Kafka-compatible broker, for `apportion demo` and quick tests.

It leaves nothing behind. It does not prove anything about Apache Kafka, against which other tests run.
"""

from apportion.demo.broker.embedded import EmbeddedBroker, EmbeddedBrokerError, embedded_broker

__all__ = ("EmbeddedBroker", "EmbeddedBrokerError", "embedded_broker")
