"""Workers or gateways of one run, each with its own log: started, killed, stopped, woken."""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import Process
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reliability.stepped import STEP
from reliability.steps import Strike
from support.commands import ROOT, SOURCES, environment
from support.running import variables_of

from apportion.settings import Settings

_STEPPED = Path(__file__).parent / "stepped.py"
_PATH = f"{SOURCES}:{ROOT / 'tests'}"
_ENDED_WITHIN_S = 40.0
_READY_AT = re.compile(r"message=ready .*port=(\d+)")
_LATE_RECORDS = re.compile(r'message="late records".* late=(\d+)')


@dataclass(slots=True)
class Member:
    """A process and the file of its log."""

    process: Process
    log: Path
    strike: Strike | None = None
    _port: int | None = None

    @property
    def lives(self) -> bool:
        return self.process.returncode is None

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped it."""
        with suppress(FileNotFoundError):  # it has ended just now
            stat = Path(f"/proc/{self.process.pid}/stat").read_text()
            return stat.rpartition(")")[2].split()[0] == "T"
        return False

    @property
    def resident_kib(self) -> int:
        """The memory in use."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))

    @property
    def port(self) -> int | None:
        """The port of a gateway; None until it is ready."""
        if self._port is None and (ready := _READY_AT.search(self.log.read_text(errors="replace"))):
            self._port = int(ready[1])
        return self._port

    def send(self, number: signal.Signals) -> None:
        if self.lives:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)  # asyncio's own may take its exit code

    async def ended(self) -> int:
        """Wait for its end, and return its exit code."""
        return await self.process.wait()

    async def kill(self) -> None:
        """End it as kill -9 does."""
        self.send(signal.SIGKILL)
        await self.ended()

    def has_logged(self, text: str) -> bool:
        return text in self.log.read_text(errors="replace")


@dataclass(slots=True)
class Fleet:
    """Processes of one run that serve the same command of `apportion`."""

    settings: Settings
    folder: Path
    command: str = "run"
    members: list[Member] = field(default_factory=list)

    async def start(self, strike: Strike | None = None, **changes: str) -> Member:
        """Start a process; `changes` are variables, and a strike is to come over it."""
        variables = variables_of(self.settings) | ({STEP: strike.variable} if strike else {}) | changes
        log = self.folder / f"{self.command}-{len(self.members):03}.log"
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, str(_STEPPED), self.command),
                env=environment(**variables) | {"PYTHONPATH": _PATH},
                stdout=asyncio.subprocess.DEVNULL,
                stderr=stderr,
            )
        member = Member(process, log, strike)
        self.members.append(member)
        return member

    @property
    def living(self) -> list[Member]:
        return [member for member in self.members if member.lives]

    async def stop(self) -> list[int]:
        """Ask all to stop, as a supervisor does, and return their exit codes."""
        living = self.living
        for member in living:
            member.send(signal.SIGCONT)
            member.send(signal.SIGTERM)
        async with asyncio.timeout(_ENDED_WITHIN_S):
            return [await member.ended() for member in living]

    @property
    def ports(self) -> list[int]:
        """The ports of the gateways that are ready."""
        return [port for member in self.living if (port := member.port) is not None]

    @property
    def killed(self) -> int:
        """The number of workers ended by SIGKILL."""
        return sum(member.process.returncode == -signal.SIGKILL for member in self.members)

    @property
    def failed(self) -> list[str]:
        """Why processes ended by themselves: their last lines."""
        codes = (0, None, -signal.SIGKILL, -signal.SIGTERM)
        ended = [member for member in self.members if member.process.returncode not in codes]
        return [(member.log.read_text(errors="replace").splitlines() or [""])[-1] for member in ended]

    @property
    def late_records(self) -> int:
        """The number of late records found by the workers."""
        logs = [member.log.read_text(errors="replace") for member in self.members]
        return sum(int(found) for log in logs for found in _LATE_RECORDS.findall(log))

    async def kill(self) -> None:
        """End all of them."""
        for member in self.living:
            await member.kill()
