"""Failures of brokers under load, on a cluster of three: deaths, returns, moved leaders, missing replicas.

The workers have the default timeouts, and the topics have the settings of production.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from reliability.load import load
from reliability.scenarios import MANY, PER_S, Outcome, Scene, scene_of
from support.containers import Cluster
from support.running import DEFAULT_TIMEOUTS_S

from apportion.shell.kafka.admin import admin_client
from apportion.shell.kafka.topics import plan_topics

_NOTICED_S = 15.0
"""A cluster notices after nine that a broker is gone."""
_BACK_S = 20.0

Fault = Callable[[Cluster, Scene, Random], Awaitable[None]]


async def restarted(three: Cluster, scene: Scene, random: Random) -> None:  # noqa: ARG001 - as the others
    """Each broker dies and comes back, one after another."""
    for broker in three.brokers:
        async with _away(three, broker):
            await asyncio.sleep(_NOTICED_S)


async def coordinator_killed(three: Cluster, scene: Scene, random: Random) -> None:  # noqa: ARG001 - likewise
    """The broker that coordinates the group dies, and comes back when another has taken its place."""
    async with admin_client(scene.run.settings) as admin:
        coordinator = await admin.find_coordinator(scene.run.settings.app_id)
    async with _away(three, coordinator):
        await asyncio.sleep(_NOTICED_S)


async def too_few_copies(three: Cluster, scene: Scene, random: Random) -> None:
    """Outputs need a copy more than there can be, for longer than the cluster takes to notice."""
    await _copies_in_sync_min(scene, 3)
    async with _away(three, random.choice(list(three.brokers))):
        await asyncio.sleep(_NOTICED_S)
    await _copies_in_sync_min(scene, 2)


async def one_lost(three: Cluster, scene: Scene, random: Random) -> None:
    """One broker dies and does not come back."""
    await asyncio.to_thread(three.kill, random.choice(list(three.brokers)))
    await asyncio.sleep(scene.run.settings.session_timeout_s)


FAULTS: dict[str, Fault] = {
    "brokers restarted": restarted,
    "coordinator killed": coordinator_killed,
    "too few copies": too_few_copies,
    "one broker lost": one_lost,
}
"""In this order: after the last there are two brokers left."""


async def brokers_away(
    three: Cluster, folder: Path, seed: int, name: str, workers: int = 3, **values: Any
) -> Outcome:
    """One of these faults, under load."""
    since_s = monotonic()
    random = Random(seed)  # noqa: S311 - no secret: it must come again
    values |= {"replication_factor": None, "production": True, **DEFAULT_TIMEOUTS_S}
    async with scene_of(three.bootstrap_servers, folder, workers, **values) as scene:
        events = load(scene.run.settings, seed, MANY, poison=0.01)
        over: list[bool] = []
        sending = asyncio.create_task(scene.run.send(events, PER_S, lambda: bool(over)))
        await scene.run.begun()
        await FAULTS[name](three, scene, random)
        over.append(True)
        await sending
        return await scene.outcome(name, seed, since_s)


@asynccontextmanager
async def _away(three: Cluster, broker: int) -> AsyncIterator[None]:
    await asyncio.to_thread(three.kill, broker)
    yield
    await asyncio.to_thread(three.start, broker)
    await asyncio.sleep(_BACK_S)


async def _copies_in_sync_min(scene: Scene, copies: int) -> None:
    """Set all configs of the topic: absent ones would fall back to the brokers' defaults."""
    settings = scene.run.settings
    [planned] = [topic for topic in plan_topics(settings) if topic.name == settings.composed_topic]
    configs = dict(planned.configs) | {"min.insync.replicas": str(copies)}
    topic = ConfigResource(ConfigResourceType.TOPIC, planned.name, configs=configs)
    async with admin_client(settings) as admin:
        await admin.alter_configs([topic])
