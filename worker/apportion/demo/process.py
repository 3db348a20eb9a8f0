"""The demo's worker: a process of its own, as in production.

Decides how it is started, when it is ready, and that it is gone in the end. What it logs is kept, to be shown
if it fails.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

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


class Worker:
    """A running worker process and its last lines; made by `worker_process`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ready = asyncio.Event()
        self._last_lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._reading = asyncio.create_task(self._read_log())

    async def during(self, work: Coroutine[Any, Any, None]) -> None:
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
async def worker_process(flags: Sequence[str], secret: str) -> AsyncIterator[Worker]:
    """Run `apportion run` with these flags and this fingerprint secret; yield it when it is ready.

    It gets no other setting, of this process's environment or of a file, and ends with this process.

    Raises:
        WorkerEndedError: it is not ready.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "apportion.demo.child", "run", "--config", os.devnull, *flags),
        stdin=PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=PIPE,
        env=environment | {f"{PREFIX}FINGERPRINT_SECRET": secret},
        start_new_session=True,  # a Ctrl-C in the terminal is ours: we stop the worker, then the broker
    )
    worker = Worker(process)
    try:
        await worker.wait_until_ready()
        yield worker
    finally:
        await worker.stop()
