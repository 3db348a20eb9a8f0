"""Cases made from rows of ContextBench and a repository that the tests make."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from benchmarks.retrieval.contextbench import marked_cases
from benchmarks.retrieval.failures import DataError
from unit.retrieval.test_repositories import JOBS, commit


def span(file: str, first: int, last: int) -> dict[str, Any]:
    return {"file": file, "start_line": first, "end_line": last, "content": ""}


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    folder = tmp_path / "clones" / "jobs"
    folder.mkdir(parents=True)
    commit(folder, "Begin", src__jobs=JOBS, tests__test_jobs="y = 1\n")
    return folder.parent


def rows(clones: Path, *spans: dict[str, Any], **changes: Any) -> Path:
    git = ("git", "rev-parse", "HEAD")
    head = subprocess.run(git, cwd=clones / "jobs", check=True, capture_output=True, text=True)  # noqa: S603
    row = {
        "instance_id": "one",
        "repo": "ann/jobs",
        "language": "python",
        "base_commit": head.stdout.strip(),
        "gold_context": json.dumps(spans),
        "problem_statement": "Jobs do not stop",
    }
    file = clones.parent / "rows.jsonl"
    file.write_text(json.dumps(row | changes) + "\n")
    return file


@pytest.mark.parametrize(
    "path", ["src/jobs.py", "./src/jobs.py", "/testbed/src/jobs.py", "/workspace/ann__jobs__0.1/src/jobs.py"]
)
def test_evidence_is_the_lines_of_the_spans_that_are_not_blank(path: str, clones: Path) -> None:
    (case,) = marked_cases(rows(clones, span(path, 1, 3), span("tests/test_jobs.py", 1, 9)), clones)
    assert [source.name for source in case.sources] == ["src/jobs.py", "tests/test_jobs.py"]
    assert case.units == (frozenset({(0, 0), (0, 2)}), frozenset({(1, 0)}))
    assert (case.group, case.kind, case.query) == ("jobs", "python", "Jobs do not stop")


def test_rows_without_a_clone_a_commit_or_a_span_in_code_are_left_out(clones: Path) -> None:
    jobs = span("src/jobs.py", 1, 1)
    for file in (
        rows(clones, jobs, repo="ann/other"),
        rows(clones, jobs, base_commit="0" * 40),
        rows(clones, span("README.md", 1, 1), span("src/jobs.py", 90, 99)),
    ):
        assert list(marked_cases(file, clones)) == []


@pytest.mark.parametrize("text", ["no json", "[1]", '{"repo": "jobs"}'])
def test_another_file_is_refused(text: str, clones: Path) -> None:
    file = clones.parent / "other.jsonl"
    file.write_text(text)
    with pytest.raises(DataError, match="ContextBench"):
        list(marked_cases(file, clones))
