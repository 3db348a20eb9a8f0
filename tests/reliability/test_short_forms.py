"""What is done to workers and brokers leaves nothing lost, charged twice or altered; `docs/reliability.md`.

These are the short forms, each of one seed: the long ones run the same with many.
"""

import importlib
import sys
from functools import reduce
from pathlib import Path
from signal import SIGKILL, SIGSTOP

import pytest
from reliability import scenarios
from reliability.batches import mutated_batches
from reliability.scenarios import Outcome
from reliability.steps import STEPS, strikes

from apportion.settings.value_types import Guarantee

SEED = 1


def require_right(outcome: Outcome) -> None:
    sys.stderr.write(f"{outcome}\n")  # pytest shows it where a test fails
    assert outcome.audited.is_right, outcome.audited.found
    assert outcome.audited.dead_letters > 0, "some events are bad in every run"


@pytest.mark.parametrize("step", sorted({place for steps in STEPS.values() for place in steps.values()}))
def test_a_step_at_which_workers_are_struck_is_there(step: str) -> None:
    module, _, path = step.partition(":")
    assert callable(reduce(getattr, path.split("."), importlib.import_module(module)))


@pytest.mark.asyncio
async def test_a_kill_at_each_step_of_a_batch_and_another_policy_file_change_nothing(
    servers: str, tmp_path: Path
) -> None:
    once = {strike.step: strike for strike in strikes(SEED, SIGKILL)}
    outcome = await scenarios.killed_at_steps(servers, tmp_path, SEED, list(once.values()), workers=4)
    require_right(outcome)
    assert outcome.kills >= len(once)


@pytest.mark.asyncio
async def test_with_transactions_a_kill_at_each_step_lets_each_output_stand_once(
    servers: str, tmp_path: Path
) -> None:
    guarantee = Guarantee.EXACTLY_ONCE
    once = {strike.step: strike for strike in strikes(SEED, SIGKILL, guarantee)}
    outcome = await scenarios.killed_at_steps(
        servers, tmp_path, SEED, list(once.values()), workers=4, guarantee=guarantee
    )
    require_right(outcome)
    assert outcome.audited.repeated == outcome.audited.late_rows == 0


@pytest.mark.asyncio
async def test_workers_that_come_and_go_under_load_change_nothing(servers: str, tmp_path: Path) -> None:
    require_right(await scenarios.rebalanced(servers, tmp_path, SEED, phase_s=6.0))


@pytest.mark.asyncio
async def test_workers_that_wake_when_others_have_answered_change_nothing(
    servers: str, tmp_path: Path
) -> None:
    after = {strike.step: strike for strike in strikes(SEED, SIGSTOP) if strike.when == "before"}
    chosen = [after[step] for step in ("compose", "outputs", "rows", "committed")]
    require_right(await scenarios.woken_too_late(servers, tmp_path, SEED, chosen))


@pytest.mark.asyncio
async def test_with_transactions_workers_that_wake_too_late_write_nothing(
    servers: str, tmp_path: Path
) -> None:
    guarantee = Guarantee.EXACTLY_ONCE
    before = {each.step: each for each in strikes(SEED, SIGSTOP, guarantee) if each.when == "before"}
    chosen = [before[step] for step in ("compose", "records", "transaction ends", "committed")]
    outcome = await scenarios.woken_too_late(servers, tmp_path, SEED, chosen, guarantee=guarantee)
    require_right(outcome)
    assert outcome.audited.repeated == outcome.audited.late_rows == 0


@pytest.mark.asyncio
async def test_connections_that_break_and_a_silent_broker_change_nothing(
    servers: str, tmp_path: Path
) -> None:
    require_right(await scenarios.badly_connected(servers, tmp_path, SEED, cuts=4, held_s=(5.0,)))


@pytest.mark.asyncio
async def test_what_zombies_write_between_rows_survives_compaction(servers: str, tmp_path: Path) -> None:
    chosen = [each for each in strikes(SEED, SIGSTOP) if each.step in ("outputs acknowledged", "rows")]
    require_right(await scenarios.compacted(servers, tmp_path, SEED, chosen))


@pytest.mark.asyncio
async def test_mutated_record_batches_end_no_worker_and_cost_no_request_around_them(servers: str) -> None:
    campaign = await mutated_batches(servers, SEED, 400)
    sys.stderr.write(f"{campaign}\n")
    assert campaign.is_right, campaign.faults
    assert min(campaign.damaged, campaign.written, campaign.refused) > 0
    assert campaign.letters["unreadable_record"] > 0
