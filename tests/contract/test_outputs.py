"""A worker writes into output topics that are its own alone."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from support.commands import process
from support.running import Stage, own_settings, request, staged, variables_of, worker_running

from apportion.settings import Settings
from apportion.shell.kafka.output_ownership import SharedOutputsError, require_own_outputs

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def stage(bootstrap_servers: str) -> AsyncIterator[Stage]:
    """Outputs that hold two answers and a dead letter, on one partition of four."""
    async with staged(own_settings(bootstrap_servers)) as made:
        await made.send(request("1"), request("2"), request("3", nobody_knows="this"))
        async with worker_running(made.settings) as worker:
            await made.outputs.wait_for(lambda out: len(out.decisions) == 2 and len(out.dead_letters) == 1)
            assert await worker.stop() == 0
        yield made


def other(settings: Settings, **changes: str) -> Settings:
    return Settings(**settings.model_dump() | {"app_id": "staging"} | changes)


async def test_topics_belong_to_the_app_id_that_wrote_last(stage: Stage) -> None:
    settings = stage.settings
    await require_own_outputs(settings)
    with pytest.raises(
        SharedOutputsError, match=rf"-composed .*{settings.app_id} wrote, and this is staging"
    ):
        await require_own_outputs(other(settings))
    await require_own_outputs(other(settings, takes_over=settings.app_id))


@pytest.mark.parametrize("shared", ["composed", "decisions", "dead_letters"])
async def test_one_shared_output_is_enough(stage: Stage, shared: str) -> None:
    settings = stage.settings
    kinds = {"composed", "decisions", "dead_letters"} - {shared}
    own = other(settings, **{f"{kind}_topic": f"{settings.app_id}-staging-{kind}" for kind in kinds})
    async with staged(own):
        with pytest.raises(SharedOutputsError, match=f"-{shared} "):
            await require_own_outputs(own)


async def test_a_worker_with_another_app_id_refuses_and_names_the_setting(stage: Stage) -> None:
    beside = other(stage.settings, app_id=f"{stage.settings.app_id}-staging")
    async with staged(beside), worker_running(beside, until_ready=False) as worker:
        assert await worker.ended() == 1
    assert f"apportion: outputs_shared: {stage.settings.composed_topic} (partition" in worker.log
    assert f"set takes_over = {stage.settings.app_id}" in worker.log
    assert len((await stage.outputs.wait_for_end()).decisions) == 2


async def test_a_check_with_another_app_id_is_refused_before_a_changelog_exists(stage: Stage) -> None:
    beside = variables_of(other(stage.settings, app_id=f"{stage.settings.app_id}-staging"))
    checked = await asyncio.to_thread(lambda: process("topics", "check", stdin=b"", **beside))
    assert checked.exit_code == 1
    assert b"-sessions-changelog\tmissing" in checked.out
    assert checked.err.startswith(f"apportion: outputs_shared: {stage.settings.composed_topic} (partition")


async def test_a_prefix_separates_the_outputs(bootstrap_servers: str) -> None:
    prefix = own_settings(bootstrap_servers).app_id
    arguments = ("--brokers", bootstrap_servers, "--topic-prefix", f"{prefix}.", "--app-id", prefix)
    small = ("--partitions", "1", "--replication-factor", "1")
    made = process("topics", "create", *arguments, *small)
    assert made.exit_code == 0, made.err
    assert f"{prefix}.context-composed".encode() in made.out
    assert process("topics", "check", *arguments, *small).exit_code == 0


async def test_a_second_installation_with_the_same_app_id_ends(stage: Stage) -> None:
    settings = stage.settings
    kinds = ("requests", "policies", "composed", "decisions", "dead_letters", "usage")
    own = {f"{kind}_topic": f"staging.{settings.app_id}-{kind}" for kind in kinds}
    staging = Settings(**settings.model_dump() | own)
    async with worker_running(settings) as worker, staged(staging):
        async with worker_running(staging, until_ready=False) as beside:
            assert await beside.ended() == 1
        assert f"apportion: group_shared: the group {settings.app_id} has committed offsets of" in beside.log
        await stage.send(request("4"))
        await stage.outputs.wait_for(lambda out: out.answered(["4"]))
        assert await worker.stop() == 0
