"""The demo from its events to its end.

Decides the order in which the parts start and stop: broker, topics, worker, events; and back.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from apportion.assembly import create_catalogue
from apportion.broker import embedded_broker
from apportion.demo.process import Worker, worker_process
from apportion.demo.screen import Screen
from apportion.settings import Settings, SettingsError, flag_of
from apportion.stream.client import Client, open_client
from apportion.stream.topics import create_topics

IN_FLIGHT_MAX = 1
"""So that the time shown is that of an answer and not of a queue."""
PATIENCE_S = 20.0
_OWN: dict[str, Any] = {
    "partitions": 4,
    "request_timeout_s": 4.0,
    "delivery_timeout_s": 4.0,
    "session_timeout_s": 6.0,
    "rebalance_timeout_s": 12.0,
    "recovery_timeout_s": 16.0,
}
"""Few and short, since there is one worker and nothing is far away."""
_CARRIED = ("default_policy", "policies")
"""Settings of the user's that the demo goes by."""
POLICY = "agent"
"""What the demo goes by where the user names no default policy."""
_STRATEGY = "lanes"
"""That of the workload's requests."""


def require_demo_policy(settings: Settings) -> None:
    """Return if the default policy is one that the workload's requests can be composed under.

    Raises:
        PolicyError, SettingsError: it is not, or cannot be read.
    """
    catalogue = create_catalogue(settings)
    named = {policy.strategy for policy in catalogue if policy.name == settings.default_policy}
    if named != {_STRATEGY}:
        problem = f"the demo's requests are for the strategy {_STRATEGY}: name a policy that has it"
        raise SettingsError([f"default_policy ({settings.origin('default_policy')}): {problem}"])


async def run_demo(settings: Settings, events: Iterable[bytes], screen: Screen, *, stay: bool) -> None:
    """Run all events through a worker, showing each answer as it comes; with `stay`, go on until cancelled.

    Raises:
        EmbeddedBrokerError: there is no broker.
        WorkerEndedError, NoAnswerError: the worker does not answer.
    """
    async with _running(settings, screen) as (running, worker), open_client(running) as client:
        await worker.during(_play(client, events, screen))
        if stay:
            broker = running.brokers[0]
            screen.tell(
                f"The broker stays at {broker} until Ctrl-C. In another terminal:\n"
                f"  apportion send --brokers {broker} --partitions {_OWN['partitions']} --wait events.jsonl"
            )
            await worker.during(_stay())


async def _play(client: Client, events: Iterable[bytes], screen: Screen) -> None:
    try:
        async for answered in client.exchange(events, IN_FLIGHT_MAX, PATIENCE_S):
            screen.show(answered)
    finally:
        screen.sum_up()


async def _stay() -> None:
    await asyncio.Event().wait()


@asynccontextmanager
async def _running(settings: Settings, screen: Screen) -> AsyncIterator[tuple[Settings, Worker]]:
    """Start broker, topics and worker; yield the settings that they go by, and the worker."""
    screen.tell("Starting an embedded broker …")
    with embedded_broker() as broker:
        running = Settings(
            brokers=(broker.bootstrap_servers,),
            **_OWN,
            **{name: getattr(settings, name) for name in _CARRIED},
        )
        await create_topics(running)
        screen.tell(f"… at {broker.bootstrap_servers}. Starting the worker …")
        async with worker_process(_flags(running), secrets.token_hex(32)) as worker:
            screen.tell("… ready. Sending events.")
            yield running, worker


def _flags(settings: Settings) -> list[str]:
    """Return the flags by which a worker gets the same settings."""
    values = {
        "brokers": ",".join(settings.brokers),
        **{name: getattr(settings, name) for name in (*_OWN, *_CARRIED)},
    }
    return [
        part for name, value in values.items() if value is not None for part in (flag_of(name), str(value))
    ]
