"""Effects of a policy in the topic on a running worker, on every broker."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewTopic
from support.commands import process
from support.composing import lanes_policy
from support.running import (
    DEADLINE_S,
    NEVER_TOO_MANY,
    Outputs,
    Stage,
    own_settings,
    request,
    staged,
    worker_running,
)

from apportion.core.policies.timeline import policy_key, policy_value
from apportion.core.strategy_api.policy import Policy
from apportion.engine.policies import load_policy
from apportion.settings import Settings, flag_of
from apportion.shell.kafka.admin import admin_client
from apportion.shell.kafka.topics import TopicStatus, check_topics

pytestmark = pytest.mark.asyncio

SETTLE_S = 2.0
GOOD = 'name = "small"\nversion = "{}"\nstrategy = "lanes"\nbudget_tokens = {}\n'


def small(version: str = "1", **changes: Any) -> Policy:
    return lanes_policy(**{"name": "small", "version": version, "budget_tokens": 2_000} | changes)


@pytest.fixture
def settings(bootstrap_servers: str) -> Settings:
    return own_settings(bootstrap_servers, policy_settle_s=SETTLE_S, **NEVER_TOO_MANY)


@pytest_asyncio.fixture
async def stage(settings: Settings) -> AsyncIterator[Stage]:
    async with staged(settings) as made:
        yield made


async def publish_raw(stage: Stage, key: bytes | None, value: bytes | None) -> int:
    """Put a record into the policies topic, and return its record time."""
    written = await stage.producer.send_and_wait(stage.settings.policies_topic, value, key=key, partition=0)
    timestamp_ms: int = written.timestamp
    return timestamp_ms


async def publish(stage: Stage, policy: Policy) -> int:
    return await publish_raw(stage, policy_key(policy).encode(), policy_value(policy))


async def policy_records(settings: Settings) -> list[tuple[bytes | None, bytes | None]]:
    place = TopicPartition(settings.policies_topic, 0)
    reader = AIOKafkaConsumer(bootstrap_servers=list(settings.brokers))
    async with reader, asyncio.timeout(DEADLINE_S):
        reader.assign([place])
        await reader.seek_to_beginning()
        end = (await reader.end_offsets([place]))[place]
        records: list[tuple[bytes | None, bytes | None]] = []
        while await reader.position(place) < end:
            batches = await reader.getmany(timeout_ms=200)
            records += [(one.key, one.value) for one in batches.get(place, [])]
    return records


async def asked_until(
    stage: Stage, condition: Callable[[dict[str, Any]], bool], policy: str = "small"
) -> list[dict[str, Any]]:
    """Ask again and again until an answer is as expected; return all answers in their order."""
    async with asyncio.timeout(DEADLINE_S):
        for number in count():
            name = f"{policy}-{number}-of-{len(stage.outputs.records)}"
            await stage.send(request(name, policy=policy))
            outputs = await stage.outputs.wait_for(partial(_is_told_of, name))
            if outputs.composed and condition(outputs.composed[-1]):
                return outputs.composed
    pytest.fail("it never came to hold")


def _is_told_of(request_id: str, outputs: Outputs) -> bool:
    return outputs.answered([request_id]) or any(
        json.loads(base64.b64decode(letter["value"])).get("request_id") == request_id
        for letter in outputs.dead_letters
        if letter["source"]["topic"] == outputs.settings.requests_topic
    )


async def test_a_published_policy_applies_after_its_settle_time_without_restart(
    stage: Stage,
) -> None:
    async with worker_running(stage.settings):
        await publish(stage, small("1"))
        one = (await asked_until(stage, bool))[-1]
        await publish(stage, small("2", budget_tokens=3_000))
        two = (await asked_until(stage, lambda event: event["policy"]["version"] == "2"))[-1]
    assert (one["policy"]["version"], one["tokens"]["limit"]) == ("1", 2_000)
    assert (two["policy"]["version"], two["tokens"]["limit"]) == ("2", 3_000)
    assert {letter["error"]["code"] for letter in stage.outputs.dead_letters} <= {"unknown_policy"}


async def test_a_worker_reads_earlier_policies_before_it_answers(stage: Stage) -> None:
    published_ms = await publish(stage, small())
    async with worker_running(stage.settings):
        await asked_until(stage, bool)
    settled_ms = published_ms + round(SETTLE_S * 1000)
    times = await request_times(stage)
    letters = {letter["source"]["offset"] for letter in stage.outputs.dead_letters}
    for offset, recorded_ms in times.items():
        assert (offset in letters) is (recorded_ms < settled_ms)


async def request_times(stage: Stage) -> dict[int, int]:
    """Return the record times of the requests by offset; all are of one session."""
    topic = stage.settings.requests_topic
    places = [TopicPartition(topic, number) for number in range(stage.settings.partitions)]
    reader = AIOKafkaConsumer(bootstrap_servers=list(stage.settings.brokers))
    times: dict[int, int] = {}
    async with reader, asyncio.timeout(DEADLINE_S):
        reader.assign(places)
        await reader.seek_to_beginning()
        ends = await reader.end_offsets(places)
        while any([await reader.position(place) < end for place, end in ends.items()]):
            batches = await reader.getmany(timeout_ms=200)
            times |= {one.offset: one.timestamp for batch in batches.values() for one in batch}
    return times


async def test_broken_records_are_dead_letters_and_the_last_good_version_stays(stage: Stage) -> None:
    good = small()
    await publish(stage, good)
    await publish_raw(stage, b"small@1", b"no policy")
    await publish_raw(stage, b"small@1", policy_value(small(budget_tokens=4_000)))
    await publish_raw(stage, b"other@1", policy_value(small("9")))
    async with worker_running(stage.settings):
        answer = (await asked_until(stage, bool))[-1]
        topic = stage.settings.policies_topic
        outputs = await stage.outputs.wait_for(
            lambda out: sum(letter["source"]["topic"] == topic for letter in out.dead_letters) == 3
        )
    assert answer["policy"]["digest"] == good.digest
    told = [
        (letter["source"]["offset"], letter["error"]["code"], letter["error"]["pointer"])
        for letter in outputs.dead_letters
        if letter["source"]["topic"] == topic
    ]
    assert told == [
        (1, "not_json", "$"),
        (2, "policy_changed", "$.version"),
        (3, "wrong_key", "$"),
    ]


ENDS_BEFORE_THE_ROW = """
from aiokafka.errors import KafkaTimeoutError
from apportion.shell.stream.pipeline.writer import EffectivelyOnceWriter
def send_rows(*_):
    raise KafkaTimeoutError
