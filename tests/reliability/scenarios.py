"""Failures of workers under load, each run once for a seed; at the end all topics are audited.

As in production, a supervisor restarts an ended worker. So a worker may end with a named error, as long as no
event is lost, charged twice or altered.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

from reliability.fleet import Fleet, Member
from reliability.load import ASSISTANT, SESSIONS, Sent, load
from reliability.proxy import network
from reliability.runs import Run, run_of
from reliability.stepped import COMPACTION_LAG_S, LEFT_OUT, PROXIED
from reliability.steps import Strike
from reliability.topics import changelog_ends, compact_soon, is_compacted
from support.audit import Audited

from apportion.settings import Settings

_STRUCK_WITHIN_S = 40.0
"""The longest wait of a worker for its strike; then it is killed at any point."""
_MISTAKEN = 2
"""The exit code of a worker with wrong settings or policies."""
PER_S = 80.0
_EVENTS_A_KILL = 150
_KILL_EVERY_S = 2.5
_LOOK_S = 0.1
_WRITTEN_LATE_S = 3.0
_COMPACTED_WITHIN_S = 240.0
_COMPACTED_LOOK_S = 3.0
HOSTILE = 0.02
"""The share of hostile records in the kill matrix."""
CHATS = 0.05
"""The share of whole requests in the kill matrix: turns of a chat with tools and candidates."""
_ASSISTANT_POLICY = files("apportion.demo.demo") / f"{ASSISTANT}.toml"
MANY = 100_000
"""Records of a load: more than are sent."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The kills of one run, and the result of its audit."""

    name: str
    seed: int
    audited: Audited
    kills: int
    failed: list[str]
    seconds: float
    note: str = ""

    def __str__(self) -> str:
        ended = f", {len(self.failed)} ended by themselves" if self.failed else ""
        return (
            f"{self.name}, seed {self.seed}: {self.kills} kills{ended}, {self.seconds:.0f} s; {self.audited}"
            f"{self.note}"
        )


@dataclass(slots=True)
class Supervised:
    """A fleet with a supervisor, which replaces an ended process.

    `one_by_one`: a process gets a strike only if no other process has one, so that the others go on.
    """

    fleet: Fleet
    processes: int
    strikes: list[Strike]
    one_by_one: bool = False
    variables: dict[str, str] = field(default_factory=dict)
    missed: list[Strike] = field(default_factory=list)

    async def supervise(self) -> None:
        """Keep this number of processes running, new ones with the next strike; never return."""
        since_s: dict[int, float] = {}
        while True:
            for member in self.fleet.living:
                waited_s = monotonic() - since_s.setdefault(member.process.pid, monotonic())
                if member.strike is not None and waited_s > _STRUCK_WITHIN_S and not member.is_stopped:
                    self.missed.append(member.strike)
                    member.strike = None
                    member.send(signal.SIGKILL)
            codes = [member.process.returncode for member in self.fleet.members]
            assert _MISTAKEN not in codes, "a process refused its settings"
            while len(self.fleet.living) < self.processes:
                is_next = self.strikes and not (self.one_by_one and self._is_any_to_be_struck())
                strike = self.strikes[-1] if is_next else None
                await self.fleet.start(strike, **self.variables)
                if strike is not None:
                    self.strikes.pop()  # only now, so that it is always either here or over somebody
            await asyncio.sleep(_LOOK_S)

    def is_struck(self) -> bool:
        """Return whether all strikes were carried out."""
        return not self.strikes and not self._is_any_to_be_struck()

    def is_still(self) -> bool:
        """Return whether every worker with a strike has stopped or ended."""
        return not any(member.strike and not member.is_stopped for member in self.fleet.living)

    def _is_any_to_be_struck(self) -> bool:
        return any(member.strike for member in self.fleet.living)


@dataclass(slots=True)
class Scene(Supervised):
    """A run that is going on, with its workers supervised."""

    run: Run = field(kw_only=True)

    async def outcome(self, name: str, seed: int, since_s: float) -> Outcome:
        """Wait until all events are answered, and audit the topics."""
        await self.run.caught_up()
        audited = await self.run.audit()
        fleet = self.run.fleet
        passed_over = sum(map(len, self.run.passed_over.values()))
        assert audited.events == self.run.records - passed_over, "every record that was sent is there"
        note = f"; not reached: {', '.join(map(str, self.missed))}" if self.missed else ""
        note += f"; {late} late records found while running" if (late := fleet.late_records) else ""
        return Outcome(name, seed, audited, fleet.killed, fleet.failed, monotonic() - since_s, note)


