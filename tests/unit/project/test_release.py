"""The version of the release, equal in every place that names it."""

import re
import tomllib
from datetime import date
from pathlib import Path

import pytest

from apportion import ENGINE_VERSION, __version__

ROOT = Path(__file__).parents[3]
HEADINGS = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_package_has_the_version_of_the_project() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == __version__


def test_the_changelog_has_the_release_below_unreleased() -> None:
    assert HEADINGS[0] == "[Unreleased]"
    released = re.fullmatch(r"\[(.*)\] - (.*)", HEADINGS[1])
    assert released is not None
    assert released[1] == __version__
    assert date.fromisoformat(released[2])


def test_the_changelog_names_the_engine_version_of_the_release() -> None:
    newest = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[2]
    assert f"The engine version is {ENGINE_VERSION}." in newest


@pytest.mark.parametrize("overlay", ["staging", "production"])
def test_the_manifests_name_the_image_of_the_release(overlay: str) -> None:
    text = (ROOT / "deploy/kubernetes/overlays" / overlay / "kustomization.yaml").read_text()
    assert re.findall(r"newTag: ([^}\s]+)", text) == [__version__]
