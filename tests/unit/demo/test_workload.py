"""A repository's history as events: their subjects, times, sessions and candidates."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tools.recording import record

import apportion
from apportion.core.bounds import Bounds
from apportion.core.wire.codec import decode
from apportion.demo.workload import repository
from apportion.demo.workload.recording import recorded
from apportion.demo.workload.repository import WorkloadError
from apportion.demo.workload.requests import from_git

Event: TypeAlias = dict[str, Any]
ANN, BOB = "ann@example.org", "bob@example.org"
MONDAY = "2024-01-01T10:00:00+00:00"


class Git:
    """A repository that is built with the git command, without any configuration of the machine."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.command = shutil.which("git") or "git"
        folder.mkdir(parents=True)
        self("init", "--quiet", "--initial-branch=main", *options)

    def __call__(self, *arguments: str, at: str = MONDAY, by: str = ANN, given: str = "") -> str:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": by,
            "GIT_AUTHOR_DATE": at,
            "GIT_COMMITTER_NAME": "C",
            "GIT_COMMITTER_EMAIL": by,
            "GIT_COMMITTER_DATE": at,
        }
        done = subprocess.run(  # noqa: S603 - git, as the test calls it
            [self.command, *arguments],
            cwd=self.folder,
            env=environment,
            input=given.encode(),
            capture_output=True,
            check=True,
        )
        return done.stdout.decode().strip()

    def commit(
        self, files: dict[str, str | bytes | None], message: str = "Change", at: str = MONDAY, by: str = ANN
    ) -> str:
        """Write files (None removes one), commit, and return the commit's oid."""
        for name, content in files.items():
            path = self.folder / name
            if content is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.encode() if isinstance(content, str) else content)
        self("add", "--all")
        self("commit", "--quiet", "--allow-empty", f"--message={message}", at=at, by=by)
        return self("rev-parse", "HEAD")

    def events(self, **options: Any) -> list[Event]:
        return [json.loads(line) for line in from_git(self.folder, **options)]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    return Git(tmp_path / "repository")


@pytest.fixture
def project(git: Git) -> Git:
    """A small project with a little of everything."""
    git.commit(
        {
            "README.md": "# Shop\n\nCounts the stock of a shop.\n",
            "CONTRIBUTING.md": "Every change of the stock needs a test.\n",
            "LICENSE": "Do with the stock what you like.\n",
            "shop/__init__.py": "",
            "shop/stock.py": "class Stock:\n    def take(self, count):\n        return count\n",
            "shop/till.py": "from shop.stock import Stock\n\n\ndef sell(stock):\n    return stock.take(1)\n",
            "tests/test_stock.py": (
                "from shop.stock import Stock\n\n\ndef test_take_counts():\n    assert Stock().take(1) == 1\n"
            ),
            "docs/stock.md": (
                "The stock is counted whenever a customer takes something.\n" + "Nothing else here.\n" * 80
            ),
        },
        message="Start the shop",
    )
    git.commit(
        {"shop/stock.py": "class Stock:\n    def take(self, count):\n        return max(count, 0)\n"},
        message="Never take less than nothing",
        at="2024-01-01T11:00:00+00:00",
    )
    git.commit(
        {
            "shop/till.py": (
                "from shop.stock import Stock\n\n\ndef sell(stock, count):\n    return stock.take(count)\n"
            )
        },
        message="Sell several at once",
        at="2024-01-07T12:00:00+00:00",  # a Sunday, and Monday already where a test goes
        by=BOB,
    )
    return git


def asked(events: list[Event]) -> list[tuple[str, list[str]]]:
    """Return the trigger of each event, and the paths of its differences."""
    return [(event["trigger"]["event"], paths(event, "local_diff")) for event in events]


def paths(event: Event, kind: str) -> list[str]:
    found = (candidate["path"] for candidate in event["candidates"] if candidate["kind"] == kind)
    return list(dict.fromkeys(found))


