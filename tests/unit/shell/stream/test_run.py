"""The end of a worker on request, in any state of its group."""

import socket
import subprocess
import sys
from contextlib import suppress

import pytest
from support.commands import ROOT, environment

PROGRAM = """
import asyncio, os, signal, sys
from apportion.settings import load_settings
from apportion.shell.stream import run
from apportion.shell.stream.state.recovery import partition_rows
from apportion.shell.stream.faust_app.app import WorkerApp

run.STOP_TIMEOUT_S = 0.1

async def start(app):
    if "in-flight" in sys.argv:
        app.pipeline.begin(0, partition_rows(app.settings, 0), None)
        app.pipeline.flows[0].in_flight.append(None)
    if "crashed" in sys.argv:
        app._crash(ZeroDivisionError())
    else:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

async def stop(app):
    await asyncio.Event().wait()

WorkerApp.start, WorkerApp.stop = start, stop
run.run_worker(load_settings())
"""


def run(state: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", PROGRAM, state],
        env=environment(**variables),
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
    )


def test_a_configured_health_port_in_use_ends_the_worker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("idle", APPORTION_HEALTH_PORT=str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert "PortTakenError" in done.stderr


def test_a_default_health_port_in_use_does_not_end_the_worker() -> None:
    with socket.socket() as taken:
        with suppress(OSError):  # another worker's: as good
            taken.bind(("127.0.0.1", 9464))
            taken.listen()
        done = run("idle")
    assert done.returncode == 0
    assert 'message="no health endpoints" reason=health_port_taken port=9464' in done.stderr


def test_an_unencrypted_remote_connection_starts_with_a_warning() -> None:
    done = run("idle", APPORTION_BROKERS="kafka:9092")
    assert 'level=warning logger=apportion message="unencrypted connection" why="all content' in done.stderr
    assert "unencrypted" not in run("idle").stderr


@pytest.mark.parametrize(
    ("state", "exit_code", "told"),
    [
        ("idle", 0, "in_flight=0 failure=None"),
        ("in-flight", 1, "in_flight=1 failure=None"),
        ("crashed", 1, "in_flight=0 failure="),
    ],
)
def test_a_worker_that_cannot_leave_its_group_in_time_ends_anyway(
    state: str, exit_code: int, told: str
) -> None:
    done = run(state)
    assert done.returncode == exit_code
    assert f'message="gone without leaving the group" {told}' in done.stderr
