"""Acts of other clients on a group and its topics: a commit in the group's name, and deleted topics."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from reliability.load import Sent, load
from reliability.scenarios import HOSTILE, PER_S, Outcome, Scene, scene_of
from reliability.topics import committed_offsets, end_offsets, read_records

from apportion.settings import PREFIX, Settings
from apportion.shell.kafka.admin import admin_client
from apportion.shell.kafka.connection import connection_arguments
from apportion.shell.kafka.topics import create_topics

_EVENTS = 800
_ENDED_WITHIN_S = 120.0
_LOOK_S = 0.2
_MORE = 10_000
"""Added to a seed, so that its events differ from the events of adjacent seeds."""


async def committed_by_another(
    servers: str, folder: Path, seed: int, workers: int = 2, **values: Any
) -> Outcome:
    """Let another client commit the ends of the topic while workers are down, twice.

    Workers must end with `foreign_commit`. The first time, the offsets are reset, and no answer may be
    missing. The second time, the commit is accepted, and only answers to skipped events may be missing.
    """
    since_s = monotonic()
    async with scene_of(servers, folder, workers, **values) as scene:
        run, settings = scene.run, scene.run.settings
        passed_over = await _passed_over(scene, workers, seed)
        await _commit(settings, {number: offsets.start for number, offsets in passed_over.items()})
        run.passed_over = await _passed_over(scene, workers, seed + 1)
        scene.variables[f"{PREFIX}ACCEPT_FOREIGN_COMMITS"] = "true"
        await _go_on(scene, workers, seed + 2)
        return await scene.outcome("committed by another", seed, since_s)


async def deleted(servers: str, folder: Path, seed: int, workers: int = 2, **values: Any) -> Outcome:
    """Delete and recreate the topic of answers under workers; at last delete the requests topic.

    Workers must end with `topic_gone` both times, and answer all events sent after the first deletion.
    """
    since_s = monotonic()
    async with scene_of(servers, folder, workers, **values) as scene:
        run, settings = scene.run, scene.run.settings
        await _go_on(scene, workers, seed)
        topic = settings.composed_topic
        run.kept[topic] = {n: await read_records(settings, topic, n) for n in range(settings.partitions)}
        await _delete(scene, topic)
        await create_topics(settings)
        await _go_on(scene, workers, seed + 1)
        outcome = await scene.outcome("deleted topics", seed, since_s)
        await _delete(scene, settings.requests_topic)
        return outcome


async def _passed_over(scene: Scene, workers: int, seed: int) -> dict[int, range]:
    """Stop the workers, send more, commit the ends; return the skipped offsets when workers have ended."""
    run, settings = scene.run, scene.run.settings
    await _go_on(scene, workers, seed)
    await run.send(_requests(settings, seed))
    await run.caught_up()
    scene.processes = 0
    await scene.fleet.stop()
    begins = await committed_offsets(settings)
    await run.send(_load(settings, seed + _MORE))
    ends = await end_offsets(settings)
    await _commit(settings, ends)
    before, scene.processes = len(scene.fleet.failed), workers
    await _failed_by(scene, "foreign_commit", before, workers)
    return {number: range(begins[number], end) for number, end in ends.items()}


def _load(settings: Settings, seed: int, count: int = _EVENTS) -> list[Sent]:
    return load(settings, seed, count, poison=0.01, hostile=HOSTILE, name=f"{seed}-")


def _requests(settings: Settings, seed: int) -> list[Sent]:
    """Return requests alone, each once, so that the last record of each partition has changed a session."""
    events = dict.fromkeys(load(settings, seed, _EVENTS, name=f"{seed}-last-"))
    return [event for event in events if b'"context-request"' in event.value]


async def _go_on(scene: Scene, workers: int, seed: int) -> None:
    scene.processes = workers
    await scene.run.send(_load(scene.run.settings, seed), PER_S)
    await scene.run.caught_up()


async def _failed_by(scene: Scene, code: str, before: int, count: int) -> None:
    """Wait until so many more workers have ended by themselves, each with this code, and start no more."""
    fleet = scene.fleet
    async with asyncio.timeout(_ENDED_WITHIN_S):
        while len(fleet.failed) < before + count:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(_LOOK_S)
    scene.processes = 0
    await fleet.stop()
    others = [line for line in fleet.failed[before:] if not line.startswith(f"apportion: {code}: ")]
    assert not others, others


async def _delete(scene: Scene, topic: str) -> None:
    """Delete a topic under the workers; each must end, and is not started again."""
    before, count, scene.processes = len(scene.fleet.failed), len(scene.fleet.living), 0
    async with admin_client(scene.run.settings) as admin:
        await admin.delete_topics([topic])
    await _failed_by(scene, "topic_gone", before, count)
    async with admin_client(scene.run.settings) as admin:
        assert topic not in await admin.list_topics(), "no client makes a topic"


async def _commit(settings: Settings, offsets: Mapping[int, int]) -> None:
    """Commit offsets without metadata, as tools for consumer groups do."""
    places = {TopicPartition(settings.requests_topic, number): offset for number, offset in offsets.items()}
    client = AIOKafkaConsumer(
        **connection_arguments(settings), group_id=settings.app_id, enable_auto_commit=False
    )
    async with client:
        client.assign(list(places))
        await client.commit(places)