def graph(event: Event) -> list[str]:
    (edges,) = (each["content"] for each in event["candidates"] if each["kind"] == "dependency_graph")
    return str(edges).splitlines()


def contents(event: Event) -> str:
    return "\n".join(candidate["content"] for candidate in event["candidates"])


def test_every_changed_file_gets_a_request_and_then_the_commit(project: Git) -> None:
    events = project.events()[-2:]

    assert asked(events) == [("file_saved", ["shop/till.py"]), ("git_commit", ["shop/till.py"])]
    saved, committed = events
    assert saved["trigger"]["commitish"] == project("rev-parse", "HEAD~1")
    assert committed["trigger"]["commitish"] == project("rev-parse", "HEAD")
    assert saved["request_id"] != committed["request_id"]


def test_candidates_of_every_kind_are_offered_in_their_lanes(project: Git) -> None:
    offered = [candidate for event in project.events() for candidate in event["candidates"]]

    assert {candidate["kind"]: candidate["lane"] for candidate in offered} == {
        "local_diff": "local",
        "recent_edit": "local",
        "symbol_context": "structure",
        "dependency_graph": "structure",
        "test_context": "structure",
        "rule_doc": "rules",
        "constraint": "policy",
        "semantic_match": "retrieved",
        "session_history": "history",
    }


def test_offered_candidates_belong_to_the_change(project: Git) -> None:
    started, of_stock, _, of_till, _ = project.events()[-5:]

    assert paths(of_stock, "test_context") == ["tests/test_stock.py"]
    assert paths(started, "test_context") == []  # the test is part of that change
    assert graph(of_stock) == ["shop/till.py -> shop/stock.py", "tests/test_stock.py -> shop/stock.py"]
    assert graph(of_till) == ["shop/till.py -> shop/stock.py"]
    names = {each["name"] for each in of_till["candidates"] if each["kind"] == "symbol_context"}
    assert {"take", "sell"} <= names
    assert "shop/stock.py" in paths(of_till, "semantic_match")
    assert "shop/till.py" not in paths(of_till, "semantic_match")
    assert all(each["relevance"] for each in of_till["candidates"] if each["kind"] == "semantic_match")
    assert set(paths(of_till, "rule_doc")) == {"CONTRIBUTING.md", "README.md"}


def test_the_worker_accepts_every_event(project: Git) -> None:
    lines = list(from_git(project.folder, policy="lanes"))

    requests = [decode(line, Bounds()) for line in lines]

    assert [request.session_id for request in requests] == [json.loads(line)["session_id"] for line in lines]
    assert {json.loads(line)["policy"] for line in lines} == {"lanes"}


def test_a_request_knows_nothing_that_comes_later(git: Git) -> None:
    git.commit({"a.txt": "one\n", "b.txt": "two\n"}, at="2024-01-01T10:00:00+00:00")
    git.commit({"a.txt": "apple\n", "b.txt": "banana\n"}, message="Fruit", at="2024-01-02T10:00:00+00:00")
    events = git.events()

    saved_a, saved_b, committed = events[-3:]
    assert "apple" in contents(saved_a)
    assert "banana" not in contents(saved_a)
    assert "apple" in contents(saved_b)
    assert "Fruit" not in contents(saved_a) + contents(saved_b) + contents(committed)
    for event in events:
        assert all(each["created_at"] <= event["requested_at"] for each in event["candidates"])


def test_a_candidate_is_as_old_as_what_its_file_holds(project: Git) -> None:
    committed = project.events()[-1]

    ages = {each["path"]: each["created_at"] for each in committed["candidates"] if "path" in each}
    assert ages["shop/till.py"] == "2024-01-07T12:00:00Z"
    assert ages["shop/stock.py"] == "2024-01-01T11:00:00Z"
    assert ages["README.md"] == "2024-01-01T10:00:00Z"


def test_a_content_that_comes_back_is_as_old_as_its_return(git: Git) -> None:
    for day, content in enumerate(("one\n", "two\n", "one\n"), start=1):
        git.commit({"a.txt": content}, at=f"2024-01-0{day}T10:00:00+00:00")

    for event in git.events():
        assert {each["created_at"] for each in event["candidates"] if "path" in each} == {
            event["requested_at"]
        }


