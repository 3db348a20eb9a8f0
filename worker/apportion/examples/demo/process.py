"""The demo's processes: workers, as in production, and the commands that look at what they did.

Decides how they are started, when a worker is ready, and that all are gone in the end. What a worker logs is
kept, to be shown if it fails.
"""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from apportion.settings import PREFIX

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
_LINES_KEPT = 20


class WorkerEndedError(Exception):
    """The worker ended, or did not come to answer in time; the message ends with what it said last."""

    code = "worker_ended"

    def __init__(self, why: str, last_lines: Sequence[str]) -> None:
        said = "\n".join(last_lines) or "it said nothing"
        super().__init__(f"the worker {why}; its last words:\n{said}")


class CommandFailedError(Exception):
    """A command that the demo ran failed; the message ends with what it said."""

    code = "command_failed"

    def __init__(self, arguments: Sequence[str], exit_code: int, said: str) -> None:
        super().__init__(f"apportion {' '.join(arguments)} ended with {exit_code}:\n{said}")


class Worker:
    """A running worker process and its last lines; made by `worker_process`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ready = asyncio.Event()
        self._last_lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._reading = asyncio.create_task(self._read_log())

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    async def during(self, work: Awaitable[None]) -> None:
        """Do something that takes a worker.

        Raises:
            WorkerEndedError: it has ended before.
        """
        working = asyncio.ensure_future(work)
        try:
            await asyncio.wait({working, self._reading}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise WorkerEndedError("ended", tuple(self._last_lines))
        finally:
            working.cancel()
            await asyncio.wait({working})
        working.result()

    async def wait_until_ready(self) -> None:
        """Return when the worker answers events.

        Raises:
            WorkerEndedError: it does not.
        """
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                await self.during(self._wait_for_ready())
        except TimeoutError:
            why = f"was not ready within {READY_TIMEOUT_S:g} s"
            raise WorkerEndedError(why, tuple(self._last_lines)) from None

    async def kill(self) -> None:
        """End the process as `kill -9` does: it has no moment left."""
        self._process.kill()
        await self._process.wait()
        await self._reading

    async def stop(self) -> None:
        """End the process; one that closed its log is about to end by itself."""
        if not self._reading.done():
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reading

    async def _read_log(self) -> None:
        assert self._process.stderr is not None, "it was started with a pipe"
        async for line in self._process.stderr:
            text = line.decode(errors="replace").rstrip()
            self._last_lines.append(text)
            if "message=ready" in text:
                self._ready.set()

    async def _wait_for_ready(self) -> None:
        await self._ready.wait()


@asynccontextmanager
async def worker_process(settings: Mapping[str, str]) -> AsyncIterator[Worker]:
    """Run `apportion run` with these settings, by their names; yield it when it is ready.

    It gets no other setting, of this process's environment or of a file, and ends with this process.

    Raises:
        WorkerEndedError: it is not ready.
    """
    process = await _start("run", settings=settings, output=DEVNULL, errors=PIPE)
    worker = Worker(process)
    try:
        await worker.wait_until_ready()
        yield worker
    finally:
        await worker.stop()


async def run_command(*arguments: str, settings: Mapping[str, str], folder: Path | None = None) -> list[str]:
    """Run a command with these settings alone, in a folder, and return the lines that it writes.

    Raises:
        CommandFailedError: it does not succeed.
    """
    process = await _start(*arguments, settings=settings, output=PIPE, errors=STDOUT, folder=folder)
    try:
        assert process.stdout is not None, "it was started with a pipe"
        said = (await process.stdout.read()).decode(errors="replace")
        exit_code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if exit_code:
        raise CommandFailedError(arguments, exit_code, said.rstrip())
    return said.splitlines()


async def _start(
    *arguments: str, settings: Mapping[str, str], output: int, errors: int, folder: Path | None = None
) -> Process:
    """Start a command in a session of its own: a Ctrl-C in the terminal is ours, and we end what we began."""
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
