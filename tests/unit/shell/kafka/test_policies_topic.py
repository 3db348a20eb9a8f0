"""Reading the policies topic: when its end is known, and what happens while it is not. Nothing sleeps."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError
from support.composing import lanes_policy

from apportion.core.policies.timeline import (
    PolicyRefusal,
    Timeline,
    files_key,
    files_value,
    policy_key,
    policy_value,
)
from apportion.engine.policies.listing import different
from apportion.settings import Settings
from apportion.shell.kafka import policies_topic
from apportion.shell.kafka.policies_topic import PoliciesUnreadError, PolicyReader

pytestmark = pytest.mark.asyncio

SETTINGS = Settings(policy_settle_s=60.0, request_timeout_s=0.01)
PLACE = TopicPartition(SETTINGS.policies_topic, 0)
FILE = lanes_policy(version="0")
ONE, TWO = lanes_policy(version="1"), lanes_policy(version="2")
ALL = 100


class Topic:
    """A fake consumer of the policies topic, with the clock of the brokers and of the worker."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.now_s = 0.0
        self.at = 0
        self.batch = ALL
        self.stable_end: int | None = None
        self.error: Exception | None = None
        self.looks = 0
        self.on_read: Callable[[], None] = lambda: None

    def append(self, key: bytes, value: bytes | None) -> None:
        headers = (("traceparent", b"00-1"),)
        self.records.append(
            SimpleNamespace(
                topic=PLACE.topic,
                partition=0,
                offset=len(self.records),
                timestamp=round(self.now_s * 1000),
                key=key,
                value=value,
                headers=headers,
            )
        )

    def publish(self, policy: Any) -> None:
        self.append(policy_key(policy).encode(), policy_value(policy))

    async def end_offsets(self, _: object) -> dict[TopicPartition, int]:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return {PLACE: self.end}

    @property
    def end(self) -> int:
        return len(self.records) if self.stable_end is None else self.stable_end

    def highwater(self, _: TopicPartition) -> int:
        return len(self.records)

    async def position(self, _: TopicPartition) -> int:
        return self.at

    async def getmany(
        self, _: TopicPartition, *, timeout_ms: int, max_records: int | None
    ) -> dict[TopicPartition, list[Any]]:
        assert max_records is None
        read = self.records[self.at : min(self.at + self.batch, self.end)]
        self.now_s += 0 if read else timeout_ms / 1000
        self.at += len(read)
        self.on_read()
        return {PLACE: read} if read else {}


class Room:
    """A reader at a topic."""

    def __init__(self) -> None:
        self.topic = Topic()
        self.told: list[Timeline] = []
        start = Timeline([FILE], SETTINGS.app_id, 60_000)
        self.reader = PolicyReader(SETTINGS, start, self.told.append, lambda: self.topic.now_s)

    async def read(self) -> tuple[PolicyRefusal, ...]:
        return await self.reader.read_from(self.topic)

    def versions(self) -> list[str]:
        return [each.key for each in self.reader.timeline.holding]


async def test_all_that_is_there_at_the_start_is_read_however_it_comes() -> None:
    room = Room()
    for policy in (ONE, TWO):
        room.topic.publish(policy)
    room.topic.batch = 1
    assert await room.read() == ()
    assert room.versions() == ["test@1", "test@2"]
    assert room.told == [room.reader.timeline]


async def test_an_empty_topic_is_read_at_once_and_logs_nothing() -> None:
    room = Room()
    await room.read()
    assert (room.topic.looks, room.told) == (1, [])
    await room.reader.current()


async def test_records_that_arrive_during_a_read_wait_for_the_next() -> None:
    room = Room()
    room.topic.publish(ONE)
    room.topic.on_read = lambda: room.topic.publish(TWO) if len(room.topic.records) == 1 else None
    await room.read()
    await room.reader.look()
    assert room.versions() == ["test@1", "test@2"]


async def test_a_refused_record_is_returned_and_the_rest_is_read() -> None:
    room = Room()
    room.topic.append(b"x@1", b"broken")
    room.topic.publish(ONE)
    [refusal] = await room.read()
    assert (refusal.record.offset, refusal.error.code) == (0, "not_json")
    assert refusal.record.headers == (("traceparent", b"00-1"),)
    assert room.versions() == ["test@1"]


