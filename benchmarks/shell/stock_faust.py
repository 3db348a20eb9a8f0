"""A peer: Faust as it comes, with a count a session in a table and two records sent for a request.

python -m benchmarks.shell.stock_faust BROKERS REQUESTS COMPOSED DECISIONS
"""

import sys
from tempfile import mkdtemp
from typing import Any

import faust

_SIZES = (800, 2_600)
"""About those of a composed event and a decision."""


def main(brokers: str, requests: str, *outputs: str) -> None:
    """Answer until the process is ended."""
    app = faust.App(
        f"{requests}-faust",
        broker=f"aiokafka://{brokers}",
        store="memory://",
        value_serializer="raw",
        datadir=mkdtemp(),
        topic_partitions=4,
        consumer_auto_offset_reset="earliest",
    )
    counts: Any = app.Table("counts", default=int)
    targets = [app.topic(name, value_serializer="raw") for name in outputs]
    values = [bytes(size) for size in _SIZES]

    @app.agent(app.topic(requests, key_type=str, value_serializer="raw"))  # type: ignore[untyped-decorator] # Faust's
    async def answer(stream: Any) -> None:
        async for key, _ in stream.items():  # noqa: PERF102 - a stream has no keys()
            counts[key] += 1
            for target, value in zip(targets, values, strict=True):
                await target.send(key=key, value=value)

    faust.Worker(app, loglevel="error").execute_from_commandline()


if __name__ == "__main__":
    main(*sys.argv[1:])
