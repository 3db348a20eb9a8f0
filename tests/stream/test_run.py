"""The worker goes when it is asked to, whatever its group says."""

import subprocess
import sys

import pytest
from commands import ROOT, environment

PROGRAM = """
import asyncio, os, signal, sys
from apportion.settings import Settings
from apportion.stream import run
from apportion.stream.recovery import partition_rows
from apportion.stream.app import WorkerApp

run.STOP_TIMEOUT_S = 0.1

async def start(app):
    if "in-flight" in sys.argv:
        app.lane.begin(0, partition_rows(app.settings, 0), None)
        app.lane._flows[0].in_flight.append(None)
    if "crashed" in sys.argv:
        app._crash(ZeroDivisionError())
    else:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

async def stop(app):
    await asyncio.Event().wait()

WorkerApp.start, WorkerApp.stop = start, stop
run.run_worker(Settings())
"""


@pytest.mark.parametrize(
    ("state", "exit_code", "told"),
    [
        ("idle", 0, "in_flight=0 failure=None"),
        ("in-flight", 1, "in_flight=1 failure=None"),
        ("crashed", 1, "in_flight=0 failure="),
    ],
)
def test_a_worker_that_cannot_leave_its_group_in_time_goes_without(
    state: str, exit_code: int, told: str
) -> None:
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", PROGRAM, state],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
    )
    assert done.returncode == exit_code
    assert f'message="gone without leaving the group" {told}' in done.stderr
