"""docs/testing.md: its tests pass under pytest, and its failure is shown as it is."""

import re
import subprocess
import sys
from pathlib import Path

from support.commands import ROOT, environment

PAGE = (ROOT / "docs" / "testing.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
FILES = {block.partition("\n")[0].removeprefix("# "): block for kind, block in BLOCKS if kind != "text"}
[SHOWN] = [block for kind, block in BLOCKS if kind == "text"]


def test_the_tests_of_the_page_pass_and_the_wrong_test_fails_as_shown(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color", "no", str(tmp_path)]
    ran = subprocess.run(  # noqa: S603 - our own interpreter
        command, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert re.search(r"^=+ 1 failed, 4 passed in ", ran.stdout, re.MULTILINE), ran.stdout
    assert "FAILED test_wrong.py::test_a_wrong_expectation" in ran.stdout
    failure = [line.removeprefix("E").strip() for line in ran.stdout.splitlines() if line.startswith("E  ")]
    assert failure == [line.strip() for line in SHOWN.splitlines()]