async def test_answers_continue_for_half_the_settle_time_after_a_look() -> None:
    room = Room()
    await room.read()
    room.topic.now_s = 30.0
    await room.reader.current()
    room.topic.now_s = 30.001
    with pytest.raises(PoliciesUnreadError, match="context-policies could not be read to its end"):
        await room.reader.current()


async def test_a_look_counts_from_when_it_began() -> None:
    room = Room()
    room.topic.publish(ONE)

    def pass_time() -> None:
        room.topic.now_s += 31.0

    room.topic.on_read = pass_time
    await room.read()
    with pytest.raises(PoliciesUnreadError):
        await room.reader.current()


async def test_a_wait_for_the_end_ends_at_the_next_look() -> None:
    room = Room()
    await room.read()
    room.topic.now_s = 100.0
    waiting = asyncio.create_task(room.reader.current())
    await asyncio.sleep(0)
    assert not waiting.done()
    await room.reader.look()
    await waiting


async def test_a_topic_that_ends_before_the_read_position_fails() -> None:
    room = Room()
    room.topic.publish(ONE)
    await room.read()
    room.topic.records.clear()
    with pytest.raises(PoliciesUnreadError, match="ends at offset 0, and was read up to 1"):
        await room.read()


async def test_an_open_transaction_makes_the_end_unknown() -> None:
    room = Room()
    room.topic.publish(ONE)
    room.topic.publish(TWO)
    room.topic.stable_end = 1
    with pytest.raises(PoliciesUnreadError, match="after offset 1: is a transaction open there"):
        await room.read()
    room.topic.stable_end = None
    await room.read()
    assert room.topic.at == 2


async def test_unreachable_brokers_are_retried_logged_once_and_refusals_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room, lines = Room(), list[str]()
    monkeypatch.setattr(policies_topic, "log_fact", lambda message, **_: lines.append(message))
    await room.read()
    room.topic.append(b"x@1", b"broken")
    refused: list[tuple[PolicyRefusal, ...]] = []
    script = iter([KafkaConnectionError(), KafkaConnectionError(), None, None, None])

    async def next_step(_: float) -> None:
        room.topic.error = next(script)

    async def refuse(refusals: tuple[PolicyRefusal, ...]) -> None:
        refused.append(refusals)
        if len(refused) == 1:
            raise KafkaConnectionError

    monkeypatch.setattr("apportion.shell.kafka.policies_topic.asyncio.sleep", next_step)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await room.reader.follow(refuse)
    assert len(refused) == 2
    assert refused[0] == refused[1]
    assert lines == ["policies are not read", "policy refused", "policies read", "policies are read again"]


async def test_file_policies_are_announced_to_the_group_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = Room()

    async def write(_: Settings, messages: Any) -> None:
        for message in messages:
            room.topic.append(message.key, message.value)

    monkeypatch.setattr(policies_topic, "write", write)
    await room.read()
    for _ in range(2):
        await room.reader.publish_files()
    assert [record.key for record in room.topic.records] == [files_key(SETTINGS.app_id)]
    assert room.reader.timeline.latest_files == (FILE,)


async def test_differing_file_policies_of_the_group_are_logged_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room, told = Room(), list[Any]()
    monkeypatch.setattr(
        policies_topic, "log_fact", lambda message, **fields: told.append((message, fields.get("policies")))
    )
    other = lanes_policy(version="0", budget_tokens=9_000)
    room.topic.append(files_key(SETTINGS.app_id), files_value([other, ONE]))
    await room.read()
    assert ("file policies differ from those of the group", "test@0,test@1") in told


async def test_versions_differ_by_content_or_where_only_one_has_them() -> None:
    other = lanes_policy(version="1", budget_tokens=9_000)
    assert different([ONE, TWO], [TWO, ONE]) == ()
    assert different([ONE, FILE], [other, TWO]) == ("test@0", "test@1", "test@2")
