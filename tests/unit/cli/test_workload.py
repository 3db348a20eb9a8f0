import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from support.commands import apportion, command, environment

from apportion.demo.demo.view import next_steps
from apportion.demo.workload import files
from apportion.demo.workload.documents import decode
from apportion.demo.workload.folder import LeftOut

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
    with (folder / "huge.txt").open("wb") as huge:
        huge.truncate((8 << 20) + 1)
    limits = ("--max-file-bytes", "2000", "--max-bytes", "4096")
    (folder / "job.txt").write_text("the job " * 200)
    made = apportion("workload", "from-files", folder, "--query", "job", *limits)
    assert [candidate["path"] for candidate in json.loads(made.out)["candidates"]] == [
        *(".gitignore", "deep/.gitignore", "deep/kept.log", "job.txt"),
    ]
    assert made.err == (
        "apportion: the 4 of 5 files that fit the query best (--max-bytes); left out: "
        "ignored by .gitignore 2, symbolic links 1, not text in UTF-8 or UTF-16 2, empty 1, above 8 MiB 1, "
        "large or minified, without words of the query 1\n"
    )
    assert len(made.out) <= 4_096


def candidates_of(folder: Path, query: str, *flags: str) -> list[dict[str, str]]:
    """Return the candidates of a folder's request, with the ids that number them."""
    made = apportion("workload", "from-files", folder, "--query", query, *flags)
    assert made.exit_code == 0, made.err
    candidates: list[dict[str, str]] = json.loads(made.out)["candidates"]
    assert [candidate["id"] for candidate in candidates] == [f"{n:05}" for n in range(1, len(candidates) + 1)]
    return candidates