def test_changes_of_a_merge_alone_have_the_age_of_the_merge(git: Git) -> None:
    git.commit({"a.txt": "some words\n"}, at="2024-01-01T10:00:00+00:00")
    git("checkout", "--quiet", "-b", "branch")
    git.commit({"b.txt": "b\n"}, at="2024-01-02T10:00:00+00:00")
    git("checkout", "--quiet", "main")
    git("merge", "--quiet", "--no-ff", "--no-commit", "branch")
    git.commit({"CONTRIBUTING.md": "More words.\n"}, at="2024-01-03T10:00:00+00:00")
    git.commit({"a.txt": "other words\n"}, at="2024-01-04T10:00:00+00:00")

    (guide,) = (each for each in git.events()[-1]["candidates"] if each["kind"] == "rule_doc")

    assert guide["created_at"] == "2024-01-03T10:00:00Z"


def test_a_commits_message_sets_the_relevance(git: Git) -> None:
    git.commit({"a.txt": "plain words\n", "pump.txt": "how to start the pump\n", "c.txt": "nothing\n"})
    git.commit({"a.txt": "other words\n"}, message="Say more of the pump")

    saved, committed = git.events()[-2:]

    assert paths(saved, "semantic_match") == []
    assert paths(committed, "semantic_match") == ["pump.txt"]


def test_the_edited_part_of_a_file_is_offered_and_what_its_author_edited_that_week(git: Git) -> None:
    lines = [f"line {number}\n" for number in range(200)]
    git.commit({"earlier.txt": "words\n"})
    git.commit({"another.txt": "words\n"}, by=BOB)
    git.commit({"a.txt": "".join(lines)})
    git.commit({"a.txt": "".join([*lines[:-1], "the last\n"])})

    saved = git.events()[-2]

    edited = [
        (each["path"], each["chunk_index"]) for each in saved["candidates"] if each["kind"] == "recent_edit"
    ]
    assert edited == [("a.txt", 4), ("earlier.txt", 0)]


def test_the_latest_of_equally_relevant_messages_comes_first(git: Git) -> None:
    for number in range(12):
        git.commit({"a.txt": f"{number}\n"}, message=f"Message {number}")

    told = [each["content"] for each in git.events()[-1]["candidates"] if each["kind"] == "session_history"]

    assert told == [f"Message {number}" for number in range(10, 2, -1)]


def test_a_word_that_no_other_file_holds_makes_none_less_relevant(git: Git) -> None:
    git.commit({"pump.txt": "the pump\n", "c.txt": "nothing\n"})
    git.commit({"a.txt": "xyzzy pump\n"})

    (match,) = (each for each in git.events()[-2]["candidates"] if each["kind"] == "semantic_match")

    assert (match["path"], match["relevance"]) == ("pump.txt", 1.0)


def test_scores_are_shares_in_thousandths_and_the_change_itself_fits_best(project: Git) -> None:
    for event in project.events():
        for each in event["candidates"]:
            scores = (each["relevance"], each["specificity"], each["risk_alignment"])
            assert all(0 <= score <= 1 and score == round(score, 3) for score in scores)
    of_stock = project.events()[-4]
    nearest = {each["kind"]: (each["relevance"], each["specificity"]) for each in of_stock["candidates"]}
    assert nearest["local_diff"][1] == 1.0
    assert nearest["local_diff"][0] >= nearest["rule_doc"][0] > 0


def test_events_come_in_ascending_time_for_any_order_of_commits(git: Git) -> None:
    for day, name in enumerate("cab"):
        at = f"2024-01-{ {'a': 1, 'b': 2, 'c': 3}[name]:02}T10:00:00+00:00"
        git.commit({f"{name}.txt": f"{name}{day}\n"}, at=at)

    events = git.events()

    assert [paths(event, "local_diff") for event in events[1::2]] == [["a.txt"], ["b.txt"], ["c.txt"]]
    times = [event["requested_at"] for event in events]
    assert times == sorted(times)


