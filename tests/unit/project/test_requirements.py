"""Packages of the image: pinned by hash, and within the package's requirements."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

FOLDER = Path(__file__).parents[3]
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
OWN = re.compile(r"apportion\[([\w,-]+)\]")
NOT_PINNED_ALONE = {"code", "langchain", "litellm", "openai-agents", "pydantic-ai", "query"}
"""Extras of frameworks, whose applications pin what they install, and parts of the worker's extra."""


def asked_by(extra: str) -> list[str]:
    """The requirements of an extra, including the extras that it names."""
    asked = PROJECT["project"]["dependencies"] + EXTRAS[extra]
    named = [own for each in asked if (found := OWN.fullmatch(each)) for own in found[1].split(",")]
    return [each for each in asked if not OWN.fullmatch(each)] + [
        each for own in named for each in asked_by(own)
    ]


ASKED_FOR = {
    "run.txt": PROJECT["project"]["dependencies"],
    "build.txt": PROJECT["build-system"]["requires"],
    **{f"{extra}.txt": asked_by(extra) for extra in EXTRAS if extra not in NOT_PINNED_ALONE},
}


@pytest.fixture(params=ASKED_FOR)
def file(request: pytest.FixtureRequest) -> Path:
    return FOLDER / "requirements" / str(request.param)


def test_the_pins_satisfy_the_requirements_of_the_package(file: Path) -> None:
    pinned = dict(re.findall(r"^(\S+)==([^\s;]+)", file.read_text(), re.MULTILINE))
    for asked in map(Requirement, ASKED_FOR[file.name]):
        assert asked.specifier.contains(pinned[asked.name]), "compile it again: see requirements/README.md"


def test_every_requirement_has_its_hashes_and_none_is_a_place(file: Path) -> None:
    requirements = file.read_text().replace("\\\n", "").splitlines()
    assert requirements
    for requirement in requirements:
        assert re.fullmatch(r"[\w.-]+==[\w.]+( ; [^:]+?)?\s+(--hash=sha256:[0-9a-f]{64}\s*)+", requirement)


def test_composing_needs_none_of_kafkas_libraries_and_the_worker_does() -> None:
    names = {
        file: set(re.findall(r"^(\S+)==", (FOLDER / "requirements" / file).read_text(), re.MULTILINE))
        for file in ASKED_FOR
    }
    assert names["run.txt"] < names["worker.txt"] <= names["demo.txt"] & names["dev.txt"]
    assert not any("kafka" in each or "faust" in each or "aio" in each for each in names["run.txt"])
