"""confluent-kafka alone, without state."""

import sys

from confluent_kafka import Consumer, Message, Producer

from benchmarks.shell.peers.answering import answers


def main(brokers: str, group: str, requests: str, *outputs: str) -> None:
    """Answer until the process is ended."""
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 5,  # by default a full queue is looked at again after 1,000
        }
    )
    producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True})
    consumer.subscribe([requests])
    while True:
        record = consumer.poll(0.2)
        if record is None or record.error():
            continue
        for topic, value in zip(outputs, answers(record.value()), strict=True):
            _produce(producer, topic, value, record)
        producer.poll(0)


def _produce(producer: Producer, topic: str, value: bytes, record: Message) -> None:
    """Hand a record over, and where the queue is full, wait for its beginning to be sent."""
    while True:
        try:
            producer.produce(topic, value, record.key(), record.partition())
        except BufferError:
            producer.poll(0.05)
        else:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