def test_the_parent_comes_first_among_commits_of_one_second(git: Git) -> None:
    oids = [git.commit({"a.txt": f"{number}\n"}) for number in range(8)]

    committed = [event for event in git.events() if event["trigger"]["event"] == "git_commit"]

    assert [event["trigger"]["commitish"] for event in committed] == oids


def test_a_session_is_one_author_in_one_iso_week_in_utc(git: Git) -> None:
    sunday_in_new_york = "2024-01-07T23:30:00-05:00"
    git.commit({"a.txt": "1\n"}, at="2024-01-07T23:00:00+00:00")
    git.commit({"a.txt": "2\n"}, at=sunday_in_new_york)
    git.commit({"a.txt": "3\n"}, at="2024-01-08T10:00:00+00:00", by=BOB)
    git.commit({"a.txt": "4\n"}, at="2024-01-09T10:00:00+00:00", by=ANN.upper())

    first, second, third, fourth = (event["session_id"] for event in git.events()[1::2])

    assert [session.split("-", 1)[1] for session in (first, second, third)] == [
        "2024-W01",
        "2024-W02",
        "2024-W02",
    ]
    assert second == fourth
    assert second != third
    assert "ann" not in first


def test_files_without_text_are_neither_asked_about_nor_offered(git: Git) -> None:
    git.commit({"text.txt": "words of a text\n"})
    (git.folder / "link.txt").symlink_to("text.txt")
    module = git.commit(
        {
            "zeros.txt": "words\0of a text\n",
            "latin.txt": "wörds of a text\n".encode("latin-1"),
            "surrogate.txt": b"words of \xed\xa0\x80 a text\n",
            "empty.txt": "",
        }
    )
    git("update-index", "--add", "--cacheinfo", f"160000,{module},module")
    git("commit", "--quiet", "--message=Add a submodule")
    git.commit({"text.txt": "more words of a text\n"})

    events = git.events()

    assert {path for event in events for path in paths(event, "local_diff")} == {"text.txt"}
    assert {each["path"] for event in events for each in event["candidates"] if "path" in each} == {
        "text.txt"
    }
    assert [event["trigger"]["event"] for event in events].count("git_commit") == 4


def test_a_change_of_mode_alone_is_no_edit(git: Git) -> None:
    git.commit({"a.sh": "echo\n"})
    (git.folder / "a.sh").chmod(0o755)
    git.commit({})

    assert [event for event, _ in asked(git.events())] == ["file_saved", "git_commit", "git_commit"]


@pytest.mark.parametrize(
    "name",
    [
        "with space.txt",
        "ünïcødé.txt",
        "new\nline.txt",
        "quo\"te's.txt",
        "-dash",
        "日本/語.py",
    ],
)
def test_any_name_of_a_file_travels_as_it_is(git: Git, name: str) -> None:
    git.commit({name: "first\n"})
    git.commit({name: "second\n"})

    events = git.events()

    assert [paths(event, "local_diff") for event in events] == [[name]] * 4
    assert paths(events[-1], "recent_edit") == [name]
    (difference,) = (each["content"] for each in events[-1]["candidates"] if each["kind"] == "local_diff")
    assert [line[:4] for line in difference.split("\n")] == ["--- ", "+++ ", "@@ -", "-fir", "+sec", ""]


def test_a_file_with_a_name_outside_utf8_is_left_out(git: Git) -> None:
    (git.folder / os.fsdecode(b"caf\xe9.txt")).write_text("words\n")
    git.commit({"a.txt": "words\n"})

    assert asked(git.events()) == [("file_saved", ["a.txt"]), ("git_commit", ["a.txt"])]


