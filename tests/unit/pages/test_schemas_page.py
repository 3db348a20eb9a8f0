"""The command of docs/schemas.md and its output, and tables with the names of the code."""

import re
from pathlib import Path

import pytest
from support.commands import ROOT, apportion
from support.registries import Registry, serving

from apportion.contracts.registry.subjects import SCHEMA_ID_HEADER, SubjectStatus
from apportion.contracts.schemas.topics import Compatibility
from apportion.settings import Settings

PAGE = (ROOT / "docs" / "schemas.md").read_text("utf-8")


def test_the_command_prints_the_shown_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command, shown = re.findall(r"^\$ apportion (topics register.*)\n((?:[^$].*\n)+)", PAGE, re.MULTILINE)[0]
    with serving(Registry()) as registry:
        ended = apportion(*command.replace("http://registry:8081", registry.url).split())
    assert [line.split("\t") for line in ended.out.decode().splitlines()] == [
        re.split(r"\s{2,}", line) for line in shown.splitlines()
    ]


def test_every_setting_status_and_compatibility_is_on_the_page() -> None:
    settings = {name for name in Settings.model_fields if name.startswith("schema_registry")}
    names = settings - {"schema_registry_password"} | {*SubjectStatus, *Compatibility, SCHEMA_ID_HEADER}
    assert {name for name in names if f"`{name}`" not in PAGE} == set()
