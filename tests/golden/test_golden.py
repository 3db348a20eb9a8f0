"""Golden answers for a fixed repository's workload, compared byte for byte.

An intended change needs a new engine version: run `python tests/golden/test_golden.py`, and read the
difference before committing it.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from support.commands import process

from apportion.demo.workload.requests import from_git

HERE = Path(__file__).parent
SECRET = "a fixed secret for golden files"  # noqa: S105 - it keeps no secret
FILES = ("events.jsonl", "composed.jsonl", "decisions.jsonl")


def make(folder: Path, hash_seed: str) -> None:
    """Write the workload of the repository, and its answers, into a folder."""
    repository = folder / "repository.git"
    git = shutil.which("git")
    assert git is not None
    with (HERE / "repository.fast-import").open("rb") as history:
        subprocess.run([git, "init", "--quiet", "--bare", repository], check=True)  # noqa: S603 - git itself
        subprocess.run([git, "-C", repository, "fast-import", "--quiet"], stdin=history, check=True)  # noqa: S603 - likewise
    events = b"".join(event + b"\n" for event in from_git(repository, "main"))
    (folder / "events.jsonl").write_bytes(events)
    decisions = folder / "decisions.jsonl"
    done = process(
        *("compose", folder / "events.jsonl", "--decisions", decisions, "--force"),
        APPORTION_FINGERPRINT_SECRET=SECRET,
        PYTHONHASHSEED=hash_seed,
    )
    assert (done.exit_code, done.err) == (0, "")
    (folder / "composed.jsonl").write_bytes(done.out)


@pytest.fixture(scope="module", params=["0", "1234"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    make(folder, str(request.param))
    return folder


@pytest.mark.parametrize("name", FILES)
def test_the_same_repository_gives_the_same_bytes(made: Path, name: str) -> None:
    assert (made / name).read_bytes() == (HERE / name).read_bytes()


def test_the_golden_files_hold_something(made: Path) -> None:
    assert len((made / "composed.jsonl").read_bytes().splitlines()) == len(
        (HERE / "events.jsonl").read_bytes().splitlines()
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        make(Path(temporary), "0")
        for each in FILES:
            shutil.copy(Path(temporary) / each, HERE / each)
