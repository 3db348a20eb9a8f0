"""Failures of workers and brokers: no event is lost, charged twice or altered; see `docs/reliability.md`.

These are the short forms, each with one seed. The long forms run the same tests with many seeds.
"""

import asyncio
import importlib
import sys
from collections.abc import Awaitable, Callable
from functools import reduce
from pathlib import Path
from signal import SIGKILL, SIGSTOP

import pytest
from reliability import scenarios
from reliability.batches import mutated_batches
from reliability.gateway_kills import gateway_killed
from reliability.scenarios import Outcome
from reliability.steps import GATEWAY_STEPS, STEPS, gateway_strikes, strikes

from apportion.settings.value_types import Guarantee

SEED = 1
WOKEN_AT = {
    Guarantee.EFFECTIVELY_ONCE: ("compose", "outputs", "rows", "committed"),
    Guarantee.EXACTLY_ONCE: ("compose", "records", "transaction ends", "committed"),
}


def require_right(outcome: Outcome) -> None:
    sys.stderr.write(f"{outcome}\n")  # pytest shows it where a test fails
    assert outcome.audited.is_right, outcome.audited.found
    assert outcome.audited.dead_letters > 0, "some events are bad in every run"


async def require_right_under_both_guarantees(
    scenario: Callable[[Guarantee, Path], Awaitable[Outcome]], tmp_path: Path
) -> None:
    """Run a scenario under both guarantees at once, as its workers wait for most of the time."""

    async def run(guarantee: Guarantee) -> Outcome:
        folder = tmp_path / guarantee
        folder.mkdir()
        return await scenario(guarantee, folder)

    async with asyncio.TaskGroup() as group:
        tasks = {guarantee: group.create_task(run(guarantee)) for guarantee in Guarantee}
    for task in tasks.values():
        require_right(task.result())
    exact = tasks[Guarantee.EXACTLY_ONCE].result()
    assert exact.audited.repeated == exact.audited.late_rows == 0


@pytest.mark.parametrize(
    "step", sorted({place for steps in (*STEPS.values(), GATEWAY_STEPS) for place in steps.values()})
)
def test_a_step_at_which_processes_are_struck_is_there(step: str) -> None:
    module, _, path = step.partition(":")
    assert callable(reduce(getattr, path.split("."), importlib.import_module(module)))


@pytest.mark.asyncio
async def test_a_kill_at_each_step_of_a_batch_and_another_policy_file_change_nothing(
    servers: str, tmp_path: Path
) -> None:
    async def killed(guarantee: Guarantee, folder: Path) -> Outcome:
        once = {strike.step: strike for strike in strikes(SEED, SIGKILL, guarantee)}
        outcome = await scenarios.killed_at_steps(
            servers, folder, SEED, list(once.values()), workers=4, guarantee=guarantee
        )
        assert outcome.kills >= len(once)
        return outcome

    await require_right_under_both_guarantees(killed, tmp_path)


@pytest.mark.asyncio
async def test_workers_that_come_and_go_under_load_change_nothing(servers: str, tmp_path: Path) -> None:
    require_right(await scenarios.rebalanced(servers, tmp_path, SEED, phase_s=6.0))


@pytest.mark.asyncio
async def test_workers_that_wake_too_late_change_nothing(servers: str, tmp_path: Path) -> None:
    async def woken(guarantee: Guarantee, folder: Path) -> Outcome:
        before = {
            strike.step: strike for strike in strikes(SEED, SIGSTOP, guarantee) if strike.when == "before"
        }
        chosen = [before[step] for step in WOKEN_AT[guarantee]]
        return await scenarios.woken_too_late(servers, folder, SEED, chosen, guarantee=guarantee)

    await require_right_under_both_guarantees(woken, tmp_path)


@pytest.mark.asyncio
async def test_connections_that_break_and_a_silent_broker_change_nothing(
    servers: str, tmp_path: Path
) -> None:
    require_right(await scenarios.badly_connected(servers, tmp_path, SEED, cuts=4, held_s=(5.0,)))


@pytest.mark.asyncio
async def test_late_rows_of_zombies_survive_compaction_without_harm(servers: str, tmp_path: Path) -> None:
    chosen = [each for each in strikes(SEED, SIGSTOP) if each.step in ("outputs acknowledged", "rows")]
    require_right(await scenarios.compacted(servers, tmp_path, SEED, chosen))


@pytest.mark.asyncio
async def test_calls_over_http_are_answered_and_charged_once_while_workers_and_gateways_are_killed(
    servers: str, tmp_path: Path
) -> None:
    before = [strike for strike in strikes(SEED, SIGKILL) if strike.when == "before"]
    workers = [strike for strike in before if strike.step == "rows"]
    gateways = [strike for strike in gateway_strikes(SEED, SIGKILL, rounds=1) if strike.step == "publish"]
    outcome = await gateway_killed(servers, tmp_path, SEED, workers, gateways, workers=2)
    require_right(outcome)
    assert outcome.kills == len(workers) + len(gateways) == 3


@pytest.mark.asyncio
async def test_mutated_record_batches_end_no_worker_and_cost_no_request_around_them(servers: str) -> None:
    campaign = await mutated_batches(servers, SEED, 400)
    sys.stderr.write(f"{campaign}\n")
    assert campaign.is_right, campaign.faults
    assert min(campaign.damaged, campaign.written, campaign.refused) > 0
    assert campaign.letters["unreadable_record"] > 0
