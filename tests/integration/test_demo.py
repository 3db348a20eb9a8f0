"""The demo, as its user sees it: it shows every decision, ends by itself, and leaves nothing behind."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from commands import command, environment

from apportion.demo.process import WorkerEndedError, worker_process

DEADLINE_S = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for temporary files, in which nothing may be left."""
    assert not list(tmp_path.iterdir())
    return tmp_path


def start(folder: Path, *arguments: str, within: Path | None = None) -> subprocess.Popen[str]:
    """Start the demo with its temporary files in one folder, within another."""
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        command("demo", *arguments),
        cwd=within,
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


def ended(demo: subprocess.Popen[str]) -> tuple[int, str]:
    shown, _ = demo.communicate(timeout=DEADLINE_S)
    return demo.returncode, shown


def read_until(demo: subprocess.Popen[str], part: str) -> list[str]:
    """Return what is shown up to the first line that has this part, that line included."""
    assert demo.stdout is not None
    lines: list[str] = []
    for line in demo.stdout:
        lines.append(line)
        if part in line:
            return lines
    raise AssertionError("".join(lines))


def test_it_shows_each_decision_then_a_summary_and_leaves_nothing(folder: Path) -> None:
    exit_code, shown = ended(start(folder, "--requests", "12"))
    assert exit_code == 0, shown
    assert len([line for line in shown.splitlines() if "/8,000" in line]) == 12
    parts = ["the first context: ", "mainly for", "/8,000", "12 in", "Try next"]
    places = [shown.index(part) for part in parts]
    assert places == sorted(places)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_and_a_crash_leave_no_process_and_no_file(folder: Path, how: signal.Signals) -> None:
    demo = start(folder, "--requests", "300")
    read_until(demo, "/8,000")
    started = descendants(demo.pid)
    assert len(started) >= 2, "the broker and the worker"
    os.kill(demo.pid, how)
    exit_code, _ = ended(demo)
    assert exit_code == (130 if how is signal.SIGINT else -signal.SIGKILL)
    wait_until_gone(started)
    assert not list(folder.iterdir())


def test_it_sums_up_before_it_stays_and_ends_well_with_ctrl_c(folder: Path) -> None:
    demo = start(folder, "--requests", "1", "--keep")
    shown = read_until(demo, "apportion send --brokers 127.0.0.1:")
    assert any("1 in" in line for line in shown)
    os.kill(demo.pid, signal.SIGINT)
    assert ended(demo) == (0, "Stopped.\n")


def test_no_settings_but_the_named_policies_reach_it(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "apportion.toml").write_text('partitions = 8\nfingerprint_secret_file = "missing"\n')
    exit_code, shown = ended(start(folder, "--requests", "1", within=elsewhere))
    assert exit_code == 0, shown


def test_dead_letters_are_told_in_full_and_are_exit_code_3(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    policies = tmp_path_factory.mktemp("policies")
    (policies / "tight.toml").write_text(
        'name = "tight"\nversion = "1"\nstrategy = "lanes"\ncounter = "chars4"\nbudget_tokens = 9\n'
        "[lanes.rules]\npriority = 0\nmin_tokens = 0\nmax_tokens = 9\n"
    )
    exit_code, shown = ended(
        start(folder, "--requests", "2", "--policies", str(policies), "--default-policy", "tight")
    )
    assert exit_code == 3, shown
    assert shown.count("refused: unknown_lane: policy tight has no such lane; it has ") == 2
    assert "decisions" not in shown


def test_a_worker_that_dies_is_told_at_once(folder: Path) -> None:
    demo = start(folder, "--requests", "300")
    read_until(demo, "/8,000")
    for worker in descendants(demo.pid):
        if b"apportion.demo.child" in Path(f"/proc/{worker}/cmdline").read_bytes():
            os.kill(worker, signal.SIGKILL)
    exit_code, shown = ended(demo)
    assert exit_code == 1
    assert "worker_ended: the worker ended; its last words:" in shown
    assert "message=ready" in shown


@pytest.mark.asyncio
async def test_a_worker_that_cannot_start_says_why_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(WorkerEndedError) as caught:
        async with worker_process(["--partitions", "0"], "a secret of many bytes"):
            pass
    said = str(caught.value).splitlines()
    assert said[0] == "the worker ended; its last words:"
    assert [line.split(" (")[0] for line in said[1:]] == ["apportion: invalid_settings: partitions"]
    assert not caplog.records


@pytest.mark.parametrize(
    ("arguments", "exit_code", "told"),
    [
        (("--repo", "."), 1, "not_a_repository"),
        (("--repo", "missing"), 2, "missing"),
        (("--default-policy", "tiers"), 2, "default_policy (--default-policy)"),
        (("--default-policy", "nowhere"), 2, "no policy of that name"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(
    arguments: tuple[str, ...], exit_code: int, told: str, folder: Path
) -> None:
    found, shown = ended(start(folder, *arguments, within=folder))
    assert found == exit_code
    assert told in shown
    assert "Starting" not in shown
    assert "Traceback" not in shown
