"""The demo, as its user sees it: its output, its end, and the page as its only file."""

import os
import re
import signal
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from support.commands import ROOT, command, environment, started

from apportion.demo.demo.process import WorkerEndedError, worker_process

DEADLINE_S = 60.0


PAGE = "demo-report.html"
VARYING = (
    (r"127\.0\.0\.1:\d+", "PLACE"),
    (r"(process|kill -9) \d+", r"\1 PID"),
    (r"\d+\.\d (s|ms|MB)\b", r"SIZE \1"),
    (r"\S*/demo-report", "demo-report"),
    (r", \d+ repeated", ""),
    (r"─+$", "─"),
    (r"(█|░)(.*?) +\d+$", r"\1\2 MS"),
)
"""Parts that vary with the machine or a killed worker: places, processes, times and sizes."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for temporary files, which must be empty at the end; the demo starts in its parent."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    return temporary


def start(folder: Path, *arguments: str, **variables: str) -> AbstractContextManager["subprocess.Popen[str]"]:
    """Start the demo in the parent of its temporary folder, in a pipe, until the block ends."""
    return started(
        command("demo", *arguments),
        cwd=folder.parent,
        env=environment(TMPDIR=str(folder), **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def masked(text: str) -> list[str]:
    """Return lines with their varying parts masked."""
    lines = [line.rstrip() for line in text.splitlines()]
    for pattern, instead in VARYING:
        lines = [re.sub(pattern, instead, line) for line in lines]
    return lines


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


def ended(demo: subprocess.Popen[str]) -> tuple[int, str]:
    shown, _ = demo.communicate(timeout=DEADLINE_S)
    return demo.returncode, shown


def run(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    with start(folder, *arguments, **variables) as demo:
        return ended(demo)


def read_until(demo: subprocess.Popen[str], part: str) -> list[str]:
    """Return the output up to the first line with this part, that line included."""
    assert demo.stdout is not None
    lines: list[str] = []
    for line in demo.stdout:
        lines.append(line)
        if part in line:
            return lines
    raise AssertionError("".join(lines))


def test_it_prints_the_readmes_output_and_leaves_only_the_page(
    folder: Path,
) -> None:
    (folder.parent / "apportion.toml").write_text('partitions = 8\nfingerprint_secret_file = "missing"\n')
    exit_code, shown = run(folder, COLUMNS="80", TERM="xterm-256color")
    assert exit_code == 0, shown
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert [line for line in shown.splitlines() if len(line) > 80 and PAGE not in line] == []
    told = iter(masked(shown))
    box = (ROOT / "README.md").read_text("utf-8").partition("<!-- demo -->\n```text\n")[2].partition("```")[0]
    for line in masked(box):
        assert line == "  …" or line in told, f"{line}\n\nis not, or not there, in\n\n{shown}"
    assert (folder.parent / PAGE).read_text("utf-8").startswith("<!doctype html>")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_and_a_crash_leave_no_process_and_no_file(folder: Path, how: signal.Signals) -> None:
    with start(folder, "--requests", "300") as demo:
        read_until(demo, "/8,000  ")
        processes = descendants(demo.pid)
        assert len(processes) >= 2, "the broker and the worker"
        os.kill(demo.pid, how)
        exit_code, _ = ended(demo)
    assert exit_code == (130 if how is signal.SIGINT else -signal.SIGKILL)
    wait_until_gone(processes)
    assert not list(folder.iterdir())


def test_it_prints_its_summary_before_waiting_and_ends_on_ctrl_c(folder: Path) -> None:
    with start(folder, "--requests", "1", "--keep") as demo:
        shown = read_until(demo, "apportion send --brokers 127.0.0.1:")
        assert any("1 decision verified" in line or "decisions verified" in line for line in shown)
        os.kill(demo.pid, signal.SIGINT)
        assert ended(demo) == (0, "Stopped.\n")


def test_dead_letters_are_shown_in_full_and_give_exit_code_3(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    policies = tmp_path_factory.mktemp("policies")
    (policies / "tight.toml").write_text(
        'name = "tight"\nversion = "1"\nstrategy = "lanes"\ncounter = "chars4"\nbudget_tokens = 9\n'
        "[lanes.rules]\npriority = 0\nmin_tokens = 0\nmax_tokens = 9\n"
    )
    exit_code, shown = run(
        folder, "--requests", "2", "--policies", str(policies), "--default-policy", "tight"
    )
    assert exit_code == 3, shown
    assert shown.count("dead letter: unknown_lane: policy tight has no such lane; it has ") == 2
    assert "apportion: dead_letters: 3 events were refused" in shown


def test_a_dead_worker_is_reported_at_once(folder: Path) -> None:
    with start(folder, "--requests", "300") as demo:
        read_until(demo, "/8,000")
        for worker in descendants(demo.pid):
            if b"apportion.cli._child" in Path(f"/proc/{worker}/cmdline").read_bytes():
                os.kill(worker, signal.SIGKILL)
        exit_code, shown = ended(demo)
    assert exit_code == 1
    assert "worker_ended: the worker ended; its last lines:" in shown
    assert "message=ready" in shown


@pytest.mark.asyncio
async def test_a_worker_that_cannot_start_prints_only_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(WorkerEndedError) as caught:
        async with worker_process({"partitions": "0"}):
            pass
    said = str(caught.value).splitlines()
    assert said[0] == "the worker ended; its last lines:"
    assert [line.split(" (")[0] for line in said[1:]] == ["apportion: invalid_settings: partitions"]
    assert not caplog.records


@pytest.mark.parametrize(
    ("arguments", "exit_code", "told"),
    [
        (("--repo", "."), 1, "not_a_repository"),
        (("--repo", "missing"), 2, "missing"),
        (("--default-policy", "tiers"), 2, "default_policy (--default-policy)"),
        (("--default-policy", "nowhere"), 2, "no policy of that name"),
        (("--report", "missing/page.html"), 2, "--report"),
    ],
)
def test_wrong_arguments_are_refused_before_the_start(
    arguments: tuple[str, ...], exit_code: int, told: str, folder: Path
) -> None:
    found, shown = run(folder, *arguments)
    assert found == exit_code
    assert told in shown
    assert "broker" not in shown
    assert "Traceback" not in shown
