"""docs/strategies/request.md: two bodies of `docs/examples`, composed and explained as the page shows."""

import re
from pathlib import Path

import pytest
from support.commands import ROOT, apportion

PAGE = (ROOT / "docs" / "strategies" / "request.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"^```(python|text|console)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))


def test_the_two_bodies_are_composed_and_explained_as_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS["python"], {})  # noqa: S102 - of the page
    assert capsys.readouterr().out == BLOCKS["text"]
    commands = re.findall(r"^\$ apportion (.*)\n((?:(?!\$).*\n)+)", BLOCKS["console"], re.MULTILINE)
    assert len(commands) == 2
    for line, shown in commands:
        ended = apportion(*line.split())
        assert ended.exit_code == 0, ended.err
        printed = [line.rstrip() for line in ended.out.decode().splitlines()]
        assert [line for line in shown.splitlines() if line not in ("…", *printed)] == []
