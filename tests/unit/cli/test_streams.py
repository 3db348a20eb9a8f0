"""Commands with standard streams that are closed, full, broken or not Unicode."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from support.commands import command, environment

TO_STDOUT = ("policies list --offline", "config", "config --json", "workload recorded", "--help", "--version")


def redirected(arguments: str, redirection: str, folder: Path) -> tuple[int, str]:
    """Run a command line with a stream redirected by the shell; return its exit code and messages."""
    line = f"exec {shlex.join(command(*arguments.split()))} {redirection}"
    ended = subprocess.run(  # noqa: S603 - our own interpreter
        ["/bin/sh", "-c", line], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("arguments", TO_STDOUT)
def test_a_full_disk_is_a_one_line_failure(arguments: str, tmp_path: Path) -> None:
    exit_code, told = redirected(arguments, "> /dev/full", tmp_path)
    assert exit_code == 1
    assert told.startswith("apportion: file_failed: ")
    assert told.endswith(": No space left on device\n")
    assert told.count("\n") == 1


@pytest.mark.parametrize("arguments", TO_STDOUT)
def test_a_closed_reader_is_no_error(arguments: str, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(  # noqa: S603 - our own interpreter
        command(*arguments.split()),
        cwd=tmp_path,
        env=environment(),
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("arguments", "redirection"), [("config", ">&-"), ("compose", "<&-"), ("workload recorded", ">&-")]
)
def test_a_closed_stream_is_a_one_line_failure(arguments: str, redirection: str, tmp_path: Path) -> None:
    exit_code, told = redirected(arguments, redirection, tmp_path)
    assert exit_code == 1
    assert told.startswith("apportion: file_failed: ")
    assert told.endswith(": Bad file descriptor\n")


def test_with_stderr_closed_only_messages_are_lost(tmp_path: Path) -> None:
    assert redirected("config --json", "2>&-", tmp_path) == (0, "")
    assert redirected("config --partitions 0", "2>&-", tmp_path) == (2, "")


def test_characters_outside_the_encoding_of_stdout_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "apportion.toml").write_text('policies = "rules/\u00e9"', encoding="utf-8")
    shown = subprocess.check_output(  # noqa: S603 - our own interpreter
        command("config"), cwd=tmp_path, env=environment(PYTHONIOENCODING="ascii")
    )
    assert b"rules/\\xe9\t" in shown
