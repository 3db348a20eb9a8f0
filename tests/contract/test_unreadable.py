"""A record that cannot be read stops no worker: it is one dead letter, and those around it are answered."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiokafka.errors import KafkaError
from support.batches import GZIP, ZSTD, bomb, produce, raw_batch, raw_record, with_bad_header_name
from support.commands import command, environment
from support.composing import lanes_policy
from support.hostile import HOSTILE_BATCHES
from support.running import (
    DEADLINE_S,
    NEVER_TOO_MANY,
    Stage,
    own_settings,
    request,
    staged,
    variables_of,
    worker_running,
)
from support.sinking import USAGE, rows_of

from apportion.core.policies.timeline import policy_key, policy_value
from apportion.decisions.analytics.store import Store
from apportion.decisions.analytics.tables import Table
from apportion.settings import Settings
from apportion.shell.kafka.partitioning import partition_of
from apportion.shell.kafka.topics import changelog_topic
from apportion.shell.stream.state.faults import ChangelogDamagedError
from apportion.shell.stream.state.recovery import read_rows

pytestmark = pytest.mark.asyncio

KEY = b"default/s"


@pytest.fixture
def settings(bootstrap_servers: str) -> Settings:
    return own_settings(bootstrap_servers, policy_settle_s=2.0, **NEVER_TOO_MANY)


@pytest_asyncio.fixture
async def stage(settings: Settings) -> AsyncIterator[Stage]:
    async with staged(settings) as made:
        yield made


def home(settings: Settings) -> int:
    partition = partition_of(KEY, settings.partitioner, settings.partitions)
    assert partition is not None
    return partition


def value(name: str) -> bytes:
    return json.dumps(request(name)).encode()


def in_one_batch(*names: str, codec: int = 0) -> bytes:
    """Return requests in one batch; names beginning with bad get a header name that is not UTF-8."""
    return raw_batch(
        [
            raw_record(delta, KEY, value(name), [(b"\xff\xfe", b"x")] if name.startswith("bad") else [])
            for delta, name in enumerate(names)
        ],
        codec=codec,
    )


async def test_unreadable_records_become_dead_letters_and_requests_are_answered(
    stage: Stage,
) -> None:
    settings, place = stage.settings, home(stage.settings)
    topic, client = settings.requests_topic, stage.producer.client
    names = ["r0", "r1", "r2", "r3"]
    await stage.send(request("r0"))
    unreadable = [
        await produce(client, topic, place, with_bad_header_name(value("bad"))),
        await produce(client, topic, place, bomb(200 << 20)),
        await produce(client, topic, place, with_bad_header_name(value("bad"), codec=GZIP)),
        await produce(client, topic, place, in_one_batch("r1", "bad", "r2", codec=ZSTD)) + 1,
    ]
    await stage.send(request("r3"))
    async with worker_running(settings) as worker:
        await stage.outputs.wait_for(lambda out: out.answered(names) and len(out.dead_letters) == 4)
        assert await worker.stop() == 0
    outputs = await stage.outputs.wait_for_end()
    assert [event["request_id"] for event in outputs.composed] == names
    letters = {letter["source"]["offset"]: letter for letter in outputs.dead_letters}
    assert sorted(letters) == unreadable
    for letter in letters.values():
        assert letter["error"]["code"] == "unreadable_record"
        assert (letter["source"]["topic"], letter["source"]["partition"]) == (topic, place)
    assert "not UTF-8" in letters[unreadable[0]]["error"]["message"]
    assert "batch_decompressed_max_bytes" in letters[unreadable[1]]["error"]["message"]


async def test_a_worker_that_starts_behind_an_unreadable_record_makes_no_second_dead_letter_of_it(
    stage: Stage,
) -> None:
    settings = stage.settings
    topic, client = settings.requests_topic, stage.producer.client
    damaged = raw_batch([], codec=ZSTD, body=b"no zstd", count=3, last_delta=2)
    try:
        await produce(client, topic, home(settings), damaged)
    except KafkaError:  # Apache Kafka validates compressed batches
        await produce(client, topic, home(settings), bomb(64 << 20))
    async with worker_running(settings) as worker:
        await stage.outputs.wait_for(lambda out: len(out.dead_letters) == 1)
        assert await worker.stop() == 0
    async with worker_running(settings) as worker:
        await stage.send(request("r0"))
        await stage.outputs.wait_for(lambda out: out.answered(["r0"]))
        assert await worker.stop() == 0
    assert len((await stage.outputs.wait_for_end()).dead_letters) == 1


async def test_an_unreadable_record_in_the_policies_topic_stops_no_start_and_is_refused(stage: Stage) -> None:
    settings = stage.settings
    policy = lanes_policy(name="small", version="1", budget_tokens=2_000)
    key, content = policy_key(policy).encode(), policy_value(policy)
    client, topic = stage.producer.client, settings.policies_topic
    offset = await produce(client, topic, 0, with_bad_header_name(content, key))
    await produce(client, topic, 0, raw_batch([raw_record(0, key, content)]))
    async with worker_running(settings) as worker:
        while not stage.outputs.composed:
            await stage.send(request(f"r{len(stage.outputs.records)}", policy="small"))
            before = len(stage.outputs.records)
            await stage.outputs.wait_for(lambda out, before=before: len(out.records) > before)  # type: ignore[misc]
        later = await produce(client, topic, 0, with_bad_header_name(content, key))
        await worker.wait_for_line("code=unreadable_record", count=2)

        def both(out: Any) -> bool:
            return [letter["source"]["topic"] for letter in out.dead_letters].count(topic) >= 2

        outputs = await stage.outputs.wait_for(both)
    assert outputs.composed[0]["tokens"]["limit"] == 2_000
    refused = [letter for letter in outputs.dead_letters if letter["source"]["topic"] == topic]
    assert {one["error"]["code"] for one in refused} == {"unreadable_record"}
    assert [one["source"]["offset"] for one in refused] == [offset, later]


async def test_one_corpus_of_hostile_batches_ends_no_reader_of_a_topic_that_clients_write(
    stage: Stage, tmp_path: Path
) -> None:
    settings, client, place = stage.settings, stage.producer.client, home(stage.settings)
    usage = settings.usage_topic
    good, hostile = [], 0
    for number, make in enumerate(HOSTILE_BATCHES.values()):
        batch = make()
        for topic, partition in (
            (settings.requests_topic, place),
            (settings.policies_topic, 0),
            (usage, place),
        ):
            hostile += topic == usage
            await produce(client, topic, partition, batch)
        good.append(f"r{number}")
        await stage.send(request(good[-1]))
        await produce(client, usage, place, raw_batch([raw_record(0, KEY, USAGE)]))
    async with worker_running(settings) as worker:
        await stage.outputs.wait_for(lambda out: out.answered(good))
        assert await worker.stop() == 0
    letters = (await stage.outputs.wait_for_end()).dead_letters
    for topic in (settings.requests_topic, settings.policies_topic):
        assert sum(letter["source"]["topic"] == topic for letter in letters) == hostile, topic
    sink = await asyncio.create_subprocess_exec(
        *command("sink", "--tables", tmp_path, "--once"), env=environment(**variables_of(settings))
    )
    async with asyncio.timeout(3 * DEADLINE_S):
        assert await sink.wait() == 3
    store = Store(str(tmp_path))
    rows = [row for row in rows_of(store, Table.UNREADABLE) if row["topic"] == usage]
    assert len(rows) == hostile
    assert len(rows_of(store, Table.USAGE)) == len(good)


async def test_a_record_of_the_changelog_that_cannot_be_read_ends_the_worker(stage: Stage) -> None:
    settings, place = stage.settings, home(stage.settings)
    topic = changelog_topic(settings)
    await produce(stage.producer.client, topic, place, with_bad_header_name(b"row"))
    await stage.send(request("r0"))
    with pytest.raises(ChangelogDamagedError, match=f"{topic} partition {place} has a record at offset 0"):
        await read_rows(settings, [place])
    async with worker_running(settings, until_ready=False) as worker:
        assert await worker.ended() == 1
    assert "apportion: changelog_damaged: " in worker.log
    assert (await stage.outputs.wait_for_end()).records == []
