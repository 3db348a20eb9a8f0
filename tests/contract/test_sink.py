"""Topics into the tables, by sinks that share them, are killed, and come back.

What needs a group to notice that a member is gone is for Apache Kafka alone: the embedded broker does not.
"""

import asyncio
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from support.commands import command, environment
from support.running import DEADLINE_S, own_settings, variables_of
from support.sinking import DEAD_LETTERS, ONE_FOR_EACH, RECORDED, USAGE, assert_holds, places_of, rows_of

from apportion.decisions.analytics.store import Store
from apportion.decisions.analytics.tables import Table
from apportion.settings import Settings
from apportion.shell.kafka.admin import admin_client
from apportion.shell.kafka.connection import connection_arguments
from apportion.shell.kafka.topics import TopicStatus, create_topics

pytestmark = pytest.mark.asyncio

Held = dict[tuple[str, int], list[bytes]]
WAVE = 40


async def publish(settings: Settings, held: Held, wave: int) -> None:
    """Publish decisions, dead letters, usage and invalid JSON, and note the records of the topics."""
    topics = dict.fromkeys(DEAD_LETTERS, settings.dead_letters_topic) | {USAGE: settings.usage_topic}
    async with AIOKafkaProducer(**connection_arguments(settings)) as producer:
        for number, value in enumerate([*RECORDED[wave * WAVE :][:WAVE], b"no JSON", *DEAD_LETTERS, USAGE]):
            topic = topics.get(value, settings.decisions_topic)
            partition = number % settings.partitions
            await producer.send_and_wait(topic, value, partition=partition)
            held.setdefault((topic, partition), []).append(value)


@asynccontextmanager
async def sinking(settings: Settings, tables: Path, *flags: str) -> AsyncIterator[Process]:
    """Run `apportion sink`, with one batch for each read."""
    process = await asyncio.create_subprocess_exec(
        *command("sink", "--tables", tables, "--sink-roll-s", "0.001", *flags),
        env=environment(**variables_of(settings)),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - files tell nobody that they are there
            await asyncio.sleep(0.01)


def names(tables: Path) -> int:
    """Return how many batches have a name."""
    return sum(1 for _ in tables.glob("_batches/*/*/*.json"))


async def test_topics_are_written_to_tables_and_once_ends_at_the_end(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    settings = own_settings(bootstrap_servers)
    await create_topics(settings)
    held: Held = {}
    for wave in (0, 1):
        await publish(settings, held, wave)
        async with sinking(settings, tmp_path, "--once") as process, asyncio.timeout(DEADLINE_S):
            assert await process.wait() == 3
        store = Store(str(tmp_path))
        assert_holds(store, held)
        assert len(rows_of(store, Table.USAGE)) == wave + 1


async def test_sinks_that_are_killed_lose_and_double_nothing(kafka: str, tmp_path: Path) -> None:
    settings = own_settings(kafka)
    await create_topics(settings)
    held: Held = {}
    for wave, more in enumerate((1, 3, 5)):
        await publish(settings, held, wave)
        before = names(tmp_path)
        async with sinking(settings, tmp_path) as process:
            await until(lambda: names(tmp_path) >= before + more)  # noqa: B023 - it is called here
            process.kill()
    async with sinking(settings, tmp_path, "--once") as process, asyncio.timeout(DEADLINE_S):
        assert await process.wait() in (0, 3)
    assert_holds(Store(str(tmp_path)), held)


async def test_a_recreated_topic_is_written_from_its_start_next_to_old_rows(
    kafka: str, tmp_path: Path
) -> None:
    """While the new topic is shorter than the rows of the old one, and once it is longer."""
    settings = own_settings(kafka, partitions=1)
    await create_topics(settings)
    held: Held = {}
    await publish(settings, held, 0)
    for waves in ((), (1,), (2, 3)):
        for wave in waves:
            await publish(settings, held, wave)
        async with sinking(settings, tmp_path, "--once") as process, asyncio.timeout(DEADLINE_S):
            assert await process.wait() in (0, 3)
        if not waves:
            async with admin_client(settings) as admin:
                await admin.delete_topics([settings.decisions_topic])
            await recreated(settings)
    [decided] = [values for (topic, _), values in held.items() if topic == settings.decisions_topic]
    places = places_of(Store(str(tmp_path)), Table.DECISIONS, Table.UNREADABLE)
    offsets = [offset for topic, _, offset in places if topic == settings.decisions_topic]
    assert offsets == sorted([*range(WAVE + 1), *range(len(decided) - WAVE - 1)])


async def recreated(settings: Settings) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while TopicStatus.CREATED not in {report.status for report in await create_topics(settings)}:  # noqa: ASYNC110 - the broker sends no event
            await asyncio.sleep(0.05)


async def test_two_sinks_share_the_partitions_and_one_takes_over_from_the_other(
    kafka: str, tmp_path: Path
) -> None:
    settings = own_settings(kafka)
    await create_topics(settings)
    held: Held = {}
    store = Store(str(tmp_path))

    def all_stand() -> bool:
        return len(places_of(store, *ONE_FOR_EACH)) >= sum(map(len, held.values()))

    async with sinking(settings, tmp_path) as first:
        await publish(settings, held, 0)
        async with sinking(settings, tmp_path) as second:
            await publish(settings, held, 1)
            await until(all_stand)
            first.send_signal(signal.SIGTERM)
            async with asyncio.timeout(DEADLINE_S):
                assert await first.wait() == 0
            await publish(settings, held, 2)
            await until(all_stand)
            second.send_signal(signal.SIGTERM)
            async with asyncio.timeout(DEADLINE_S):
                assert await second.wait() == 0
    assert_holds(store, held)