def test_a_rename_is_a_removal_and_an_addition(git: Git) -> None:
    git.commit({"old.txt": "some words\n"})
    git("mv", "old.txt", "new.txt")
    git.commit({}, at="2024-01-01T11:00:00+00:00")

    assert asked(git.events())[2:] == [
        ("file_saved", ["new.txt"]),
        ("file_deleted", ["old.txt", "new.txt"]),
        ("git_commit", ["new.txt", "old.txt"]),
    ]


def test_a_file_may_become_a_folder_and_a_folder_a_file(git: Git) -> None:
    git.commit({"a": "words\n", "b/c": "words\n"})
    git("rm", "-r", "--quiet", "a", "b")
    git.commit({"a/d": "words\n", "b": "words\n"}, at="2024-01-01T11:00:00+00:00")

    assert [paths(event, "local_diff")[0] for event in git.events()[3:7]] == ["a", "a/d", "b", "b/c"]


def test_a_folder_mode_with_a_leading_zero_is_a_folder(git: Git) -> None:
    git.commit({"a/b.txt": "words\n"})
    tree = b"tree 29\x00040000 a\x00" + bytes.fromhex(git("rev-parse", "HEAD:a"))
    oid = hashlib.sha1(tree).hexdigest()  # noqa: S324 - git's own
    place = git.folder / ".git" / "objects" / oid[:2] / oid[2:]
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(zlib.compress(tree))
    git("update-ref", "HEAD", git("commit-tree", oid, "-p", "HEAD", "-m", "Nothing"))

    assert asked(git.events())[2:] == [("git_commit", [])]


def test_a_repository_of_sha256_is_read_like_any(tmp_path: Path) -> None:
    git = Git(tmp_path / "repository", "--object-format=sha256")
    git.commit({"a.txt": "words\n"})
    git.commit({"a.txt": None, "b/c.txt": "words\n"}, at="2024-01-01T11:00:00+00:00")

    assert [event for event, _ in asked(git.events())] == [
        "file_saved", "git_commit", "file_deleted", "file_saved", "git_commit",
    ]  # fmt: skip


