"""The demo's worker: a process of its own, as in production.

Decides how it is started, when it is ready, and that it is gone in the end. What it logs is kept, to be shown
if it fails.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from worker.settings import PREFIX

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
_LINES_KEPT = 20


class WorkerNotReadyError(Exception):
    """The worker ended, or did not come to answer in time; the message ends with what it said last."""

    code = "worker_not_ready"

    def __init__(self, why: str, last_lines: Sequence[str]) -> None:
        said = "\n".join(last_lines) or "it said nothing"
        super().__init__(f"the worker {why}; its last words:\n{said}")


class _Worker:
    """A running worker process and its last lines."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.ready = asyncio.Event()
        self.last_lines: deque[str] = deque(maxlen=_LINES_KEPT)

    async def read_log(self) -> None:
        """Read what the worker logs until it ends."""
        assert self.process.stderr is not None, "it was started with a pipe"
        async for line in self.process.stderr:
            text = line.decode(errors="replace").rstrip()
            self.last_lines.append(text)
            if "message=ready" in text:
                self.ready.set()

    async def wait_until_ready(self, reading: asyncio.Task[None]) -> None:
        """Return when the worker answers events."""
        becoming = asyncio.ensure_future(self.ready.wait())
        await asyncio.wait({becoming, reading}, timeout=READY_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        becoming.cancel()
        if not self.ready.is_set():
            why = "ended" if reading.done() else f"was not ready within {READY_TIMEOUT_S:g} s"
            raise WorkerNotReadyError(why, tuple(self.last_lines))


@asynccontextmanager
async def worker_process(flags: Sequence[str], secret: str) -> AsyncIterator[None]:
    """Run `apportion run` with these flags and this fingerprint secret; yield when it is ready.

    It gets no other setting from this process's environment, and ends with this process.

    Raises:
        WorkerNotReadyError: it is not ready.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "worker.demo.child", "run", *flags),
        stdin=PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=PIPE,
        env=environment | {f"{PREFIX}FINGERPRINT_SECRET": secret},
        start_new_session=True,  # a Ctrl-C in the terminal is ours: we stop the worker, then the broker
    )
    worker = _Worker(process)
    reading = asyncio.create_task(worker.read_log())
    try:
        await worker.wait_until_ready(reading)
        yield
    finally:
        await _stop(process)
        await reading


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
