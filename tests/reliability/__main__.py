"""The long forms: `python -m reliability kills`, and so on; `make reliability-kills` sets up and calls it.

Runs on Apache Kafka in a container, or on the cluster that KAFKA_BOOTSTRAP_SERVERS names. Prints a line a
run, with its seed, and ends with 1 if an audit found a fault. The logs of the workers stay in a folder.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from signal import SIGKILL, SIGSTOP
from tempfile import mkdtemp

from reliability import scenarios
from reliability.batches import mutated_batches
from reliability.brokers import FAULTS, brokers_away
from reliability.dear_batches import searched
from reliability.gateway_kills import gateway_killed
from reliability.noisy import noisy_for
from reliability.other_clients import committed_by_another, deleted
from reliability.scenarios import Outcome
from reliability.soak import soaked
from reliability.steps import gateway_strikes, strikes, writing_strikes
from support.audit import Audited
from support.containers import cluster, kafka_running

from apportion.cli._progress import progress
from apportion.settings.value_types import Guarantee

Runs = AsyncIterator[Outcome]
_ZOMBIES_AT_ONCE = 4
_MUTATED_BATCHES = 10_000
_GATEWAY_ROUNDS = 4


async def kills(servers: str, folder: Path, seeds: Sequence[int], guarantee: Guarantee) -> Runs:
    """A kill before and after every step of a batch, each seed."""
    for seed in seeds:
        yield await scenarios.killed_at_steps(
            servers, folder / f"kills-{seed}", seed, strikes(seed, SIGKILL, guarantee), guarantee=guarantee
        )


async def storm(servers: str, folder: Path, seeds: Sequence[int], guarantee: Guarantee) -> Runs:
    """Twenty kills at any moment, each seed."""
    for seed in seeds:
        yield await scenarios.killed_at_random(
            servers, folder / f"storm-{seed}", seed, kills=20, guarantee=guarantee
        )


async def rebalance(servers: str, folder: Path, seeds: Sequence[int], guarantee: Guarantee) -> Runs:
    """Workers come and go, one, four, two, one and again, with kills, each seed."""
    for seed in seeds:
        yield await scenarios.rebalanced(
            servers, folder / f"rebalance-{seed}", seed, (1, 4, 2, 4, 1, 3), guarantee=guarantee
        )


async def zombies(servers: str, folder: Path, seeds: Sequence[int], guarantee: Guarantee) -> Runs:
    """A stop before and after every step, four at a time, each seed."""
    for seed in seeds:
        chosen = strikes(seed, SIGSTOP, guarantee)
        for first in range(0, len(chosen), _ZOMBIES_AT_ONCE):
            some = chosen[first : first + _ZOMBIES_AT_ONCE]
            yield await scenarios.woken_too_late(
                servers, folder / f"zombies-{seed}-{first}", seed, some, guarantee=guarantee
            )


async def compaction(servers: str, folder: Path, seeds: Sequence[int], guarantee: Guarantee) -> Runs:
    """A stop before and after each step of writing, then the changelog is compacted, and all are killed."""
    for seed in seeds:
        chosen = writing_strikes(seed, SIGSTOP, guarantee)
        for first in range(0, len(chosen), _ZOMBIES_AT_ONCE):
            some = chosen[first : first + _ZOMBIES_AT_ONCE]
            yield await scenarios.compacted(
                servers, folder / f"compaction-{seed}-{first}", seed, some, guarantee=guarantee
            )


async def network(servers: str, folder: Path, seeds: Sequence[int], guarantee: Guarantee) -> Runs:
    """Ten broken connections, then 5 and 40 s of silence, each seed."""
    for seed in seeds:
        yield await scenarios.badly_connected(
            servers, folder / f"network-{seed}", seed, 10, (5.0, 40.0), guarantee=guarantee
        )


async def gateway(servers: str, folder: Path, seeds: Sequence[int], guarantee: Guarantee) -> Runs:
    """Calls over HTTP, while workers and gateways are killed before and after every step, each seed."""
    for seed in seeds:
        yield await gateway_killed(
            servers,
            folder / f"gateway-{seed}",
            seed,
            strikes(seed, SIGKILL, guarantee),
            gateway_strikes(seed, SIGKILL, rounds=_GATEWAY_ROUNDS),
            guarantee=guarantee,
        )


async def clients(servers: str, folder: Path, seeds: Sequence[int], guarantee: Guarantee) -> Runs:
    """Another client's commit while workers are down, reset and accepted; deleted topics; each seed."""
    for seed in seeds:
        for do in (committed_by_another, deleted):
            yield await do(servers, folder / f"{do.__name__}-{seed}", seed, guarantee=guarantee)


