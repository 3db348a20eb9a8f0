"""Quix Streams with a count a key in its state: RocksDB, and a changelog topic."""

import sys
from tempfile import mkdtemp
from typing import Any

from quixstreams import Application, State

from benchmarks.shell.peers.answering import answers


def main(brokers: str, group: str, requests: str, *outputs: str) -> None:
    """Answer until the process is ended."""
    app = Application(
        broker_address=brokers,
        consumer_group=group,
        auto_offset_reset="earliest",
        consumer_extra_config={"fetch.queue.backoff.ms": 5},
        state_dir=mkdtemp(),
        loglevel="ERROR",
    )
    raw: Any = {"key_deserializer": "bytes", "value_deserializer": "bytes"}
    written: Any = {"key_serializer": "bytes", "value_serializer": "bytes"}
    answered = app.dataframe(app.topic(requests, **raw)).apply(_answer, stateful=True)
    for place, name in enumerate(outputs):
        answered.apply(lambda values, place=place: values[place]).to_topic(app.topic(name, **written))
    app.run()


def _answer(value: bytes, state: State) -> tuple[bytes, bytes]:
    state.set("count", state.get("count", 0) + 1)
    return answers(value)


if __name__ == "__main__":
    main(*sys.argv[1:])
