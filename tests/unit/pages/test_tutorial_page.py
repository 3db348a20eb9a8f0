"""docs/tutorial.md, and docs/explain.md after it, show what their commands print."""

import os
import re
import shlex
from pathlib import Path

import pytest
from support.commands import ROOT, apportion

PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
NEXT = (ROOT / "docs" / "explain.md").read_text("utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```$", PAGE + NEXT, re.MULTILINE | re.DOTALL)
STEPS = re.findall(r"^\$ apportion ([^\n]*)\n((?:[^$\n][^\n]*\n|\n)*)", "".join(BLOCKS), re.MULTILINE)


def test_each_command_prints_the_lines_that_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in [name for name in os.environ if name.startswith("APPORTION_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    [events] = re.findall(r"<<'END'\n(.*?\n)END\n", PAGE, re.DOTALL)
    Path("events.jsonl").write_text(events, "utf-8")
    assert len(STEPS) == len(re.findall(r"^\$ apportion ", PAGE + NEXT, re.MULTILINE)) > 0
    for line, shown in STEPS:
        called, _, output = line.partition(" > ")
        ended = apportion(*shlex.split(called))
        assert ended.exit_code == 0, ended.err
        if output:
            Path(output).write_bytes(ended.out)
        printed = [each.rstrip() for each in ended.out.decode().splitlines()]
        assert [each for each in shown.splitlines() if each not in ("…", *printed)] == []
    assert '"text":"Never log a password."' in Path("composed.jsonl").read_text("utf-8")
