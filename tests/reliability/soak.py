"""A soak test: workers at 70 % of their throughput, restarted in turn, except for one.

The test samples the resident memory of that worker: without growing sessions it must not grow. Timeouts have
their defaults, because the measurement of the throughput overloads the workers.
"""

import asyncio
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

from reliability.fleet import Member
from reliability.load import load
from reliability.scenarios import Outcome, Scene, scene_of
from support.running import DEFAULT_TIMEOUTS_S

_CAPACITY_EVENTS = 20_000
_SHARE = 0.7
_RESTART_EVERY_S = 60.0
_SAMPLE_S = 5.0
_CHUNK = 10_000
_KIB_PER_MIB = 1024


@dataclass(slots=True)
class Memory:
    """Resident memory of one worker over its life, in MiB."""

    samples_mib: list[float] = field(default_factory=list)

    @property
    def grown(self) -> float:
        """The last quarter's median over the second quarter's: what warms up has done so by then."""
        quarter = len(self.samples_mib) // 4
        second, last = self.samples_mib[quarter : 2 * quarter], self.samples_mib[-quarter:]
        return median(last) / median(second)

    def __str__(self) -> str:
        most, usual = max(self.samples_mib), median(self.samples_mib)
        return f"resident {usual:.0f} MiB, at most {most:.0f}, last quarter over second {self.grown:.3f}"


async def soaked(
    servers: str, folder: Path, seed: int, minutes: float, workers: int = 3, **values: Any
) -> Outcome:
    """Measure the workers' throughput, then send 70 % of it for this many minutes."""
    since_s = monotonic()
    async with scene_of(servers, folder, workers, **values, **DEFAULT_TIMEOUTS_S) as scene:
        capacity_per_s = await _capacity(scene, seed)
        per_s = capacity_per_s * _SHARE
        steady = scene.run.fleet.living[0]
        memory, end_s = Memory(), monotonic() + minutes * 60
        async with asyncio.TaskGroup() as group:  # an unexpected end of a worker ends the soak at once
            around = [group.create_task(_watch(steady, memory)), group.create_task(_restart(scene, steady))]
            number = seed
            while monotonic() < end_s:
                number += 1
                chunk = load(scene.run.settings, number, _CHUNK, sessions=300, name=f"{number}", poison=0.01)
                await scene.run.send(chunk, per_s, lambda: monotonic() > end_s)
            for task in around:
                task.cancel()
        outcome = await scene.outcome("soak", seed, since_s)
        return replace(outcome, note=f"{outcome.note}; capacity {capacity_per_s:,.0f} events/s, {memory}")


async def _capacity(scene: Scene, seed: int) -> float:
    """Return how many events a second the workers answer that have them all before them."""
    warm_up = load(scene.run.settings, seed, _CHUNK // 10, sessions=300, name="warm")
    await scene.run.send(warm_up)
    await scene.run.caught_up()
    await scene.run.send(load(scene.run.settings, seed, _CAPACITY_EVENTS, sessions=300, name="full"))
    since_s = monotonic()
    await scene.run.caught_up()
    return _CAPACITY_EVENTS / (monotonic() - since_s)


async def _watch(member: Member, memory: Memory) -> None:
    while True:
        assert member.lives, f"the worker that nobody restarts ended: {member.log}"
        memory.samples_mib.append(member.resident_kib / _KIB_PER_MIB)
        await asyncio.sleep(_SAMPLE_S)


async def _restart(scene: Scene, steady: Member) -> None:
    """Ask one worker after another to stop; the supervisor starts another."""
    while True:
        await asyncio.sleep(_RESTART_EVERY_S)
        oldest = next(member for member in scene.run.fleet.living if member is not steady)
        oldest.send(signal.SIGTERM)