def test_restarting_git_changes_no_byte(project: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = list(from_git(project.folder))

    monkeypatch.setattr(repository, "_QUESTIONS_MAX", 1)

    assert list(from_git(project.folder)) == expected


def test_a_merge_gets_no_request_but_its_branch_does(git: Git) -> None:
    git.commit({"a.txt": "a\n"}, at="2024-01-01T10:00:00+00:00")
    git("checkout", "--quiet", "-b", "branch")
    branch = git.commit({"b.txt": "b\n"}, at="2024-01-01T11:00:00+00:00")
    git("checkout", "--quiet", "main")
    main = git.commit({"c.txt": "c\n"}, at="2024-01-01T12:00:00+00:00")
    git("merge", "--quiet", "--no-ff", "--message=Merge", "branch", at="2024-01-01T13:00:00+00:00")
    last = git.commit({"b.txt": "bb\n"}, at="2024-01-01T14:00:00+00:00")

    committed = [event for event in git.events() if event["trigger"]["event"] == "git_commit"]

    assert [event["trigger"]["commitish"] for event in committed][1:] == [branch, main, last]
    assert paths(committed[2], "local_diff") == ["c.txt"]


def test_the_last_requests_are_the_last_of_all_byte_for_byte(project: Git) -> None:
    every = list(from_git(project.folder))

    for count in (1, 2, 3, 5, len(every), len(every) + 1):
        assert list(from_git(project.folder, max_requests=count)) == every[-count:]


def test_a_revision_ends_the_history(project: Git) -> None:
    assert list(from_git(project.folder, "HEAD~1")) == list(from_git(project.folder))[:-2]


def dump(folder: Path, **environment: str) -> bytes:
    """Return the events as another process writes them."""
    script = "import sys\nfrom pathlib import Path\nfrom apportion.demo.workload.requests import from_git\n"
    script += "sys.stdout.buffer.writelines(from_git(Path(sys.argv[1])))"
    home = str(Path(apportion.__file__).parent.parent)
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": home, **environment}
    command = [sys.executable, "-c", script, str(folder)]
    run = subprocess.run(command, env=variables, capture_output=True, check=True)  # noqa: S603 - our own interpreter
    return run.stdout


def test_the_same_commit_gives_the_same_bytes_in_any_environment(project: Git, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "clone"
    project("clone", "--quiet", "--bare", str(project.folder), str(elsewhere))

    expected = dump(project.folder, PYTHONHASHSEED="1", TZ="UTC", LC_ALL="C")

    assert expected
    assert (
        dump(elsewhere, PYTHONHASHSEED="2", TZ="Pacific/Kiritimati", LC_ALL="C.UTF-8", GIT_DIR="/nowhere")
        == expected
    )


def test_no_configuration_and_no_work_tree_changes_a_byte(project: Git) -> None:
    expected = project.events()

    ran = project.folder / "ran"
    for key, value in {
        "core.autocrlf": "true",
        "core.quotePath": "false",
        "core.fsmonitor": f"touch {ran}",
        "diff.algorithm": "patience",
        "diff.noprefix": "true",
        "diff.odd.command": f"touch {ran}",
        "diff.odd.textconv": f"touch {ran}",
        "mailmap.file": ".mailmap",
    }.items():
        project("config", key, value)
    (project.folder / ".mailmap").write_text(f"<{BOB}> <{ANN}>\n")
    (project.folder / ".gitattributes").write_text("*.py diff=odd\n*.md binary\n")
    (project.folder / "shop" / "stock.py").write_text("not committed\n")
    (project.folder / ".git" / "index").write_text("no index")

    assert project.events() == expected
    assert not ran.exists()


def test_a_file_of_three_mebibytes_keeps_the_bounds(git: Git) -> None:
    line = '"quoted" words, \\ and more of them, \x01 and again\n'
    git.commit({"long.txt": line * (3 * 1024 * 1024 // len(line)), "wide.txt": "word " * 100_000})
    git.commit({"long.txt": line * 70_000, "wide.txt": "other " * 100_000})

    lines = list(from_git(git.folder))

    assert [len(event["candidates"]) > 0 for event in map(json.loads, lines)] == [True] * 6
    assert max(map(len, lines)) < 256 * 1024
    for event in map(json.loads, lines):
        assert max(len(each["content"]) for each in event["candidates"]) < 2_200


def test_long_paths_leave_candidates_out_rather_than_pass_the_bound_of_an_event(git: Git) -> None:
    folder = "/".join(["\\001" * 250] * 14)
    for content in "one", "two":
        changes = "".join(f'M 100644 inline "{folder}/{name}"\ndata 4\n{content}\n' for name in range(10, 60))
        parent = "" if content == "one" else "from refs/heads/main^0\n"
        commit = f"commit refs/heads/main\ncommitter C <{ANN}> 1704103200 +0000\ndata 1\nm\n{parent}"
        git("fast-import", "--quiet", given=commit + changes)

    (line,) = from_git(git.folder, max_requests=1)

    assert Bounds().event_max_bytes * 0.9 < len(line) <= Bounds().event_max_bytes
    assert paths(json.loads(line), "local_diff")


def test_a_path_that_the_worker_would_refuse_is_left_out(git: Git) -> None:
    long, longer = ("/".join(["a" * 9] * 409 + ["b" * length]) for length in (6, 7))
    changes = "".join(f"M 100644 inline {path}\ndata 6\nwords\n\n" for path in (long, longer))
    git(
        "fast-import",
        "--quiet",
        given=f"commit refs/heads/main\ncommitter C <{ANN}> 0 +0000\ndata 0\n{changes}",
    )

    assert len(long) == 4096
    assert asked(git.events()) == [("file_saved", [long]), ("git_commit", [long])]


@pytest.mark.parametrize("name", ["back\\slash.txt", "C:a.txt"])
def test_a_name_that_is_a_path_of_windows_is_left_out(git: Git, name: str) -> None:
    git.commit({"a.txt": "words\n", name: "words\n"})

    assert asked(git.events()) == [("file_saved", ["a.txt"]), ("git_commit", ["a.txt"])]


def test_a_commit_of_many_files_has_many_requests_and_few_candidates(git: Git) -> None:
    git.commit({f"{number % 40}/{number}.txt": f"number {number}\n" for number in range(1_500)})

    last_saved, committed = git.events(max_requests=2)

    assert last_saved["request_id"].endswith("-1499")
    assert 10 < len(committed["candidates"]) < 100


def failure(act: Callable[[], object]) -> str:
    with pytest.raises(WorkloadError) as caught:
        act()
    assert caught.value.place
    return caught.value.code


def test_an_unusable_source_has_an_error_code(git: Git, tmp_path: Path) -> None:
    assert failure(git.events) == "no_commits"
    git.commit({"a.txt": "words\n"})
    assert failure(lambda: git.events(revision="nowhere")) == "unknown_revision"
    assert failure(lambda: git.events(revision="--all")) == "unknown_revision"
    assert failure(lambda: list(from_git(tmp_path))) == "not_a_repository"
    assert failure(lambda: list(from_git(tmp_path / "missing"))) == "not_a_repository"
    with pytest.raises(ValueError, match="max_requests"):
        git.events(max_requests=0)


def test_a_missing_git_has_a_code(git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(git.folder))

    assert failure(git.events) == "git_missing"


@pytest.mark.parametrize("revision", ["HEAD~1", "HEAD^{tree}", "HEAD:a.txt"])
def test_a_lost_object_has_a_code(git: Git, revision: str) -> None:
    git.commit({"a.txt": "words\n"})
    git.commit({"b.txt": "words\n"})
    oid = git("rev-parse", revision)
    (git.folder / ".git" / "objects" / oid[:2] / oid[2:]).unlink()

    assert failure(git.events) == "object_missing"


def test_a_failing_git_process_has_an_error_code(git: Git) -> None:
    git.commit({"a.txt": "words\n"})
    with (git.folder / ".git" / "config").open("a") as config:
        config.write("[diff]\n\trenameLimit = none\n")

    assert failure(git.events) == "object_missing"


def test_a_shallow_clone_is_read_up_to_its_depth(project: Git, tmp_path: Path) -> None:
    project("clone", "--quiet", "--depth=1", f"file://{project.folder}", str(tmp_path / "shallow"))

    events = [json.loads(line) for line in from_git(tmp_path / "shallow")]

    assert events[-1]["trigger"]["commitish"] == project("rev-parse", "HEAD")


def test_reading_can_stop_at_any_event(project: Git) -> None:
    events = from_git(project.folder)

    assert next(events).startswith(b'{"type":"context-request"')
    events.close()  # type: ignore[attr-defined]  # a generator; a process left behind would warn here


def test_a_recording_holds_the_last_requests_and_is_the_same_each_time(project: Git, tmp_path: Path) -> None:
    one, two = tmp_path / "one.xz", tmp_path / "two.xz"

    assert record(project.folder, one, max_requests=4) == 4
    assert record(project.folder, two, max_requests=4) == 4

    assert list(recorded(one)) == list(from_git(project.folder))[-4:]
    assert one.read_bytes() == two.read_bytes()


def test_a_recording_that_fails_leaves_the_old_one(git: Git, tmp_path: Path) -> None:
    out = tmp_path / "out.xz"
    out.write_bytes(b"old")

    assert failure(lambda: record(git.folder, out, max_requests=4)) == "no_commits"

    assert out.read_bytes() == b"old"
    assert not list(tmp_path.glob("*.part"))


def test_a_missing_or_damaged_recording_has_a_code(project: Git, tmp_path: Path) -> None:
    out = tmp_path / "out.xz"
    assert failure(lambda: list(recorded(out))) == "recording_missing"
    record(project.folder, out, max_requests=4)
    whole = out.read_bytes()
    for damaged in (b"", whole[:-20], b"x" + whole[1:]):
        out.write_bytes(damaged)
        assert failure(lambda: list(recorded(out))) == "recording_damaged"
