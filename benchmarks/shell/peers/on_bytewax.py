"""Bytewax with a count a key in its memory: it has no changelog, and no consumer group.

Several processes are one cluster: each finds the others by ports that follow from the group's name.
"""

import os
import sys
from zlib import crc32

from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSource, KafkaSourceMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.testing import cluster_main, run_main
from confluent_kafka import OFFSET_BEGINNING

from benchmarks.shell.peers.answering import answers

_PORTS = range(20_000, 30_000, 10)
Answered = tuple[bytes, tuple[bytes, bytes]]


def flow(brokers: str, requests: str, outputs: tuple[str, ...]) -> Dataflow:
    """Return a flow from requests to both outputs."""
    made = Dataflow("answers")
    read = op.input("read", made, KafkaSource([brokers], [requests], starting_offset=OFFSET_BEGINNING))
    keyed = op.map("key", read, lambda record: (record.key.decode(), record))
    answered = op.stateful_map("answer", keyed, _answer)
    for place, topic in enumerate(outputs):
        sent = op.map(f"send-{place}", answered, lambda pair, place=place: _message(pair[1], place))
        kop.output(f"write-{place}", sent, brokers=[brokers], topic=topic)
    return made


def _answer(count: int | None, record: KafkaSourceMessage) -> tuple[int, Answered]:
    return (count or 0) + 1, (record.key, answers(record.value))


def _message(answered: Answered, place: int) -> KafkaSinkMessage:
    key, values = answered
    return KafkaSinkMessage(key, values[place])


def main(brokers: str, group: str, requests: str, *outputs: str) -> None:
    """Answer until the process is ended."""
    made, place, count = flow(brokers, requests, outputs), int(os.environ["PLACE"]), int(os.environ["COUNT"])
    if count == 1:
        run_main(made)
        return
    first = _PORTS[crc32(group.encode()) % len(_PORTS)]
    cluster_main(made, [f"127.0.0.1:{first + each}" for each in range(count)], place)


if __name__ == "__main__":
    main(*sys.argv[1:])
