"""The version of the release, equal in every place that names it."""

import re
import tomllib
from datetime import date
from pathlib import Path

import pytest

from apportion import ENGINE_VERSION, __version__

ROOT = Path(__file__).parents[3]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
ENGINE_VERSIONS = [
    re.findall(r"The engine version is ([\d.]+)\.", section) for section in CHANGELOG.split("\n## ")[1:]
]
"""The engine versions that each section of the changelog names, the newest section first."""


def test_the_package_has_the_version_of_the_project() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == __version__


def test_the_changelog_has_the_release_below_unreleased() -> None:
    assert HEADINGS[0] == "[Unreleased]"
    released = re.fullmatch(r"\[(.*)\] - (.*)", HEADINGS[1])
    assert released is not None
    assert released[1] == __version__
    assert date.fromisoformat(released[2])


def test_the_changelog_names_the_engine_version_of_this_code() -> None:
    unreleased, release, *_ = ENGINE_VERSIONS
    assert (unreleased or release) == [ENGINE_VERSION]


def test_an_unreleased_engine_version_is_not_the_one_of_the_release() -> None:
    unreleased, *releases = ENGINE_VERSIONS
    assert all(len(versions) == 1 for versions in releases)
    assert unreleased != releases[0]


@pytest.mark.parametrize("overlay", ["staging", "production"])
def test_the_manifests_name_the_image_of_the_release(overlay: str) -> None:
    text = (ROOT / "deploy/kubernetes/overlays" / overlay / "kustomization.yaml").read_text()
    assert re.findall(r"newTag: ([^}\s]+)", text) == [__version__]
