"""Processes started by tests, which end on Ctrl-C even if the tests ignore it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import ROOT, environment, started

IGNORING = """
import signal, subprocess, sys
from support.commands import give_signals_back

for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
give_signals_back()
signal.raise_signal(signal.SIGINT)
sys.exit(subprocess.call([sys.executable, "-c", {child!r}]))
"""
CHILD = """
import signal
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
"""


def test_children_take_the_signals_that_tests_were_started_to_ignore() -> None:
    done = ended(sys.executable, "-c", IGNORING.format(child=CHILD))
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_stays_behind_a_test_that_fails() -> None:
    waiting = [sys.executable, "-c", "import signal; signal.pause()"]
    with pytest.raises(AssertionError), started(waiting) as process:
        raise AssertionError
    assert process.returncode == -signal.SIGKILL


def test_an_endless_read_ends_with_the_test(tmp_path: Path) -> None:
    conftest = (ROOT / "tests" / "conftest.py").read_text("utf-8")
    (tmp_path / "conftest.py").write_text(conftest.replace("900.0, 60.0", "0.5, 60.0"))
    test = "import os\ndef test_it():\n    reading, _ = os.pipe()\n    os.read(reading, 1)"
    (tmp_path / "test_it.py").write_text(test)
    done = ended(sys.executable, "-m", "pytest", str(tmp_path))
    assert (done.returncode, "Failed: it took more than 0.5 s" in done.stdout) == (1, True)


def ended(*line: str) -> "subprocess.CompletedProcess[str]":
    variables = environment(PYTHONPATH=f"{ROOT / 'tests'}:{ROOT / 'worker'}")
    return subprocess.run(line, env=variables, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - our own interpreter
