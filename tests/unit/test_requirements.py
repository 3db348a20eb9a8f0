"""What the image installs is pinned by hash, and is what the package asks for."""

import re
import tomllib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2]
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text())
ASKED_FOR = {
    "run.txt": PROJECT["project"]["dependencies"],
    "build.txt": PROJECT["build-system"]["requires"],
    **{
        f"{extra}.txt": PROJECT["project"]["dependencies"] + asked
        for extra, asked in PROJECT["project"]["optional-dependencies"].items()
    },
}


@pytest.fixture(params=ASKED_FOR)
def file(request: pytest.FixtureRequest) -> Path:
    return FOLDER / "requirements" / str(request.param)


def test_the_pins_are_those_that_the_package_asks_for(file: Path) -> None:
    pinned = set(re.findall(r"^\S+==\S+", file.read_text(), re.MULTILINE))
    asked = {each.partition(";")[0] for each in ASKED_FOR[file.name]}
    assert pinned.issuperset(asked), "compile it again: see requirements/README.md"


def test_every_requirement_has_its_hashes_and_none_is_a_place(file: Path) -> None:
    requirements = file.read_text().replace("\\\n", "").splitlines()
    assert requirements
    for requirement in requirements:
        assert re.fullmatch(r"[\w.-]+==[\w.]+( ; [^:]+?)?\s+(--hash=sha256:[0-9a-f]{64}\s*)+", requirement)
