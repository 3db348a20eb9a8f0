"""Decisions verified where they lie: a worker's own topics, read from a broker."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete
from support.commands import Ended, process
from support.composing import candidate
from support.recording import altered, published
from support.running import Stage, ids, own_settings, requests, staged, variables_of, worker_running

from apportion.decisions.recompose import run
from apportion.decisions.recompose.ranges import RecordSelection
from apportion.decisions.replay.findings import VerificationSummary
from apportion.decisions.replay.replaying import WhatIf
from apportion.decisions.replay.sums import Sum
from apportion.decisions.replay.whatif import Change, DecisionDifference
from apportion.settings import Settings
from apportion.shell.kafka.admin import admin_client

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def stage(bootstrap_servers: str) -> AsyncIterator[Stage]:
    async with staged(own_settings(bootstrap_servers)) as made:
        yield made


async def ran(settings: Settings, *arguments: str | Path) -> Ended:
    """Run a command with these settings."""
    return await asyncio.to_thread(lambda: process(*arguments, stdin=b"", **variables_of(settings)))


async def verified(settings: Settings, *arguments: str | Path) -> Ended:
    return await ran(settings, "verify", "--from-topics", *arguments)


async def answered(stage: Stage, name: str, count: int) -> None:
    """Have a worker answer requests of all sessions."""
    sent = requests(name, count)
    await stage.send(*sent)
    async with worker_running(stage.settings) as worker:
        await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
        assert await worker.stop() == 0


async def replayed(settings: Settings, *arguments: str | Path) -> Ended:
    return await ran(settings, "replay", "--from-topics", *arguments)


async def without_first_requests(settings: Settings, end_offset: int) -> None:
    """Let the first requests of each partition be gone, as retention does."""
    gone = {
        TopicPartition(settings.requests_topic, partition): RecordsToDelete(end_offset)
        for partition in range(settings.partitions)
    }
    async with admin_client(settings) as admin:
        await admin.delete_records(gone)


async def test_a_snapshot_replaces_the_events_before_it(stage: Stage, tmp_path: Path) -> None:
    settings, file = stage.settings, tmp_path / "rows.jsonl"
    await stage.send(*[published(candidate("p", 30), f"s{number}") for number in range(8)])
    await stage.send_raw(b"default/s1", b"no json")
    await answered(stage, "first", 16)
    await stage.send(*requests("unanswered", 3))

    whole = await verified(settings)
    assert (whole.exit_code, whole.err) == (0, "")
    assert whole.out == b"16 decisions verified, 1 dead letter verified, 0 differences, 3 in flight\n"

    assert (await ran(settings, "snapshot", file)).out.startswith(b"8 rows of 4 partitions")
    again = await ran(settings, "snapshot", file)
    assert (again.exit_code, again.err.split(":")[1]) == (2, " file_exists")
    await answered(stage, "second", 16)

    rest = await verified(settings, "--snapshot", file)
    assert (rest.exit_code, rest.out) == (0, b"19 decisions verified, 0 differences\n")
    whole = await verified(settings)
    assert whole.out == b"35 decisions verified, 1 dead letter verified, 0 differences\n"

    rest = await replayed(settings, "--budget", "0", "--snapshot", file, "--evolve")
    assert (rest.exit_code, b"19 decisions replayed, 19 changed" in rest.out) == (0, True)

    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    wrong = await verified(settings, "--snapshot", file)
    assert (wrong.exit_code, "invalid_snapshot" in wrong.err) == (2, True)


async def test_expired_requests_are_unverifiable_without_a_snapshot(kafka: str, tmp_path: Path) -> None:
    async with staged(own_settings(kafka, partitions=1)) as stage:
        settings, file = stage.settings, tmp_path / "rows.jsonl"
        await answered(stage, "first", 16)
        await ran(settings, "snapshot", file)
        await answered(stage, "second", 8)
        await without_first_requests(settings, 16)
        told = await verified(settings)
        assert told.exit_code == 1
        assert told.out.splitlines()[-1] == (
            b"0 decisions verified, 0 differences, 24 unverifiable (session_history 8, event_gone 16)"
        )
        assert (await verified(settings, "--snapshot", file)).out == b"8 decisions verified, 0 differences\n"


async def test_a_forged_log_is_reported_by_partition_and_offset(kafka: str) -> None:
    other = own_settings(kafka, partitions=1)
    async with staged(own_settings(kafka, partitions=1)) as stage, staged(other):
        await answered(stage, "r", 6)
        forged = stage.settings.model_copy(update={"decisions_topic": other.decisions_topic})
        decisions = [one.value for one in stage.outputs.of(stage.settings.decisions_topic)]
        decisions[1] = altered(decisions[1], "tokens", "used", value=7)
        for value in (*decisions[:4], *decisions[5:]):
            await stage.producer.send_and_wait(forged.decisions_topic, value, b"default/s", partition=0)
        difference, missing, whole = (await verified(forged)).out.decode().splitlines()
        assert difference.startswith("decisions 0/1 (event 0/1): difference at $.tokens.used: 7 recorded, ")
        assert missing.startswith("decisions (event 0/4): no_decision [")
        assert whole == "4 decisions verified, 1 difference, 1 unverifiable (no_decision 1)"


async def test_unreadable_topics_are_named_and_not_created(kafka: str, tmp_path: Path) -> None:
    settings = own_settings(kafka)
    missing = await verified(settings)
    assert (missing.exit_code, missing.err.split(":")[1]) == (1, " topic_missing")
    assert (await verified(settings)).err == missing.err
    gone = own_settings("127.0.0.1:1", request_timeout_s=1.0)
    page = tmp_path / "page.html"
    reported = await ran(gone, "report", "--from-topics", "--output", page)
    for away in (await verified(gone), await replayed(gone, "--budget", "0"), reported):
        assert (away.exit_code, away.err.split(":")[1]) == (1, " broker_unreachable")


async def test_parallel_partitions_give_the_same_result_as_sequential_ones(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(own_settings(kafka)) as stage:
        await answered(stage, "r", 16)
        await stage.send(*requests("unanswered", 8))
        alone = await asyncio.to_thread(recomposed, stage.settings)
        told, whole = await asyncio.to_thread(replayed_here, stage.settings)
        monkeypatch.setattr(run, "_PARALLEL_EVENTS_MIN", 0)
        assert await asyncio.to_thread(recomposed, stage.settings) == alone
        assert alone == VerificationSummary(verified=16, in_flight=8)
        assert await asyncio.to_thread(replayed_here, stage.settings) == (told, whole)
        assert (len(told), whole.replayed, whole.changed, whole.in_flight) == (16, 16, 16, 8)


def recomposed(settings: Settings) -> VerificationSummary:
    """Verify in this process, or from it."""
    with run.open_run(settings, RecordSelection()) as opened:
        assert list(opened.run(lambda _: None)) == []
        return opened.summary


def replayed_here(settings: Settings) -> tuple[dict[str, DecisionDifference], Sum]:
    """Replay in this process or its children; parallel partitions report decisions in any order."""
    with run.open_run(settings, RecordSelection()) as opened:
        told = list(opened.replay(WhatIf(Change(budget_tokens=0)), lambda _: None))
        return {
            decision.decision_id: decision for decision in told if isinstance(decision, DecisionDifference)
        }, opened.sum


async def test_a_share_is_verified_during_the_stream(kafka: str) -> None:
    async with staged(own_settings(kafka, verify_share=1.0)) as stage:
        sent = requests("r", 40)
        await stage.send(*sent)
        async with worker_running(stage.settings) as worker:
            await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
            assert await worker.stop() == 0
            [told] = [line for line in worker.lines if "verified beside the stream" in line]
            assert "differences=0" in told
            assert "failed=0" in told


async def test_a_report_covers_the_records_of_a_time_range(stage: Stage, tmp_path: Path) -> None:
    settings, page = stage.settings, tmp_path / "page.html"
    await stage.send_raw(b"default/s1", b"no json")
    await answered(stage, "r", 12)
    ranged = ("report", "--from-topics", "--output", page, "--since")
    ended = await ran(settings, *ranged, "2020-01-01T00:00:00Z")
    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.out.decode().startswith(f"{page}: 12 decisions, 12 to open, ")
    assert '"not_json"' in page.read_text()
    again = await ran(settings, *ranged, "2020-01-01T00:00:00Z")
    assert (again.exit_code, "--force" in again.err) == (2, True)
    none = await ran(settings, *ranged, "2120-01-01T00:00:00Z", "--force")
    assert (none.exit_code, none.err.split(":")[1]) == (1, " no_decisions")
    assert '"not_json"' in page.read_text()
    before = await ran(
        settings, *ranged, "2019-01-01T00:00:00Z", "--until", "2020-01-01T00:00:00Z", "--force"
    )
    assert (before.exit_code, before.err.split(":")[1]) == (1, " no_decisions")


async def test_a_range_is_given_by_offsets_or_time(kafka: str) -> None:
    async with staged(own_settings(kafka, partitions=1)) as stage:
        await answered(stage, "r", 12)
        settings = stage.settings
        some = await verified(settings, "--offsets", "0:4-6")
        assert (some.exit_code, some.out) == (0, b"3 decisions verified, 0 differences\n")
        some = await replayed(settings, "--offsets", "0:4-6", "--budget", "0", "--format", "json")
        *each, whole = map(json.loads, some.out.splitlines())
        assert (some.exit_code, whole["replayed"], whole["tokens_after"]) == (0, 3, 0)
        assert [one["after"]["status"] for one in each] == ["disabled"] * 3
        assert (await verified(settings, "--until", "2020-01-01T00:00:00Z")).out.startswith(b"0 decisions")
        since = await verified(settings, "--since", "2020-01-01T00:00:00Z")
        assert since.out == b"12 decisions verified, 0 differences\n"
        none = await verified(settings, "--since", "2120-01-01T00:00:00Z")
        assert (none.exit_code, none.out) == (0, b"0 decisions verified, 0 differences\n")
        assert none.err == "apportion: nothing was compared: there is no request and no decision\n"
        identity = stage.outputs.decisions[0]["decision_id"]
        one = await ran(settings, "explain", identity[:12], "--from-topics", "--candidate", "b")
        assert (one.exit_code, identity.encode() in one.out) == (0, True)
        none = await verified(settings, "--offsets", "7:0-1")
        assert (none.exit_code, none.err.split(":")[1]) == (2, " no_such_partition")
