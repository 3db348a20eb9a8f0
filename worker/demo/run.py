"""The demo from its events to its end.

Decides the order in which the parts start and stop: broker, topics, worker, events; and back.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from msgspec import Struct

from worker.broker import embedded_broker
from worker.demo.process import worker_process
from worker.settings import Settings, flag_of
from worker.stream.client import Answered, open_client
from worker.stream.topics import create_topics

IN_FLIGHT_MAX = 4
"""Few, so that the time shown is that of an answer and not of a queue."""
PATIENCE_S = 20.0
_REQUEST_TIMEOUT_S = 4.0
"""Short, since nothing is far away: a group of one waits for nobody."""
_CARRIED = ("default_policy", "policies")
"""Settings of the user's that the demo goes by."""


class Demo(Struct, frozen=True):
    """What to show, and where to tell of it."""

    settings: Settings
    events: Iterable[bytes]
    tell: Callable[[str], None]
    show: Callable[[Answered], None]


async def run_demo(demo: Demo, *, stay: bool) -> None:
    """Run all events through a worker, showing each answer as it comes; with `stay`, go on until cancelled.

    Raises:
        EmbeddedBrokerError: there is no broker.
        WorkerNotReadyError, NoAnswerError: the worker does not answer.
        WorkloadError: the events cannot be made.
    """
    async with _running(demo) as settings, open_client(settings) as client:
        async for answered in client.exchange(demo.events, IN_FLIGHT_MAX, PATIENCE_S):
            demo.show(answered)
        if stay:
            demo.tell(
                f"The broker stays at {settings.brokers[0]}; Ctrl-C ends it. In another terminal: "
                f"apportion send --brokers {settings.brokers[0]} --wait events.jsonl"
            )
            await asyncio.Event().wait()


@asynccontextmanager
async def _running(demo: Demo) -> AsyncIterator[Settings]:
    """Start broker, topics and worker; yield the settings that they go by."""
    demo.tell("Starting an embedded broker …")
    with embedded_broker() as broker:
        settings = Settings(
            brokers=(broker.bootstrap_servers,),
            request_timeout_s=_REQUEST_TIMEOUT_S,
            **{name: getattr(demo.settings, name) for name in _CARRIED},
        )
        await create_topics(settings)
        demo.tell(f"… at {broker.bootstrap_servers}. Starting the worker …")
        async with worker_process(_flags(settings), secrets.token_hex(32)):
            demo.tell("… ready. Sending events.")
            yield settings


def _flags(settings: Settings) -> list[str]:
    """Return the flags by which a worker gets the same settings."""
    values = {
        "brokers": ",".join(settings.brokers),
        "request_timeout_s": str(settings.request_timeout_s),
    } | {name: getattr(settings, name) for name in _CARRIED}
    return [
        part for name, value in values.items() if value is not None for part in (flag_of(name), str(value))
    ]
