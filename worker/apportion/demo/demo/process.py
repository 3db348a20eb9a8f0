"""Processes of the demo, which end with it: workers, and the commands that verify and report their work."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from apportion.settings import PREFIX

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
_LINES_KEPT = 20


class WorkerEndedError(Exception):
    """The worker ended, or was not ready in time; the message ends with its last log lines."""

    code = "worker_ended"


class CommandFailedError(Exception):
    """A command of the demo failed; the message ends with its output."""

    code = "command_failed"


class Worker:
    """A running worker process and its last lines; made by `worker_process`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ready = asyncio.Event()
        self._last_lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._reading = asyncio.create_task(self._read_log())

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def during(self, work: Awaitable[object]) -> None:
        """Await work that needs the worker; raise WorkerEndedError if it ends first."""
        working = asyncio.ensure_future(work)
        try:
            await asyncio.wait({working, self._reading}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise self._ended("ended")
        finally:
            working.cancel()
            await asyncio.wait({working})
        working.result()

    async def wait_until_ready(self) -> None:
        """Wait until the worker answers events; raise WorkerEndedError if it ends or takes too long."""
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                await self.during(self._ready.wait())
        except TimeoutError:
            raise self._ended(f"was not ready within {READY_TIMEOUT_S:g} s") from None

    async def kill(self) -> None:
        """End the process at once, as `kill -9` does."""
        self._process.kill()
        await self._process.wait()
        await self._reading

    async def stop(self) -> None:
        """Stop the process; kill it after 10 s. A process that has closed its log is already ending."""
        if not self._reading.done():
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reading

    def _ended(self, why: str) -> WorkerEndedError:
        output = "\n".join(self._last_lines) or "it printed nothing"
        return WorkerEndedError(f"the worker {why}; its last lines:\n{output}")

    async def _read_log(self) -> None:
        assert self._process.stderr is not None, "it was started with a pipe"
        async for line in self._process.stderr:
            text = line.decode(errors="replace").rstrip()
            self._last_lines.append(text)
            if "message=ready" in text:
                self._ready.set()


@asynccontextmanager
async def worker_process(settings: Mapping[str, str]) -> AsyncIterator[Worker]:
    """Run `apportion run` with only these settings, by name, and yield the worker when it is ready."""
    process = await _start("run", settings=settings, output=DEVNULL, errors=PIPE)
    worker = Worker(process)
    try:
        await worker.wait_until_ready()
        yield worker
    finally:
        await worker.stop()


async def run_command(*arguments: str, settings: Mapping[str, str], folder: Path | None = None) -> list[str]:
    """Run a command in a folder, and return the lines of its output; raise CommandFailedError."""
    process = await _start(*arguments, settings=settings, output=PIPE, errors=STDOUT, folder=folder)
    try:
        assert process.stdout is not None, "it was started with a pipe"
        output = (await process.stdout.read()).decode(errors="replace")
        exit_code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if exit_code:
        command = f"apportion {' '.join(arguments)}"
        raise CommandFailedError(f"{command} ended with {exit_code}:\n{output.rstrip()}")
    return output.splitlines()


async def _start(
    *arguments: str, settings: Mapping[str, str], output: int, errors: int, folder: Path | None = None
) -> Process:
    """Start a command in its own session, so that Ctrl-C in the terminal only reaches the demo."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    own = {f"{PREFIX}{name.upper()}": value for name, value in settings.items()}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "apportion.cli._child", *arguments),
        stdin=PIPE,
        stdout=output,
        stderr=errors,
        cwd=folder,
        env=others | own | {f"{PREFIX}CONFIG": os.devnull},
        start_new_session=True,
    )