@asynccontextmanager
async def scene_of(
    servers: str,
    folder: Path,
    workers: int,
    strikes: Sequence[Strike] = (),
    *,
    one_by_one: bool = False,
    **values: Any,
) -> AsyncIterator[Scene]:
    """Make topics, and keep workers running."""
    async with run_of(servers, folder, **values) as run:
        scene = Scene(run.fleet, workers, list(strikes), one_by_one, run=run)
        async with asyncio.TaskGroup() as group:  # a supervisor that fails ends the scene
            supervising = group.create_task(scene.supervise())
            yield scene
            supervising.cancel()


async def killed_at_steps(
    servers: str, folder: Path, seed: int, strikes: Sequence[Strike], workers: int = 3, **values: Any
) -> Outcome:
    """Kill workers at steps, one after another; halfway, replace their policy file."""
    since_s = monotonic()
    policies = folder / "policies"
    policies.mkdir(parents=True)
    (policies / f"{ASSISTANT}.toml").write_bytes(_ASSISTANT_POLICY.read_bytes())
    _write_policy(policies, version=1, budget_tokens=60)
    own: dict[str, Any] = {"policies": policies, "default_policy": "own", "policy_settle_s": 3.0}
    async with scene_of(servers, folder, workers, strikes, **own, **values) as scene:
        events = load(scene.run.settings, seed, MANY // 2, poison=0.01, hostile=HOSTILE, chats=CHATS)
        half, changed = len(strikes) // 2, list[bool]()

        def done() -> bool:
            if len(scene.strikes) < half and not changed:
                _write_policy(policies, version=2, budget_tokens=90)
                changed.append(True)
            return scene.is_struck()

        await scene.run.send(events, PER_S, done)
        return await scene.outcome("killed at steps", seed, since_s)


def _write_policy(folder: Path, version: int, budget_tokens: int) -> None:
    text = f'name = "own"\nversion = "{version}"\nstrategy = "lanes"\nbudget_tokens = {budget_tokens}\n'
    written = folder / "own.toml.new"
    written.write_text(text + "[lanes.local]\npriority = 1\nmin_tokens = 0\nmax_tokens = 80\n")
    written.replace(folder / "own.toml")  # a worker may start just now


async def killed_at_random(
    servers: str, folder: Path, seed: int, kills: int, workers: int = 3, **values: Any
) -> Outcome:
    """Kill workers at random moments."""
    since_s = monotonic()
    random = Random(seed)  # noqa: S311 - no secret: it must come again
    async with scene_of(servers, folder, workers, **values) as scene:
        events = load(scene.run.settings, seed, kills * _EVENTS_A_KILL, poison=0.01, hostile=HOSTILE)
        sending = asyncio.create_task(scene.run.send(events, _EVENTS_A_KILL / _KILL_EVERY_S))
        while scene.run.fleet.killed < kills:
            await asyncio.sleep(random.uniform(0.2, 1.8) * _KILL_EVERY_S)
            if living := scene.run.fleet.living:
                await random.choice(living).kill()
        await sending
        return await scene.outcome("killed at random", seed, since_s)


async def rebalanced(
    servers: str,
    folder: Path,
    seed: int,
    phases: Sequence[int] = (1, 4, 2),
    phase_s: float = 12.0,
    **values: Any,
) -> Outcome:
    """Change the number of workers, one, four, two, and kill one in each phase."""
    since_s = monotonic()
    random = Random(seed)  # noqa: S311 - no secret: it must come again
    async with scene_of(servers, folder, phases[0], **values) as scene:
        events = load(scene.run.settings, seed, MANY, poison=0.01)
        left = list(phases)
        sending = asyncio.create_task(scene.run.send(events, PER_S, lambda: not left))
        while left:
            scene.processes = left[0]
            for member in scene.run.fleet.living[scene.processes :]:
                member.send(signal.SIGTERM)
            await asyncio.sleep(random.uniform(0.4, 0.8) * phase_s)
            if living := scene.run.fleet.living:
                await random.choice(living).kill()
            await asyncio.sleep(phase_s / 4)
            left.pop(0)
        await sending
        return await scene.outcome("rebalanced", seed, since_s)


async def woken_too_late(
    servers: str, folder: Path, seed: int, strikes: Sequence[Strike], **values: Any
) -> Outcome:
    """Stop workers at steps, and wake them when another has answered in their place.

    In the end all are restarted, so that recovery reads the late writes.
    """
    since_s = monotonic()
    async with scene_of(servers, folder, len(strikes), strikes, **values) as scene:
        fleet, run = scene.run.fleet, scene.run
        events = load(run.settings, seed, MANY, poison=0.01)
        zombies = await _stopped(scene, events)
        for zombie in zombies:
            zombie.strike = None
            zombie.send(signal.SIGCONT)
        await run.send(events[run.sent :], PER_S, _after(4.0))
        await run.caught_up()
        await fleet.stop()
        await run.send(events[run.sent :], PER_S, _after(1.0))
        outcome = await scene.outcome("woken too late", seed, since_s)
        assert zombies, "somebody was stopped"
        return outcome


async def compacted(
    servers: str, folder: Path, seed: int, strikes: Sequence[Strike], lag_s: int = 30, **values: Any
) -> Outcome:
    """Stop workers at steps, and let them write late; start no worker until the changelog is compacted.

    Woken workers join no group, so that their successors do not recover, and are killed soon. The earlier
    sessions get no more events, so that only repairs follow the late rows. Then all workers are killed, and
    one worker recovers from the compacted changelog.
    """
    since_s = monotonic()
    async with scene_of(servers, folder, 0, strikes, **values) as scene:
        fleet, run = scene.run.fleet, scene.run
        await compact_soon(run.settings, lag_s)
        scene.variables |= {COMPACTION_LAG_S: str(lag_s), LEFT_OUT: "1"}
        scene.processes = len(strikes)
        events = load(run.settings, seed, MANY, poison=0.01)
        zombies = await _stopped(scene, events)
        again = events[run.sent :]
        scene.processes -= len(zombies)  # the supervisor keeps the workers that answer
        for zombie in zombies:
            zombie.strike = None
            zombie.send(signal.SIGCONT)
        await asyncio.sleep(_WRITTEN_LATE_S)
        for zombie in zombies:
            await zombie.kill()
        ends = await changelog_ends(run.settings)
        others = _of_other_sessions(run.settings, seed)
        over: list[bool] = []
        sending = asyncio.create_task(run.send(others, PER_S / 4, lambda: bool(over)))
        async with asyncio.timeout(_COMPACTED_WITHIN_S):
            while not await is_compacted(run.settings, ends):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(_COMPACTED_LOOK_S)
        run.is_compacted = True
        over.append(True)
        await sending
        await run.caught_up()
        scene.processes = 0
        await fleet.kill()
        scene.processes = 1
        await run.send(again, PER_S, _after(2.0))
        outcome = await scene.outcome(f"compacted with a lag of {lag_s} s", seed, since_s)
        assert zombies, "somebody was stopped"
        return outcome


async def _stopped(scene: Scene, events: Sequence[Sent]) -> list[Member]:
    """Send until the workers have stopped at their steps, and return them when others have answered all."""
    fleet, run = scene.run.fleet, scene.run
    await run.send(events, PER_S, lambda: scene.is_still() and not scene.strikes)
    zombies = [member for member in fleet.living if member.is_stopped]
    scene.processes = len(fleet.living) + 1  # the successor
    await run.caught_up()
    return zombies


def _of_other_sessions(settings: Settings, seed: int) -> list[Sent]:
    events = load(settings, seed + 1, MANY // 4, sessions=2 * SESSIONS, name="other-")
    return [event for event in events if int((event.key or b"").rpartition(b"/s")[2]) >= SESSIONS]


async def badly_connected(
    servers: str,
    folder: Path,
    seed: int,
    cuts: int,
    held_s: Sequence[float],
    workers: int = 2,
    **values: Any,
) -> Outcome:
    """Break connections, and silence the broker for these seconds, under load."""
    since_s = monotonic()
    random = Random(seed)  # noqa: S311 - no secret: it must come again
    port = int(servers.rpartition(":")[2])
    async with network(port) as between, scene_of(servers, folder, workers, **values) as scene:
        scene.variables[PROXIED] = f"{port}:{between.port}"
        events = load(scene.run.settings, seed, MANY, poison=0.01)
        over: list[bool] = []
        sending = asyncio.create_task(scene.run.send(events, PER_S, lambda: bool(over)))
        for _ in range(cuts):
            await asyncio.sleep(random.uniform(0.5, 2))
            between.cut()
        for silent_s in held_s:
            between.hold()
            await asyncio.sleep(silent_s)
            between.release()
            await asyncio.sleep(3)
        over.append(True)
        await sending
        return await scene.outcome("badly connected", seed, since_s)


def _after(seconds: float) -> Callable[[], bool]:
    end_s = monotonic() + seconds
    return lambda: monotonic() > end_s