def test_a_question_without_latin_letters_chooses_the_file_that_answers(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("この行は天気の話です。\n" * 60)
    (tmp_path / "z.md").write_text("返品の期限は十日です。\n" + "支払いの後に返品を申し込みます。\n" * 40)
    found = candidates_of(tmp_path, "返品の期限はいつですか", "--max-bytes", "4300")
    assert "十日" in next(candidate["content"] for candidate in found if candidate["path"] == "z.md")


def test_no_file_takes_the_room_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>Show how orders are refunded: see orders, refunded.</p>\n" * 40)
    (tmp_path / "orders.swift").write_text(
        "// Orders are refunded within ten days.\n" + "let padding = 1\n" * 100
    )
    for number in range(5):
        (tmp_path / f"list{number}.txt").write_text(f"orders are refunded {number}\n")
    found = candidates_of(tmp_path, "How are orders refunded?", "--max-bytes", "4096")
    assert "within ten days" in "".join(candidate["content"] for candidate in found)
    assert {candidate["path"] for candidate in found} >= {"index.html", "orders.swift", "list4.txt"}


def test_a_large_file_gives_its_best_passages_with_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "project"
    folder.mkdir()
    lines = [f"static int filler_{number}(int a) {{ return a + {number}; }}" for number in range(9_000)]
    lines[5_000] = "/* call mirror_image(1) to turn a picture around */"
    (folder / "picture.h").write_text("\n".join(lines) + "\n")
    (folder / "write.h").write_text("int write_picture(void);\n")
    *windows, small = candidates_of(folder, "How do I turn a picture around?")
    [window] = [window for window in windows if "mirror_image" in window["content"]]
    first, last = map(int, window["source_label"].removeprefix("[lines ").removesuffix("]").split(" to "))
    assert window["content"].splitlines() == lines[first - 1 : last]
    assert (small["path"], "source_label" in small) == ("write.h", False)
    made = apportion("workload", "from-files", folder, "--query", "How do I turn a picture around?")
    assert made.err == "apportion: files 2, 1 of them in part; left out: none\n"
    composed = apportion("compose", "--policy", "search", "--format", "text", stdin=made.out)
    assert b"mirror_image" in composed.out


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_a_byte_order_mark_names_the_encoding(encoding: str, tmp_path: Path) -> None:
    text = ("\ufeff" if encoding == "utf-16-be" else "") + "# Copies the ledger at night: ë\r\n"
    (tmp_path / "backup.ps1").write_bytes(text.encode(encoding))
    [found] = candidates_of(tmp_path, "When is the ledger copied?")
    assert found["content"] == "# Copies the ledger at night: ë\r\n"


def test_a_notebook_gives_its_cells_and_a_page_its_text(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Masks\n", "Scores are masked."]},
        {
            "cell_type": "code",
            "source": ["def mask(scores):\n", "    return scores"],
            "outputs": [
                {"output_type": "stream", "text": ["done\n"]},
                {"output_type": "display_data", "data": {"image/png": "iVBOR", "text/plain": ["<Figure>"]}},
                {"output_type": "stream", "text": ["long " * 1_000]},
            ],
        },
    ]
    (tmp_path / "masks.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    (tmp_path / "page.html").write_text(
        "<html><head><title>Masks</title><script>var scores = 1 < 2</script></head>"
        "<body><h1>How &amp; why</h1><p>Scores are <b>masked</b>.<pre>a\n  b</pre>end</body></html>"
    )
    (tmp_path / "broken.ipynb").write_text('{"cells": 3}')
    (tmp_path / "odd.html").write_text("<![x[ ]]>")
    broken, notebook, odd, page = candidates_of(tmp_path, "How are scores masked?")
    assert (broken["content"], odd["content"]) == ('{"cells": 3}', "<![x[ ]]>")
    assert notebook["content"] == (
        "# Masks\nScores are masked.\n\ndef mask(scores):\n    return scores\n\ndone\n\n\n<Figure>\n"
    )
    assert page["content"] == "Masks\n\n\nHow & why\n\n\nScores are masked.\n\na\n  b\n\nend\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("package-lock.json", "{}"),
        ("app.min.js", "pay()"),
        ("app.js.map", "{}"),
        ("web/node_modules/pay/index.js", "pay()"),
        ("pay.pb.go", "// Code generated by protoc. DO NOT EDIT.\n"),
        ("data.js", "a" * 1_000),
        ("api/client.ts", "pay()"),
    ],
)
def test_files_that_are_not_written_by_hand_come_last_and_are_named(
    path: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / ".gitattributes").write_text("api/*.ts linguist-generated\napi/own.ts -linguist-generated\n")
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\npay an order\n")
    (tmp_path / "api").mkdir(exist_ok=True)
    (tmp_path / "api" / "own.ts").write_text("pay order\n")
    flags = ("--query", "pay an order", "--max-bytes")
    every = json.loads(apportion("workload", "from-files", tmp_path, *flags, "9000").out)["candidates"]
    lanes = {candidate["path"]: candidate["lane"] for candidate in every}
    assert (lanes[path], lanes["api/own.ts"]) == ("data", "code")
    for number in range(50):  # their last bytes are fewer than any file of the list takes
        (tmp_path / "api" / f"{number:02}.tsx").write_text("pay order\n")
    made = apportion("workload", "from-files", tmp_path, *flags, "4096")
    assert path not in {candidate["path"] for candidate in json.loads(made.out)["candidates"]}
    assert f"left out with most words of the query: {path} (" in made.err


def test_a_long_line_gives_small_windows(tmp_path: Path) -> None:
    functions = [f"function rejoin{number}(a){{return leave{number}(a)}}" for number in range(400)]
    (tmp_path / "app.js").write_text("/* one */\n\n" + "".join(functions) + "\n\nlast()\n")
    found = candidates_of(tmp_path, "rejoin333")
    assert [len(candidate["content"]) <= 600 for candidate in found] == [True] * len(found)
    labels = [candidate["source_label"] for candidate in found]
    assert set(labels[:-1]) == {"[part of lines 3 to 3]"}
    assert labels[-1] == "[part of lines 3 to 4]", "with the blank line at its end"
    assert any("rejoin333" in candidate["content"] for candidate in found)


