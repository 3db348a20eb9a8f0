import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from support.commands import apportion, command, environment

from apportion.demo.demo.view import next_steps

GIT = shutil.which("git") or "git"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two commits of one file each, outside the working directory of the command."""
    for variable in [name for name in os.environ if name.startswith("APPORTION_")]:
        monkeypatch.delenv(variable)
    folder, elsewhere = tmp_path / "repository", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    git(folder, "init", "--quiet")
    for name in ("one", "two"):
        (folder / f"{name}.py").write_text(f"def {name}():\n    return 1\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", f"--message=Add {name}")
    return folder


def git(folder: Path, *arguments: str) -> None:
    person = {
        f"GIT_{role}_{part}": "a@example.org"
        for role in ("AUTHOR", "COMMITTER")
        for part in ("NAME", "EMAIL")
    }
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **person}
    subprocess.run([GIT, *arguments], cwd=folder, env=environment, check=True)  # noqa: S603 - git, as we call it


def test_a_history_becomes_requests_that_compose_answers(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = apportion("workload", "from-git", repository)
    assert (made.exit_code, made.err) == (0, "")
    events = [json.loads(line) for line in made.out.splitlines()]
    assert [event["trigger"]["event"] for event in events] == ["file_saved", "git_commit"] * 2
    monkeypatch.setenv("APPORTION_FINGERPRINT_SECRET", "a fixed secret for tests")
    composed = apportion("compose", stdin=made.out)
    assert composed.exit_code == 0
    assert len(composed.out.splitlines()) == len(events)


def test_only_the_last_requests_are_made_on_request(repository: Path) -> None:
    every = apportion("workload", "from-git", repository).out.splitlines()
    assert apportion("workload", "from-git", repository, "--max-requests", "1").out.splitlines() == every[-1:]


def test_a_revision_ends_the_history_and_a_policy_is_named(repository: Path) -> None:
    made = apportion("workload", "from-git", repository, "--revision", "HEAD~1", "--policy", "mine")
    events = [json.loads(line) for line in made.out.splitlines()]
    assert len(events) == 2
    assert {event["policy"] for event in events} == {"mine"}


def test_a_file_takes_the_requests_instead_of_stdout(repository: Path) -> None:
    to_stdout = apportion("workload", "from-git", repository).out
    ended = apportion("workload", "from-git", repository, "-o", "events.jsonl")
    assert (ended.out, ended.err) == (b"", "")
    assert Path("events.jsonl").read_bytes() == to_stdout


@pytest.mark.parametrize(
    "arguments", [("missing",), (".", "--max-requests", "0"), (".", "-o", "missing/events")]
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...], repository: Path) -> None:
    assert repository.is_dir()
    assert apportion("workload", "from-git", *arguments).exit_code == 2


def test_a_folder_without_a_history_is_a_reported_failure(repository: Path) -> None:
    (repository.parent / "plain").mkdir()
    ended = apportion("workload", "from-git", repository.parent / "plain")
    assert ended.exit_code == 1
    assert ended.err.startswith("apportion: not_a_repository: ")


def test_the_next_steps_of_the_demo_work_when_pasted(repository: Path) -> None:
    told = [line.strip() for line in next_steps("").splitlines()]
    steps = [line for line in told if "events.jsonl" in line or line.startswith("export ")]
    assert len(steps) == 3, "make events, set a secret, compose them"
    lines = ["set -e", f'apportion() {{ {shlex.join(command())} "$@"; }}', *steps]
    script = "\n".join(lines).replace("PATH", shlex.quote(str(repository)))
    ended = subprocess.run(["/bin/sh", "-c", script], env=environment(), capture_output=True, check=False)  # noqa: S603 - our own commands
    assert ended.returncode == 0, ended.stderr
    assert len(Path("composed.jsonl").read_bytes().splitlines()) == 4
    assert ended.stderr.count(b"In the context, by rank") == 4


def test_a_folder_and_a_question_become_one_request_with_search_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "jobs.py").write_text("def cancel_job(name):\n    return None\n")
    (folder / "src" / "orders.py").write_text("def pay(order):\n    return order\n")
    made = apportion("workload", "from-files", folder, "--query", "Where is a job cancelled?")
    assert (made.exit_code, made.err) == (0, "apportion: files 2; left out: none\n")
    composed = apportion("compose", "--policy", "search", "--format", "text", stdin=made.out)
    [answer] = [json.loads(line) for line in composed.out.splitlines()]
    assert "### src/jobs.py\ndef cancel_job(name):" in answer["body"]["parts"][0]
    again = apportion("workload", "from-files", folder, "--query", "Where is a job cancelled?")
    assert again.out == made.out


def test_skipped_files_of_a_folder_are_counted_by_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "project"
    (folder / "deep" / "built").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("never read")
    (folder / ".gitignore").write_text("*.log\nbuilt/\n")
    (folder / "deep" / ".gitignore").write_text("!kept.log\n")
    (folder / "deep" / "kept.log").write_text("a job")
    (folder / "deep" / "gone.log").write_text("a job")
    (folder / "deep" / "built" / "out.txt").write_text("a job")
    (folder / "image.bin").write_bytes(b"\x00\x01")
    (folder / "latin.txt").write_bytes(b"\xe9")
    (folder / "empty.txt").write_text("")
    (folder / "large.txt").write_text("x" * 2_001)
    (folder / "wordless.txt").write_text("y" * 1_900)
    (folder / "link").symlink_to(folder / "large.txt")
    limits = ("--max-file-bytes", "2000", "--max-bytes", "4096")
    (folder / "job.txt").write_text("the job " * 200)
    made = apportion("workload", "from-files", folder, "--query", "job", *limits)
    assert [candidate["path"] for candidate in json.loads(made.out)["candidates"]] == [
        *(".gitignore", "deep/.gitignore", "deep/kept.log", "job.txt"),
    ]
    assert made.err == (
        "apportion: the 4 of 5 files that fit the query best (--max-bytes); left out: "
        "ignored by .gitignore 2, symbolic links 1, not UTF-8 text 2, empty 1, above --max-file-bytes 1\n"
    )
    assert len(made.out) <= 4_096


def test_a_folder_within_a_repository_is_read_by_the_ignore_files_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "top" / ".git").mkdir(parents=True)
    (tmp_path / "top" / "src").mkdir()
    (tmp_path / ".gitignore").write_text("*.py\n")
    (tmp_path / "top" / ".gitignore").write_text("*.log\n")
    for name in ("a.py", "a.log"):
        (tmp_path / "top" / "src" / name).write_text("the job")
    made = apportion("workload", "from-files", "top/src", "--query", "job")
    assert [candidate["path"] for candidate in json.loads(made.out)["candidates"]] == ["a.py"]
    assert made.err == "apportion: files 1; left out: ignored by .gitignore 1\n"
