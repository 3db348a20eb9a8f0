"""The demo, as its user sees it: it shows every decision, ends by itself, and leaves nothing behind."""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from commands import command, environment

DEADLINE_S = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for temporary files, in which nothing may be left."""
    assert not list(tmp_path.iterdir())
    return tmp_path


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        command("demo", *arguments),
        env=environment(TMPDIR=str(folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def descendants(pid: int) -> set[int]:
    """Return the processes that a process started, and theirs."""
    found: set[int] = set()
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        if int(fields["PPid"]) == pid:
            found |= {int(fields["Pid"])} | descendants(int(fields["Pid"]))
    return found


def wait_until_gone(pids: set[int]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, "a process was left behind"
        os.sched_yield()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_it_shows_each_decision_then_a_summary_and_leaves_nothing(folder: Path) -> None:
    done = start(folder, "--requests", "12")
    shown, _ = done.communicate(timeout=DEADLINE_S)
    assert done.returncode == 0, shown
    lines = [line for line in shown.splitlines() if "/8,000" in line]
    assert len(lines) == 12
    assert "the first context, composed" in shown
    assert "12 in" in shown
    assert "Try next" in shown
    assert not list(folder.iterdir())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_and_a_crash_leave_no_process_and_no_file(folder: Path, how: signal.Signals) -> None:
    demo = start(folder, "--requests", "300")
    assert demo.stdout is not None
    started: set[int] = set()
    for line in demo.stdout:
        if "/8,000" in line:
            started = descendants(demo.pid)
            break
    assert len(started) >= 2, "the broker and the worker"
    os.kill(demo.pid, how)
    demo.communicate(timeout=DEADLINE_S)
    wait_until_gone(started)
    assert not list(folder.iterdir())


def test_a_folder_that_is_no_repository_is_named_before_anything_starts() -> None:
    with tempfile.TemporaryDirectory() as empty:
        done = start(Path(empty), "--repo", empty)
        shown, _ = done.communicate(timeout=DEADLINE_S)
    assert done.returncode != 0
    assert "not_a_repository" in shown
    assert "Traceback" not in shown