async def brokers(_: str, folder: Path, seeds: Sequence[int], guarantee: Guarantee) -> Runs:
    """Three brokers of its own: restarted, their coordinator killed, too few copies, one lost; each seed."""
    for seed in seeds:
        with cluster() as three:
            for name in FAULTS:
                yield await brokers_away(
                    three, folder / f"{name}-{seed}".replace(" ", "-"), seed, name, guarantee=guarantee
                )


async def soak(
    servers: str, folder: Path, seeds: Sequence[int], guarantee: Guarantee, minutes: float = 30
) -> Runs:
    """Thirty minutes at 70 % of capacity, with rolling restarts; each seed."""
    for seed in seeds:
        yield await soaked(servers, folder / f"soak-{seed}", seed, minutes=minutes, guarantee=guarantee)


async def noisy(
    servers: str, folder: Path, seeds: Sequence[int], guarantee: Guarantee, minutes: float = 30
) -> Runs:
    """Thirty minutes under a noisy tenant, with large requests; a worker's memory is bounded; each seed."""
    for seed in seeds:
        yield await noisy_for(servers, folder / f"noisy-{seed}", seed, minutes, guarantee)


FORMS: dict[str, Callable[..., Runs]] = {
    each.__name__: each
    for each in (
        kills,
        storm,
        rebalance,
        zombies,
        compaction,
        network,
        gateway,
        clients,
        brokers,
        soak,
        noisy,
    )
}
TIMED = (soak.__name__, noisy.__name__)
"""The forms that last as long as the command line says."""


async def batches(servers: str, seeds: Sequence[int], minutes: float = 30) -> bool:
    """10,000 mutated batches between good requests, then a search for expensive ones, for each seed."""
    is_right = True
    for seed in seeds:
        campaign = await mutated_batches(servers, seed, _MUTATED_BATCHES)
        print(campaign, *campaign.faults[:20], sep="\n  ", flush=True)
        search = await searched(seed, minutes)
        print(search, *search.faults[:20], sep="\n  ", flush=True)
        is_right = is_right and campaign.is_right and search.is_right
    return is_right


async def run(
    form: str, servers: str, folder: Path, seeds: Sequence[int], guarantee: Guarantee, minutes: float
) -> bool:
    """Run one form, and return whether it passed."""
    timed = {"minutes": minutes} if form in TIMED else {}
    total, killed, count, ended = Audited(), 0, 0, 0
    with progress(form, None) as show:
        async for outcome in FORMS[form](servers, folder, seeds, guarantee, **timed):
            count, killed, total = count + 1, killed + outcome.kills, total + outcome.audited
            ended += len(outcome.failed)
            show(count)
            print(outcome, *outcome.failed, *outcome.audited.found, sep="\n  ", flush=True)
    print(f"{form}: {count} runs, {killed} kills, {ended} ended by themselves; {total}")
    return total.is_right


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m reliability", description=__doc__)
    forms = "; ".join(f"{do.__name__}: {do.__doc__}" for do in (*FORMS.values(), batches))
    parser.add_argument(
        "form",
        choices=(*FORMS, batches.__name__),
        help=forms.replace("%", "%%"),  # argparse replaces %(…)s in a help text
    )
    parser.add_argument("--seeds", default="1", help="one, or a range as 1-13")
    parser.add_argument(
        "--guarantee",
        type=Guarantee,
        choices=Guarantee,
        default=Guarantee.EFFECTIVELY_ONCE,
        help="of the workers",
    )
    parser.add_argument(
        "--minutes", type=float, default=30.0, help="how long soak and noisy send, and batches searches"
    )
    return parser


def main() -> int:
    """Run the forms of the command line."""
    chosen = arguments().parse_args()
    first, _, last = chosen.seeds.partition("-")
    folder = Path(mkdtemp(prefix="reliability-"))
    print(f"logs in {folder}", file=sys.stderr)
    with nullcontext("") if chosen.form == brokers.__name__ else kafka_running() as servers:
        seeds = range(int(first), int(last or first) + 1)
        if chosen.form == batches.__name__:
            return 0 if asyncio.run(batches(servers, seeds, chosen.minutes)) else 1
        done = run(chosen.form, servers, folder, seeds, chosen.guarantee, chosen.minutes)
        return 0 if asyncio.run(done) else 1


if __name__ == "__main__":
    sys.exit(main())
