"""Faust as it comes, with a count a key in a table."""

import sys
from tempfile import mkdtemp
from typing import Any

import faust

from benchmarks.shell.peers.answering import answers


def main(brokers: str, group: str, requests: str, *outputs: str) -> None:
    """Answer until the process is ended."""
    app = faust.App(
        group,
        broker=f"aiokafka://{brokers}",
        store="memory://",
        value_serializer="raw",
        datadir=mkdtemp(),
        topic_partitions=4,
        consumer_auto_offset_reset="earliest",
        web_enabled=False,
    )
    counts: Any = app.Table("counts", default=int)
    targets = [app.topic(name, value_serializer="raw") for name in outputs]

    @app.agent(app.topic(requests, key_type=str, value_serializer="raw"))  # type: ignore[untyped-decorator] # Faust's
    async def answer(stream: Any) -> None:
        async for key, request in stream.items():
            counts[key] += 1
            for target, value in zip(targets, answers(request), strict=True):
                await target.send(key=key, value=value)

    faust.Worker(app, loglevel="error").execute_from_commandline()


if __name__ == "__main__":
    main(*sys.argv[1:])
