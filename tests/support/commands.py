"""Shared parts of tests of commands: a command line, run in this process or a new one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from unittest.mock import patch

from apportion.cli import main

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "worker"


@dataclass(frozen=True, slots=True)
class Ended:
    """The exit code of a command, and its output."""

    exit_code: int
    out: bytes
    err: str


def apportion(*arguments: str | Path, stdin: bytes = b"") -> Ended:
    """Run a command line in this process."""
    with ExitStack() as stack:
        given, out, err = (stack.enter_context(TemporaryFile("w+", encoding="utf-8")) for _ in range(3))
        given.buffer.write(stdin)
        given.seek(0)
        stack.enter_context(patch("sys.stdin", given))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        stack.enter_context(patch("sys.argv", ["apportion", *map(str, arguments)]))
        stack.enter_context(patch("sys.excepthook", sys.excepthook))  # Typer sets its own
        exit_code = 0
        try:
            main()
        except SystemExit as ended:
            exit_code = int(ended.code or 0)
        for file in (out, err):
            file.seek(0)
        return Ended(exit_code, bytes(out.buffer.read()), err.read())


def process(*arguments: str | Path, stdin: bytes = b"", **variables: str) -> Ended:
    """Run a command line in an interpreter of its own, with these variables and no others of ours."""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        command(*arguments), env=environment(**variables), input=stdin, capture_output=True, check=False
    )
    return Ended(done.returncode, done.stdout, done.stderr.decode())


@contextmanager
def started(line: Sequence[str | Path], **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """Run a process until the block ends; it is killed then, even if the test fails."""
    with subprocess.Popen(line, **options) as running:  # noqa: S603 - a test's own
        try:
            yield running
        finally:
            running.kill()


def give_signals_back() -> None:
    """Let child processes receive signals that this process ignores since its start.

    A shell starts background commands with SIGINT ignored, and nohup ignores SIGHUP. Children inherit that.
    An empty handler is not inherited.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def command(*arguments: str | Path) -> list[str]:
    """Return the command line of such a process."""
    return [sys.executable, "-m", "apportion", *map(str, arguments)]


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of such a process."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCES), **variables}


def answers(*command: str) -> bool:
    """Return whether a command can be run and succeeds."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)  # noqa: S603 - a test's own
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
