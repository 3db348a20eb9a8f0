"""Prints each composed event once, until Ctrl-C or SIGTERM: consume_confluent.py BROKERS TOPIC GROUP."""

import json
import signal
import sys
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException

SEEN_MAX = 100_000
"""Number of remembered decisions. A repeat comes soon, in the same partition."""
OPTIONS = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}


def consume(brokers: str, topic: str, group: str) -> None:
    """Handle each event, then commit it. After a restart, uncommitted events are read again."""
    seen: dict[str, None] = {}
    with Consumer({"bootstrap.servers": brokers, "group.id": group, **OPTIONS}) as consumer:
        consumer.subscribe([topic])
        while True:
            record = consumer.poll(1.0)
            if record is None:
                continue
            if record.error():
                raise KafkaException(record.error())
            event = json.loads(record.value())
            if event["decision_id"] not in seen:
                print(event["decision_id"], event["status"], event["tokens"]["used"], flush=True)  # your part
                seen[event["decision_id"]] = None
                if len(seen) > SEEN_MAX:
                    del seen[next(iter(seen))]
            consumer.commit(record, asynchronous=False)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        consume(*sys.argv[1:])
