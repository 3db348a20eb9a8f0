"""Cases made from the history of a repository that the tests make."""

import os
import subprocess
from pathlib import Path

import pytest
from benchmarks.retrieval.failures import DataError
from benchmarks.retrieval.repositories import change_cases, is_fix

JOBS = """import time

def start(job):
    job.start()

def stop(job):

    job.stop()
    return job
"""
MESSAGE = "Stop a job before it is removed\n\nReviewed-by: Ann <ann@example.com>"


def commit(folder: Path, message: str, **files: str | None) -> None:
    """Commit files; their names have `__` for a slash."""
    for name, text in files.items():
        file = folder / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(exist_ok=True)
        if text is None:
            file.unlink()
        else:
            file.write_text(text)
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
    for command in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-q", "-m", message)):
        subprocess.run(["git", *command], cwd=folder, env=environment, check=True)  # noqa: S603, S607


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "jobs"
    folder.mkdir()
    commit(
        folder,
        "Begin with the code of jobs",
        src__jobs=JOBS,
        src__other="x = 1\n",
        tests__test_jobs="y = 1\n",
    )
    return folder


def test_a_change_gives_its_message_and_the_lines_that_it_changed(repository: Path) -> None:
    changed = JOBS.replace("    job.stop()\n", "    job.halt()\n")
    commit(repository, MESSAGE, src__jobs=changed, tests__test_jobs="y = 2\n")
    (case,) = change_cases(repository, 9)
    assert case.group == "jobs"
    assert case.query == "Stop a job before it is removed"
    assert [source.name for source in case.sources] == ["src/jobs.py", "src/other.py"]
    assert case.sources[0].text == JOBS
    assert case.evidence == {(0, 7)}
    assert case.units == (frozenset({(0, 7)}),)


def test_the_evidence_of_an_addition_is_the_line_before_it_that_is_not_blank(repository: Path) -> None:
    added = JOBS.replace("import time\n\n", "import time\n\nLIMIT = 3\n\n")
    commit(repository, MESSAGE, src__jobs=added)
    (case,) = change_cases(repository, 9)
    assert case.evidence == {(0, 0)}
    assert case.units == ()


def test_tests_can_be_sources_but_are_never_evidence(repository: Path) -> None:
    commit(repository, MESSAGE, src__other="x = 2\n", tests__test_jobs="y = 2\n")
    (case,) = change_cases(repository, 9, has_tests=True)
    assert [source.name for source in case.sources] == ["src/jobs.py", "src/other.py", "tests/test_jobs.py"]
    assert case.evidence == {(1, 0)}


def test_the_newest_suitable_changes_come_first_and_no_more_than_wanted(repository: Path) -> None:
    commit(repository, "The first change of four words", src__other="x = 2\n")
    commit(repository, "Too short", src__other="x = 3\n")
    commit(repository, "A change of nothing but tests", tests__test_jobs="y = 2\n")
    commit(repository, "A change that adds a file", src__new="z = 1\n", src__other="x = 4\n")
    commit(repository, "A change that removes a file", src__new=None, src__other="x = 5\n")
    commit(repository, "The last change of this history", src__jobs="import os\n")
    cases = list(change_cases(repository, 9))
    assert [case.query for case in cases] == [
        "The last change of this history",
        "The first change of four words",
    ]
    assert [case.name for case in change_cases(repository, 1)] == [cases[0].name]
    assert list(cases[0].newest_first) == [1], "only one of the files was changed after the first commit"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Fix a crash of the parser", True),
        ("[#12] Jobs: bugfix for stop()", True),
        ("Resolve ISSUE 12 of the jobs", True),
        ("Avoid a regression in start\n\nmore", True),
        ("Add a prefix to the names\n\nFix lint", False),
        ("Fix typos in the messages", False),
        ("docs: fix an example", False),
    ],
)
def test_the_first_line_says_if_a_commit_fixes_a_bug(message: str, *, expected: bool) -> None:
    assert is_fix(message) is expected


def test_fixes_are_a_kind_of_their_own_and_can_be_the_only_one(repository: Path) -> None:
    commit(repository, "Fix the value of the other", src__other="x = 2\n")
    commit(repository, "Change the value of the other", src__other="x = 3\n")
    assert [case.kind for case in change_cases(repository, 9)] == ["other", "fix"]
    (fix,) = change_cases(repository, 1, fixes_only=True)
    assert fix.query == "Fix the value of the other"


def test_files_of_a_language_without_a_parser_are_sources_without_functions(repository: Path) -> None:
    ruby = repository / "src" / "jobs.rb"
    for text in ("def stop\nend\n", "def stop\n  halt\nend\n"):
        ruby.write_text(text)
        commit(repository, f"Change the Ruby code to {len(text)}")
    (case,) = change_cases(repository, 9)
    assert case.sources[1].name == "src/jobs.rb"
    assert case.evidence == {(1, 0)}
    assert case.units == ()


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="name a folder inside one"):
        list(change_cases(tmp_path, 1))
