"""The running worker on every broker: one answer for each request, one dead letter for each bad event."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaProducer
from support.composing import candidate
from support.running import NEVER_TOO_MANY, Outputs, Stage, ids, own_settings, request, staged, worker_running

from apportion.core.errors import ErrorCode
from apportion.core.session.row import EMPTY
from apportion.shell.kafka.partitioning import partition_of
from apportion.shell.stream.state.row_format import Row

pytestmark = pytest.mark.asyncio

TRACE = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest_asyncio.fixture
async def stage(bootstrap_servers: str) -> AsyncIterator[Stage]:
    async with staged(own_settings(bootstrap_servers, **NEVER_TOO_MANY)) as made:
        yield made


async def test_a_request_gives_a_composed_event_and_its_decision(stage: Stage) -> None:
    async with worker_running(stage.settings):
        await stage.send(request("r1", "s1"))
        outputs = await stage.outputs.wait_for(lambda out: out.answered(["r1"]))
    [composed], [decision] = outputs.composed, outputs.decisions
    assert composed["status"] == "composed"
    assert composed["decision_id"] == decision["decision_id"]
    assert {record.key for record in outputs.records} == {b"default/s1"}
    assert len({record.partition for record in outputs.records}) == 1
    assert decision["run"]["source"] == {
        "topic": stage.settings.requests_topic,
        "partition": outputs.records[0].partition,
        "offset": 0,
    }
    assert [phase["name"] for phase in decision["run"]["phases"]] == ["decode", "prepare", "choose", "record"]


async def test_events_leave_as_cloudevents_and_pass_the_trace_on(stage: Stage) -> None:
    async with worker_running(stage.settings):
        await stage.send(request("r1"), headers=(("traceparent", TRACE), ("tracestate", b"a=b")))
        outputs = await stage.outputs.wait_for(lambda out: out.answered(["r1"]))
    [composed] = outputs.of(stage.settings.composed_topic)
    [decision] = outputs.of(stage.settings.decisions_topic)
    identity = json.loads(composed.value)["decision_id"]
    expected = {
        "content-type": b"application/json",
        "ce_specversion": b"1.0",
        "ce_source": f"apportion/{stage.settings.app_id}".encode(),
        "ce_time": b"2026-03-01T12:00:00Z",
        "traceparent": TRACE,
        "tracestate": b"a=b",
    }
    for record, kind in ((composed, "composed"), (decision, "decision")):
        own = {"ce_type": f"context-{kind}.v1".encode(), "ce_id": f"{identity}-{kind}".encode()}
        assert dict(record.headers) == expected | own


async def test_events_in_structured_mode_are_read(stage: Stage) -> None:
    envelope = {"specversion": "1.0", "id": "1", "source": "test", "type": "request", "data": request("r1")}
    content_type = (("Content-Type", b"application/cloudevents+json; charset=UTF-8"),)
    async with worker_running(stage.settings):
        await stage.send_raw(b"default/s", json.dumps(envelope).encode(), content_type)
        outputs = await stage.outputs.wait_for(lambda out: out.answered(["r1"]))
    assert outputs.dead_letters == []


async def test_answers_keep_the_order_of_their_session(stage: Stage) -> None:
    sessions = [f"s{number}" for number in range(5)]
    events = [request(f"{session}-{turn}", session) for turn in range(10) for session in sessions]
    async with worker_running(stage.settings):
        await stage.send(*events)
        outputs = await stage.outputs.wait_for(
            lambda out: out.answered(event["request_id"] for event in events)
        )
    for session in sessions:
        own = [event for event in outputs.composed if event["session_id"] == session]
        assert [event["request_id"] for event in own] == [f"{session}-{turn}" for turn in range(10)]
        assert [event["session"]["prompts"] for event in own] == list(range(1, 11))


async def test_a_published_artifact_answers_with_nothing_and_shows_in_the_next_decision(stage: Stage) -> None:
    artifact = {
        "type": "context-artifact",
        "session_id": "s",
        "published_at": "2026-03-01T11:00:00Z",
        "source": "test",
        "artifact": candidate("pooled", 25),
    }
    async with worker_running(stage.settings):
        await stage.send(artifact, request("r1"))
        outputs = await stage.outputs.wait_for(lambda out: out.answered(["r1"]))
    assert len(outputs.records) == 2
    assert "pooled" in {item["id"] for item in outputs.composed[0]["items"]}


class Bad(NamedTuple):
    """A record that is no event of its session, and its error."""

    value: bytes | None
    code: ErrorCode
    pointer: str = "$"
    key: bytes | None = b"default/s"
    partition_moved: int = 0


def changed(**changes: Any) -> bytes:
    return json.dumps(request("bad") | changes).encode()


BAD = (
    Bad(None, ErrorCode.EMPTY_VALUE),
    Bad(b"", ErrorCode.EMPTY_VALUE),
    Bad(b"\xff{", ErrorCode.NOT_JSON),
    Bad(b"{" * 5_000, ErrorCode.TOO_DEEP),
    Bad(b" " * 70_000 + b"{}", ErrorCode.TOO_LARGE),
    Bad(changed(type="context-wish"), ErrorCode.UNKNOWN_TYPE, "$.type"),
    Bad(changed(wish=1), ErrorCode.UNKNOWN_FIELD, "$.wish"),
    Bad(b'{"type": "context-request"}', ErrorCode.MISSING_FIELD, "$.request_id"),
    Bad(changed(budget_tokens="1"), ErrorCode.WRONG_TYPE, "$.budget_tokens"),
    Bad(changed(requested_at="yesterday"), ErrorCode.INVALID_TIMESTAMP, "$.requested_at"),
    Bad(changed(policy="nobody's"), ErrorCode.UNKNOWN_POLICY, "$.policy"),
    Bad(changed(layers={}), ErrorCode.UNSUPPORTED_FIELD, "$.layers"),
    Bad(changed(candidates=[candidate("c", lane="no")]), ErrorCode.UNKNOWN_LANE, "$.candidates[0].lane"),
    Bad(changed(request_id="good-0", budget_tokens=1), ErrorCode.CONFLICTING_REQUEST, "$.request_id"),
    Bad(changed(), ErrorCode.WRONG_KEY, key=b"s"),
    Bad(changed(), ErrorCode.WRONG_KEY, key=None),
    Bad(changed(), ErrorCode.WRONG_PARTITION, partition_moved=1),
)


async def test_each_kind_of_bad_event_gives_one_dead_letter_and_the_rest_is_answered(
    bootstrap_servers: str,
) -> None:
    settings = own_settings(bootstrap_servers, event_max_bytes=65_536, **NEVER_TOO_MANY)
    home = partition_of(b"default/s", settings.partitioner, settings.partitions)
    assert home is not None
    good = [f"good-{number}" for number in range(len(BAD) + 1)]
    headers = (("source", b"test"), ("flags", b"\xff"))
    async with staged(settings) as stage, worker_running(settings):
        await stage.send(request(good[0]))
        for bad, after in zip(BAD, good[1:], strict=True):
            partition = (home + bad.partition_moved) % settings.partitions
            await stage.send_raw(bad.key, bad.value, headers, partition)
            await stage.send(request(after))
        outputs = await stage.outputs.wait_for(
            lambda out: out.answered(good) and len(out.dead_letters) == len(BAD)
        )
    assert [event["request_id"] for event in outputs.composed] == good
    letters = {
        (letter["source"]["partition"], letter["source"]["offset"]): letter for letter in outputs.dead_letters
    }
    at_home = [letters[home, 2 * number + 1] for number in range(len(BAD) - 1)]
    for bad, letter in zip(BAD, [*at_home, letters[(home + 1) % settings.partitions, 0]], strict=True):
        assert (letter["error"]["code"], letter["error"]["pointer"]) == (bad.code, bad.pointer)
        assert letter["source"]["topic"] == settings.requests_topic
        assert bytes_of(letter["key"]) == bad.key
        assert bytes_of(letter["value"]) == bad.value
        assert letter["headers"] == [[name, base64.b64encode(value).decode()] for name, value in headers]
    keys = [str(record.key) for record in outputs.of(settings.dead_letters_topic)]
    assert sorted(keys) == sorted(str(bad.key) for bad in BAD)
    assert "partitioner=murmur2_random" in letters[(home + 1) % settings.partitions, 0]["error"]["message"]


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


async def test_an_event_that_is_larger_than_a_fetch_is_read_and_what_follows_it(stage: Stage) -> None:
    async with worker_running(stage.settings):
        await stage.send_raw(b"default/s", b" " * (3 << 20))
        await stage.send(request("r1"))
        outputs = await stage.outputs.wait_for(lambda out: out.answered(["r1"]))
        await stage.outputs.wait_for(lambda out: bool(out.dead_letters))
    assert [letter["error"]["code"] for letter in outputs.dead_letters] == [ErrorCode.TOO_LARGE]


async def test_events_that_a_session_has_seen_are_passed_over(stage: Stage) -> None:
    await stage.write_row("s", Row(seen_offset=1, session=EMPTY))
    await stage.send(request("r0"), request("r1"), request("r2"))
    async with worker_running(stage.settings):
        outputs = await stage.outputs.wait_for(lambda out: out.answered(["r2"]))
    assert [event["request_id"] for event in outputs.composed] == ["r2"]
    assert [event["request_id"] for event in outputs.decisions] == ["r2"]


async def test_offsets_that_markers_of_transactions_take_are_no_lost_events(stage: Stage) -> None:
    settings = stage.settings
    names = [f"r{number}" for number in range(6)]
    partition = partition_of(b"default/s", settings.partitioner, settings.partitions)
    producer = AIOKafkaProducer(bootstrap_servers=list(settings.brokers), transactional_id=settings.app_id)
    async with worker_running(settings), producer:
        for name in names:
            async with producer.transaction():
                value = json.dumps(request(name)).encode()
                await producer.send(settings.requests_topic, value, key=b"default/s", partition=partition)
        outputs = await stage.outputs.wait_for(lambda out: out.answered(names))
    assert [event["request_id"] for event in outputs.composed] == names
    offsets = [decision["run"]["source"]["offset"] for decision in outputs.decisions]
    assert offsets == [0, 2, 4, 6, 8, 10]


class NotTakenError(Exception):
    """Raised by a test to abort a transaction."""


async def test_requests_of_aborted_transactions_are_neither_answered_nor_charged(kafka: str) -> None:
    """Run on Apache Kafka alone.

    The embedded broker lists an aborted transaction in every answer, even if its marker is before the fetched
    offsets. A client then never reads the marker, and treats later commits of that producer as aborted.
    """
    settings = own_settings(kafka)
    partition = partition_of(b"default/s", settings.partitioner, settings.partitions)
    producer = AIOKafkaProducer(bootstrap_servers=list(settings.brokers), transactional_id=settings.app_id)

    async def send_all(*names: str, abort: bool) -> None:
        with suppress(NotTakenError):
            async with producer.transaction():
                for name in names:
                    value = json.dumps(request(name)).encode()
                    await producer.send_and_wait(
                        settings.requests_topic, value, key=b"default/s", partition=partition
                    )
                if abort:
                    raise NotTakenError

    async with staged(settings) as stage, producer:
        await send_all("aborted-0", abort=True)
        await send_all("r0", "r1", abort=False)
        async with worker_running(settings) as worker:
            await send_all("aborted-1", "aborted-2", abort=True)
            await send_all("r2", abort=False)
            await stage.outputs.wait_for(lambda out: out.answered(["r0", "r1", "r2"]))
            assert await worker.stop() == 0
        await send_all("aborted-3", abort=True)
        await send_all("r3", abort=False)
        async with worker_running(settings) as worker:
            await stage.outputs.wait_for(lambda out: out.answered(["r3"]))
            assert await worker.stop() == 0
        outputs = await stage.outputs.wait_for_end()
        assert [event["request_id"] for event in outputs.composed] == ["r0", "r1", "r2", "r3"]
        assert (await stage.last_row("s"))["session"]["prompts"] == 4


async def test_rows_of_a_topic_that_is_gone_stop_the_worker(stage: Stage) -> None:
    await stage.write_row("s", Row(seen_offset=1_000, session=EMPTY))
    await stage.send(request("r0"))
    async with worker_running(stage.settings, until_ready=False) as worker:
        assert await worker.ended() == 1
    assert "apportion: topic_replaced: " in worker.log
    assert (await stage.outputs.wait_for_end()).records == []


async def test_too_many_dead_letters_stop_the_worker_instead_of_emptying_the_topic(
    bootstrap_servers: str,
) -> None:
    settings = own_settings(bootstrap_servers, dead_letter_window=10, dead_letter_share_max=0.5)
    well = [request(f"r{number}", tenant=f"tenant{number}") for number in range(40)]
    async with staged(settings) as stage:
        async with worker_running(settings) as worker:
            await stage.send(*well)
            await stage.outputs.wait_for(lambda out: out.answered(ids(well)))
            for number in range(160):
                await stage.send_raw(f"tenant{number % 40}/s".encode(), b"no event")
            await stage.producer.flush()
            assert await worker.ended() == 1
        outputs = await stage.outputs.wait_for_end()
    assert 10 <= len(outputs.dead_letters) < 160
    assert "apportion: too_many_dead_letters: 10 of the last 10 events" in worker.log


def has_dead_letters(count: int) -> Callable[[Outputs], bool]:
    return lambda out: len(out.dead_letters) >= count


async def test_invented_tenants_stop_neither_a_worker_nor_its_restart(
    bootstrap_servers: str,
) -> None:
    settings = own_settings(bootstrap_servers, dead_letter_window=10, dead_letter_share_max=0.5)
    good = [request(f"r{number}", tenant=f"t{number}") for number in range(5)]
    async with staged(settings) as stage:
        await stage.send(*good)
        for dead_letters in (400, 800):
            async with worker_running(settings) as worker:
                await stage.outputs.wait_for(lambda out: out.answered(ids(good)))
                for number in range(400):
                    await stage.send_raw(f"invented{number}/s".encode(), b"no event")
                await stage.outputs.wait_for(has_dead_letters(dead_letters))
                assert await worker.stop() == 0, worker.log


async def test_one_bad_producer_stops_no_worker(bootstrap_servers: str) -> None:
    settings = own_settings(bootstrap_servers, dead_letter_window=20)
    good = [request(f"good-{number}", f"s{number}", tenant=f"t{number % 5}") for number in range(20)]
    wrong = {"candidates": [candidate("c", lane="no")], "tenant": "acme"}
    async with staged(settings) as stage:
        await stage.send(*(request(f"bad-{number}", f"s{number % 8}", **wrong) for number in range(40)))
        async with worker_running(settings) as worker:
            await stage.outputs.wait_for(lambda out: len(out.dead_letters) == 40)
            await stage.send(*good)
            await stage.outputs.wait_for(lambda out: out.answered(one["request_id"] for one in good))
            assert await worker.stop() == 0
    assert f"code={ErrorCode.UNKNOWN_LANE} place={settings.requests_topic}" in worker.log
    assert worker.log.count("dead letter") < 40