EffectivelyOnceWriter.send_rows = send_rows
"""


async def test_policy_changes_between_workers_change_no_repeated_byte(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    settings = own_settings(bootstrap_servers, policies=tmp_path, policy_settle_s=3_600)
    file = tmp_path / "small.toml"
    file.write_text(GOOD.format(1, 2_000))
    used = load_policy(file)
    async with staged(settings) as stage:
        await stage.send(request("r", policy="small"))
        async with worker_running(settings, until_ready=False, prelude=ENDS_BEFORE_THE_ROW) as worker:
            assert await worker.ended() == 1
        assert "policies differ" not in worker.log
        file.write_text(GOOD.format(1, 3_000))
        await publish(stage, small("2", budget_tokens=4_000))
        async with worker_running(settings) as worker:
            outputs = await stage.outputs.wait_for(lambda out: len(out.composed) == len(out.decisions) == 2)
            assert await worker.stop() == 0
    first, again = (record.value for record in outputs.of(settings.composed_topic))
    assert first == again
    decisions = [decision | {"run": None} for decision in outputs.decisions]
    assert decisions[0] == decisions[1]
    assert decisions[0]["policy"]["digest"] == used.digest
    [said] = [line for line in worker.lines if "file policies differ from those of the group" in line]
    assert "policies=small@1" in said


async def test_workers_with_the_same_files_announce_them_once(stage: Stage) -> None:
    for _ in range(2):
        async with worker_running(stage.settings) as worker:
            assert await worker.stop() == 0
        assert "differ" not in worker.log
    assert [key for key, _ in await policy_records(stage.settings)] == [
        f"#files/{stage.settings.app_id}".encode()
    ]


async def test_a_transaction_that_was_aborted_publishes_nothing(stage: Stage) -> None:
    policy = small()
    producer = AIOKafkaProducer(
        bootstrap_servers=list(stage.settings.brokers), transactional_id=stage.settings.app_id
    )
    async with producer:
        for publishing in ("aborted", "committed"):
            await producer.begin_transaction()
            published = policy if publishing == "committed" else small("2")
            await producer.send_and_wait(
                stage.settings.policies_topic,
                policy_value(published),
                key=policy_key(published).encode(),
                partition=0,
            )
            await (
                producer.commit_transaction() if publishing == "committed" else producer.abort_transaction()
            )
    async with worker_running(stage.settings):
        answer = (await asked_until(stage, bool))[-1]
    assert answer["policy"]["version"] == "1"


async def test_a_policies_topic_that_is_gone_stops_the_worker_before_it_would_guess(
    bootstrap_servers: str,
) -> None:
    settings = own_settings(bootstrap_servers, policy_settle_s=0.1)
    async with staged(settings) as stage, worker_running(settings) as worker:
        async with admin_client(settings) as admin:
            await admin.delete_topics([settings.policies_topic])
        asking = asyncio.create_task(ask_for_ever(stage))
        assert await worker.ended() == 1
        asking.cancel()
    assert "apportion: topic_gone: " in worker.log


async def ask_for_ever(stage: Stage) -> None:
    for number in count():
        await stage.send(request(f"r{number}"))


async def test_a_policies_topic_of_more_partitions_differs_from_its_plan(bootstrap_servers: str) -> None:
    settings = own_settings(bootstrap_servers)
    async with admin_client(settings) as admin:
        await admin.create_topics([NewTopic(settings.policies_topic, 2, 1)])
    [report] = [
        checked for checked in await check_topics(settings) if checked.topic == settings.policies_topic
    ]
    assert report.status is TopicStatus.DIFFERS


def flags(settings: Settings) -> list[str]:
    names = ("app_id", "policies_topic", "policy_settle_s", "request_timeout_s")
    given = [part for name in names for part in (flag_of(name), str(getattr(settings, name)))]
    return ["--brokers", ",".join(settings.brokers), *given]


async def test_files_are_published_once_and_listed_with_when_they_count(stage: Stage, tmp_path: Path) -> None:
    settings, file = stage.settings, tmp_path / "small.toml"
    file.write_text(GOOD.format(1, 2_000))
    told = []
    for _ in range(2):
        ended = await asyncio.to_thread(process, "policies", "publish", *flags(settings), file)
        assert (ended.exit_code, ended.err) == (0, "")
        told.append(ended.out.decode().rstrip("\n").split("\t"))
    [first, again] = told
    assert (first[:3], again[:3]) == (["small", "1", "published"], ["small", "1", "unchanged"])
    assert first[3:] == again[3:]
    assert first[4] == load_policy(file).digest
    listed = await asyncio.to_thread(process, "policies", "list", "--format", "json", *flags(settings))
    [small_one] = [each for each in json.loads(listed.out) if each["name"] == "small"]
    assert (small_one["source"], small_one["counts_from"]) == ("topic", first[3])
    assert [key for key, _ in await policy_records(settings)] == [b"small@1"]


async def test_a_changed_version_prevents_the_whole_publication(stage: Stage, tmp_path: Path) -> None:
    await publish(stage, small())
    for name, version, name_of in (("new", "1", "new"), ("changed", "1", "small"), ("shipped", "1", "lanes")):
        text = GOOD.format(version, 3_000).replace("small", name_of)
        (tmp_path / f"{name}.toml").write_text(text)
    for refused, why in (
        ("changed", "the topic has small@1"),
        ("shipped", "a file or built-in one has lanes@1"),
    ):
        files = (tmp_path / "new.toml", tmp_path / f"{refused}.toml")
        ended = await asyncio.to_thread(process, "policies", "publish", *flags(stage.settings), *files)
        assert (ended.exit_code, ended.out) == (1, b"")
        assert f"{refused}.toml: version: {why} with other content" in ended.err
        assert ended.err.startswith("apportion: policy_changed: ")
    assert len(await policy_records(stage.settings)) == 1


async def test_a_good_version_that_a_refused_record_would_outlive_is_published_again(
    stage: Stage, tmp_path: Path
) -> None:
    file = tmp_path / "small.toml"
    file.write_text(GOOD.format(1, 2_000))
    statuses = []
    for _ in range(2):
        ended = await asyncio.to_thread(process, "policies", "publish", *flags(stage.settings), file)
        statuses.append(ended.out.decode().split("\t")[2])
        await publish_raw(stage, b"small@1", b"broken")
    assert statuses == ["published", "published"]


async def test_a_missing_topic_is_reported_and_not_created(bootstrap_servers: str, tmp_path: Path) -> None:
    settings, file = own_settings(bootstrap_servers), tmp_path / "small.toml"
    file.write_text(GOOD.format(1, 2_000))
    for command in (("publish", file), ("list",)):
        ended = await asyncio.to_thread(process, "policies", *command, *flags(settings))
        assert ended.exit_code == 1
        assert f"{settings.policies_topic} (missing)" in ended.err
    async with admin_client(settings) as admin:
        assert settings.policies_topic not in await admin.list_topics()