def test_a_history_offers_no_minified_files(repository: Path) -> None:
    (repository / "app.min.js").write_text("".join(f"function join{n}(a){{return a}}" for n in range(200)))
    (repository / "app.js").write_text("export function join7(a) {\n  return a\n}\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=Add join")
    (repository / "app.min.js").write_text("function join7(a){return join8(a)}")
    (repository / "app.js").write_text("export function join7(a) {\n  return join8(a)\n}\n")
    git(repository, "commit", "--quiet", "--all", "--message=Call join8")
    events = apportion("workload", "from-git", repository, "--max-requests", "4").out.splitlines()
    paths = {candidate.get("path") for event in events for candidate in json.loads(event)["candidates"]}
    assert "app.js" in paths
    assert "app.min.js" not in paths


def test_compose_accepts_large_events_unless_the_bound_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "project"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.txt").write_text(f"job {number}\n\n" + f"filler {number}\n" * 16_000)
    limits = ("--max-file-bytes", "300000", "--max-bytes", "3000000")
    made = apportion("workload", "from-files", folder, "--query", "job", *limits)
    assert len(made.out) > 1 << 20
    composed = apportion("compose", "--policy", "search", stdin=made.out)
    assert (composed.exit_code, json.loads(composed.out)["status"]) == (0, "composed")
    refused = apportion("compose", "--policy", "search", "--event-max-bytes", "1048576", stdin=made.out)
    assert (refused.exit_code, "too_large" in refused.err) == (3, True)


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


def test_a_request_has_as_many_candidates_as_an_event_may_have(tmp_path: Path) -> None:
    for number in range(10_001):
        (tmp_path / f"{number}.txt").write_text("job\n")
    made = apportion("workload", "from-files", tmp_path, "--query", "job", "--max-bytes", "4000000")
    assert len(json.loads(made.out)["candidates"]) == 10_000
    assert made.err.startswith("apportion: the 10,000 of 10,001 files that fit the query best")


def summary_of(folder: Path) -> str:
    made = apportion("workload", "from-files", folder, "--query", "Where is a job cancelled?")
    assert made.exit_code == 0, made.err
    return made.err.strip().removeprefix("apportion: ")


def test_files_with_paths_that_an_event_cannot_have_are_left_out(tmp_path: Path) -> None:
    for name in (b"x\xff.py", b"back\\slash.py", b"C:x.py", b"fine.py"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("cancel job\n")
    assert summary_of(tmp_path) == "files 1; left out: with paths that an event cannot have 3"
    made = apportion("workload", "from-files", tmp_path, "--query", "job")
    composed = apportion("compose", "--policy", "search", stdin=made.out)
    assert (composed.exit_code, json.loads(composed.out)["status"]) == (0, "composed")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("job \udcff", "the query is not text in UTF-8"),
        ("x" * 16_385, "the query has 16,385 characters; at most 16,384 are allowed"),
        ("x" * 4_000, "the query leaves no room for files: set --max-bytes above 5,026"),
    ],
)
def test_a_query_that_no_request_can_have_is_refused(query: str, problem: str, tmp_path: Path) -> None:
    made = apportion("workload", "from-files", tmp_path, "--query", query, "--max-bytes", "4096")
    assert (made.exit_code, made.out) == (2, b"")
    assert f"--query: {problem}" in " ".join(made.err.replace("│", " ").split())


def test_a_folder_may_be_deeper_than_calls_may_nest(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("a", dir_fd=descriptor)
        below = os.open("a", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(os.open("z.py", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    try:
        assert summary_of(tmp_path) == "files 0; left out: empty 1"
    finally:
        subprocess.run(["rm", "-r", tmp_path / "a"], check=True)  # noqa: S603, S607 - pytest cannot remove it


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
@pytest.mark.parametrize("pattern", ["!", "\\", "a\\", "[z-a]", "*a" * 15 + "*b", "*" * 15 + "b"])
def test_patterns_that_are_invalid_or_take_minutes_are_not_used(
    pattern: str, name: str, tmp_path: Path
) -> None:
    sign = " linguist-generated" if name == ".gitattributes" else ""
    (tmp_path / name).write_text(f"{pattern}{sign}\n**/gone/**/*.x.*{sign}\n")
    (tmp_path / "gone").mkdir()
    for path in ("a" * 200 + ".py", "gone/a.x.py"):
        (tmp_path / path).write_text("cancel job\n")
    lanes = {candidate["path"]: candidate["lane"] for candidate in candidates_of(tmp_path, "job")}
    assert lanes["a" * 200 + ".py"] == "code"
    assert lanes.get("gone/a.x.py") == ("data" if sign else None)


def test_only_regular_files_give_rules(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    (tmp_path / "a.py").write_text("cancel job\n")
    assert summary_of(tmp_path) == "files 1; left out: none"


@pytest.mark.parametrize(
    ("line", "lane"),
    [
        ("*.py !linguist-generated", "code"),
        ("*.py xlinguist-generated", "code"),
        ("*.py linguist-generated -linguist-generated", "code"),
        ("# *.py linguist-generated", "code"),
        ('"a b.py" text linguist-generated=true', "data"),
        ("*.py linguist-generated", "data"),
    ],
)
def test_an_attribute_names_generated_files(line: str, lane: str, tmp_path: Path) -> None:
    (tmp_path / ".gitattributes").write_text(f"{line}\n")
    (tmp_path / "a b.py").write_text("cancel job\n")
    assert {candidate["path"]: candidate["lane"] for candidate in candidates_of(tmp_path, "job")}[
        "a b.py"
    ] == lane


def test_a_notebook_that_nests_too_deeply_is_plain_text(tmp_path: Path) -> None:
    (tmp_path / "deep.ipynb").write_text("[" * 10_000)
    (tmp_path / "digits.html").write_text(f"&#{'1' * 5_000};")
    deep, digits = candidates_of(tmp_path, "job")
    assert (deep["content"], digits["content"]) == ("[" * 10_000, f"&#{'1' * 5_000};")


@pytest.mark.parametrize(
    "part", ["<", "<a ", "<a b='", "<!--", "<![CDATA[", "<script ", "<script></script", "<?"]
)
def test_a_page_takes_linear_time(part: str) -> None:
    started = process_time()
    decode((part * 500_000).encode(), "page.html")
    assert process_time() - started < 10, "a quadratic reader takes an hour"


def test_a_page_gives_its_text_without_tags_and_hidden_parts() -> None:
    page = (
        "<!-- a > b --><a title='1 > 0' href=x>one</a> &lt;two&gt; 1 < 2<br/>"
        "<script src=x />three<SCRIPT>var a = '<p>'</script ><style>p{}</style>four<!-- five"
    )
    assert decode(page.encode(), "page.html") == "one <two> 1 < 2\n\nthree\n\nfour\n"


@pytest.mark.parametrize("content", ["", "\0cancel", "x cancel job\n" * 9, None])
def test_a_file_that_changes_before_its_second_reading_is_unreadable(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.py"
    file.write_text("cancel job\n")
    (tmp_path / "b.py").write_text("cancel job\n")

    def change(*arguments: Any) -> list[Any]:
        found = ranked(*arguments)
        file.unlink() if content is None else file.write_text(content)
        return found

    ranked = files._ranked
    monkeypatch.setattr(files, "_ranked", change)
    made = files.from_files(tmp_path, "job", file_bytes_max=1_000, bytes_max=10_000)
    assert [candidate["path"] for candidate in json.loads(made.event)["candidates"]] == ["b.py"]
    assert made.left_out == {LeftOut.UNREADABLE: 1}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.md", "\n".join(f"word{number} " * 700 + "job" for number in range(9))),
        ("a.js", "\x0cjob() \n\n\x0c\n" + "job();\x0c" * 900 + "\n\n\n\x0c\n\nlast();\n"),
        ("a.py", "\n".join([f"job{number} = {number}" for number in range(3_000)])),
    ],
)
def test_windows_are_the_lines_that_they_name_or_a_part_of_them(
    name: str, content: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    lines = content.split("\n")
    windows = candidates_of(tmp_path, "job", "--max-file-bytes", "9000")
    assert windows
    for window in windows:
        label = window["source_label"]
        first, last = map(int, label.removesuffix("]").partition("lines ")[2].split(" to "))
        named, text = "\n".join(lines[first - 1 : last]), window["content"].removesuffix("\n")
        assert text in named
        assert (text != named) == label.startswith("[part of lines ")
