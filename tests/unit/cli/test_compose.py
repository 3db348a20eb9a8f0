import base64
import gzip
import hashlib
import json
import os
import pty
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.commands import Ended, apportion, command, environment, process, started
from support.composing import NOW, candidate

SECRET = {"APPORTION_FINGERPRINT_SECRET": "a fixed secret for tests"}
KEPT_BYTES = 256 * 1024
MEBIBYTE = 1 << 20


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("APPORTION_")]:
        monkeypatch.delenv(variable)


def request(name: str, *candidates: dict[str, Any], session: str = "s", **changes: Any) -> dict[str, Any]:
    own = {"type": "context-request", "request_id": name, "session_id": session, "requested_at": NOW}
    return own | {"candidates": candidates} | changes


def artifact(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "context-artifact",
        "session_id": "s",
        "published_at": NOW,
        "source": "tests",
        "artifact": one,
    }


def retraction(name: str) -> dict[str, Any]:
    return {
        "type": "context-retraction",
        "session_id": "s",
        "published_at": NOW,
        "source": "tests",
        "id": name,
    }


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def read(written: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.splitlines()]


def refused_of(events: bytes, tmp_path: Path, *arguments: str) -> tuple[Ended, list[dict[str, Any]]]:
    file = tmp_path / "dead.jsonl"
    ended = apportion("compose", "--dead-letters", file, *arguments, stdin=events)
    return ended, read(file.read_bytes())


def ids(composed: Iterable[dict[str, Any]]) -> list[str]:
    return [each["request_id"] for each in composed]


def test_every_request_is_answered_in_its_order() -> None:
    events = lines(*(request(f"r{number}", candidate("a"), session=f"s{number % 3}") for number in range(9)))
    ended = apportion("compose", stdin=events)
    assert (ended.exit_code, ended.err) == (0, "")
    assert ids(read(ended.out)) == [f"r{number}" for number in range(9)]


def test_a_file_and_stdin_give_the_same(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(lines(request("r", candidate("a"))))
    of_file = apportion("compose", "events.jsonl").out
    assert read(of_file)[0]["items"][0]["id"] == "a"
    assert apportion("compose", stdin=(tmp_path / "events.jsonl").read_bytes()).out == of_file
    assert apportion("compose", "-", stdin=(tmp_path / "events.jsonl").read_bytes()).out == of_file


def test_no_events_are_no_answers_and_named_on_stderr() -> None:
    ended = apportion("compose", stdin=b"")
    assert (ended.exit_code, ended.out) == (0, b"")
    assert ended.err.endswith(": is empty\n")


def test_a_missing_secret_is_named_once_with_its_variable() -> None:
    events = lines(
        *(
            request(f"r{number}", {"kind": "code", "lane": "local", "path": "a", "content": "x"})
            for number in range(9)
        )
    )
    first, last = apportion("compose", stdin=events).err.splitlines()
    assert first.startswith("apportion: line 1: no_secret: ")
    assert "`export APPORTION_FINGERPRINT_SECRET=…`" in first
    assert last == "apportion: dead_letters: events refused: 9 (no_secret 9); --dead-letters FILE keeps them"


def test_a_repeated_mistake_is_listed_three_times() -> None:
    shown = apportion("compose", stdin=b"no json\n" * 9).err.splitlines()
    assert len([line for line in shown if ": not_json: " in line]) == 3


@pytest.mark.parametrize(
    ("path", "reason"), [("nowhere", "No such file or directory"), (".", "Is a directory")]
)
def test_an_unreadable_file_is_a_one_line_usage_error(path: str, reason: str) -> None:
    assert apportion("compose", path) == Ended(2, b"", f"apportion: file_failed: {path}: {reason}\n")


def test_a_compressed_file_is_read_and_a_compressed_pipe_and_damage_are_named(tmp_path: Path) -> None:
    events = lines(request("r", candidate("a")))
    packed = gzip.compress(events)
    (tmp_path / "events.gz").write_bytes(packed)
    assert apportion("compose", "events.gz") == apportion("compose", stdin=events)
    ended = process("compose", stdin=packed)
    assert ended.exit_code == 2
    assert "gunzip -c" in ended.err
    (tmp_path / "events.gz").write_bytes(packed[:-9])
    assert apportion("compose", "events.gz").err.startswith("apportion: file_failed: events.gz: ")


def test_swapped_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(lines(request("r", candidate("a"))))
    assert apportion("compose", "events", "--decisions", "decisions").exit_code == 0
    for arguments, named in (
        (("verify", "decisions", "events"), "decisions: line 1 is a context-decision"),
        (("compose", "decisions"), "decisions: line 1 is a context-decision"),
        (("verify", "events", "events.copy"), "events.copy: line 1 is a context-request"),
        (("explain", "0", "--decisions", "events"), "events: line 1 is a context-request"),
    ):
        (tmp_path / "events.copy").write_bytes((tmp_path / "events").read_bytes())
        ended = apportion(*arguments)
        assert ended.exit_code == 2
        assert ended.err.startswith(f"apportion: wrong_file: {named}, expected ")


def test_the_flag_that_was_given_is_named_with_a_suggestion() -> None:
    ended = apportion("compose", "--policy", "lane", stdin=b"{}")
    assert ended.exit_code == 2
    assert "default_policy (--policy): no policy of that name; did you mean lanes" in ended.err


def test_a_terminal_gets_the_text_itself(tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(lines(request("r", candidate("a"))))
    ours, theirs = pty.openpty()
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        command("compose", "events", "--format", "text"), env=environment(), stdout=theirs
    ):
        os.close(theirs)
        shown = b"".join(iter(lambda: _drained(ours), b"")).decode()
    os.close(ours)
    [answer] = read(process("compose", "events", "--format", "text").out)
    assert shown.replace("\r\n", "\n") == "".join(answer["body"]["parts"]) + "\n"


def test_a_bad_line_is_a_dead_letter_with_its_place_and_the_rest_answered(tmp_path: Path) -> None:
    bad = request("bad", candidate("a"), candidate("b", lane="nowhere"))
    events = lines(request("r1", candidate("a")), bad, request("r2", candidate("a")))
    ended, [letter] = refused_of(events, tmp_path)
    assert ended.exit_code == 3
    assert ids(read(ended.out)) == ["r1", "r2"]
    assert letter["error"]["code"] == "unknown_lane"
    assert letter["error"]["pointer"] == "$.candidates[1].lane"
    assert letter["source"] == {"topic": "-", "partition": 0, "offset": 1, "timestamp_ms": -1}
    assert base64.b64decode(letter["value"]) == json.dumps(bad).encode()
    assert letter["value_complete"]


def test_a_refused_event_changes_nothing() -> None:
    good = lines(request("r1", candidate("a")), request("r2", candidate("b")))
    bad = lines(request("bad", candidate("b", lane="nowhere")))
    first, second = good.splitlines(keepends=True)
    assert apportion("compose", stdin=first + bad + second).out == apportion("compose", stdin=good).out


def test_without_a_file_for_them_stderr_names_dead_letters(tmp_path: Path) -> None:
    events = b"no json\n" + lines(request("r", candidate("a")))
    ended = apportion("compose", stdin=events)
    assert ended.exit_code == 3
    assert ids(read(ended.out)) == ["r"]
    assert ended.err.splitlines() == [
        "apportion: line 1: not_json: the value is not JSON: invalid character (near column 5) (at $)",
        "apportion: dead_letters: events refused: 1 (not_json 1); --dead-letters FILE keeps them",
    ]
    ended, _ = refused_of(events, tmp_path)
    assert len(ended.err.splitlines()) == 1


def test_a_dead_letter_cannot_move_the_cursor() -> None:
    ended = apportion("compose", stdin=lines(request("r") | {"\x1b[2J": 1}))
    assert ended.exit_code == 3
    assert "\\x1b[2J" in ended.err
    assert "\x1b" not in ended.err


def test_an_empty_line_is_an_empty_value_and_the_last_line_feed_ends_the_last_line(tmp_path: Path) -> None:
    one, two = lines(request("r1", candidate("a"))), lines(request("r2", candidate("a")))
    ended, [letter] = refused_of(one + b"\n" + two, tmp_path)
    assert ids(read(ended.out)) == ["r1", "r2"]
    assert (letter["error"]["code"], letter["source"]["offset"], letter["value"]) == ("empty_value", 1, "")
    assert ids(read(apportion("compose", stdin=one + two.rstrip()).out)) == ["r1", "r2"]


@pytest.mark.parametrize("size", [16 * MEBIBYTE + 1, 19 * MEBIBYTE + 7])
def test_a_line_that_is_too_large_leaves_its_beginning_its_size_and_its_digest(
    size: int, tmp_path: Path
) -> None:
    large = bytes(ord("a") + place % 23 for place in range(1 << 10)) * (size // (1 << 10) + 1)
    large = large[:size]
    ended, [letter] = refused_of(large + b"\n" + lines(request("r", candidate("a"))), tmp_path)
    assert ids(read(ended.out)) == ["r"]
    assert letter["error"]["code"] == "too_large"
    assert str(size) in letter["error"]["message"]
    assert base64.b64decode(letter["value"]) == large[:KEPT_BYTES]
    assert letter["value_bytes"] == size
    assert letter["value_digest"] == "sha256:" + hashlib.sha256(large).hexdigest()
    assert not letter["value_complete"]


def test_a_line_above_a_smaller_bound_is_kept_whole(tmp_path: Path) -> None:
    _, [letter] = refused_of(b"x" * 500, tmp_path, "--event-max-bytes", "100")
    assert letter["error"]["code"] == "too_large"
    assert base64.b64decode(letter["value"]) == b"x" * 500


def test_a_repeated_request_is_a_duplicate_of_the_first() -> None:
    again = request("r", candidate("a"))
    first, second = read(apportion("compose", stdin=lines(again, again)).out)
    assert first["status"] == "composed"
    assert second["status"] == "duplicate"
    assert second["duplicate_of"] == first["decision_id"]
    assert second["session"] == first["session"]


def test_a_session_adds_up_its_tokens_across_the_lines() -> None:
    asked = [("r1", "s"), ("r2", "other"), ("r3", "s"), ("r4", "other")]
    events = lines(*(request(name, candidate(name, 50), session=session) for name, session in asked))
    answers = read(apportion("compose", stdin=events).out)
    for one, later in ((0, 2), (1, 3)):
        used = [answers[place]["tokens"]["used"] for place in (one, later)]
        assert used[0] > 0
        assert answers[one]["session"]["spent_tokens"] == used[0]
        assert answers[later]["session"]["spent_tokens"] == sum(used)
        assert answers[later]["session"]["prompts"] == 2


def test_an_artifact_is_in_later_contexts_until_it_is_retracted() -> None:
    pooled = candidate("pooled")
    events = lines(
        request("r1"), artifact(pooled), request("r2"), request("r3"), retraction("pooled"), request("r4")
    )
    answers = read(apportion("compose", stdin=events).out)
    assert ids(answers) == ["r1", "r2", "r3", "r4"]
    assert [[item["id"] for item in each["items"]] for each in answers] == [[], ["pooled"], ["pooled"], []]


def test_there_is_a_decision_for_every_answer_and_it_has_nothing_of_this_run(tmp_path: Path) -> None:
    again = request("r", candidate("a"))
    ended = apportion("compose", "--decisions", "decisions.jsonl", stdin=lines(again, again, request("e")))
    decisions = read((tmp_path / "decisions.jsonl").read_bytes())
    composed = read(ended.out)
    assert [each["decision_id"] for each in decisions] == [each["decision_id"] for each in composed]
    assert [each["status"] for each in decisions] == ["composed", "duplicate", "empty"]
    assert not any("run" in each for each in decisions)


def mixed_events() -> bytes:
    many = [candidate(f"c{number}", 40, kind=kind) for number in range(40) for kind in ("local_diff",)]
    by_path = candidate("x", id=None, path="src/private_name.py", content="the secret content")
    return lines(
        artifact(candidate("pooled", content="pooled content")),
        request("r1", *many, by_path),
        request("r2", *many, budget_tokens=300, trigger={"event": "save", "workspace": "home/private_name"}),
        request("r2", *many, budget_tokens=300, trigger={"event": "save", "workspace": "home/private_name"}),
        request("bad", candidate("b", lane="nowhere")),
        request(
            "r3",
            *reversed(many),
            constraints={"must_exclude": [{"match": {"type": "kind", "value": "learning"}}]},
        ),
    )


def test_the_same_lines_give_the_same_bytes_under_any_hash_seed(tmp_path: Path) -> None:
    def written(seed: str) -> tuple[bytes, ...]:
        files = [tmp_path / f"{name}-{seed}" for name in ("decisions", "dead")]
        options = ("--decisions", files[0], "--dead-letters", files[1])
        ended = process("compose", *options, stdin=mixed_events(), PYTHONHASHSEED=seed, **SECRET)
        assert ended.exit_code == 3
        return (ended.out, *(file.read_bytes() for file in files))

    first, second = written("1"), written("2")
    assert first == second
    assert all(first)


def test_decisions_and_explanations_hold_no_content_and_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*next(iter(SECRET.items())))
    ended = apportion("compose", "--decisions", "decisions.jsonl", "--explain", stdin=mixed_events())
    told = (tmp_path / "decisions.jsonl").read_text() + ended.err
    assert b"the secret content" in ended.out
    assert "c39" in told
    for private in ("secret content", "pooled content", "private_name", "c39..."):
        assert private not in told


@pytest.mark.parametrize("detail", ["selected", "summary"])
def test_decisions_are_written_and_verified_in_the_requested_detail(
    detail: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*next(iter(SECRET.items())))
    monkeypatch.chdir(tmp_path)
    Path("events").write_bytes(mixed_events())
    apportion("compose", "events", "--decisions", "decisions", "--decision-detail", detail)
    told = [json.loads(line) for line in Path("decisions").read_bytes().splitlines()]
    assert {decision["detail"] for decision in told} == {detail}
    assert any(decision.get("candidates") for decision in told) == (detail == "selected")
    ended = apportion("verify", "events", "decisions")
    assert ended.exit_code == 0, ended.out
    explained = apportion("explain", told[0]["decision_id"], "--decisions", "decisions")
    assert told[0]["summary"].encode() in explained.out.replace(b"\n", b" ")


def test_explanations_go_to_stderr_alone_and_plain_into_a_pipe() -> None:
    events = lines(request("r1", candidate("a")), request("r2", candidate("b"), budget_tokens=1))
    plain, explained = apportion("compose", stdin=events), apportion("compose", "--explain", stdin=events)
    assert explained.out == plain.out
    assert plain.err == ""
    assert explained.exit_code == 0
    for name in ("r1", "r2"):
        assert f"request {name} of session default/s" in explained.err
    assert "budget_exceeded" in explained.err
    assert "\x1b" not in explained.err


def test_the_flag_for_a_policy_wins_over_the_setting(tmp_path: Path) -> None:
    write_policy(tmp_path / "own", "small", 100)
    write_policy(tmp_path / "own", "large", 900)
    events = lines(request("r1"), request("r2", policy="large"))

    def used(*arguments: str) -> list[str]:
        answers = read(apportion("compose", "--policies", "own", *arguments, stdin=events).out)
        return [each["policy"]["name"] for each in answers]

    assert used() == ["lanes", "large"]
    assert used("--default-policy", "large") == ["large", "large"]
    assert used("--default-policy", "large", "--policy", "small") == ["small", "large"]


def write_policy(folder: Path, name: str, budget_tokens: int) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.toml"
    file.write_text(
        f'name = "{name}"\nversion = "1"\nstrategy = "lanes"\nbudget_tokens = {budget_tokens}\n'
        "[lanes.local]\npriority = 0\nmin_tokens = 0\nmax_tokens = 50\n"
    )
    return file


@pytest.mark.parametrize(
    "arguments",
    [
        ("missing.jsonl",),
        ("--policy", "nobody"),
        ("--policies", "missing"),
        ("--decisions", "missing/decisions.jsonl"),
        ("--dead-letters", "."),
        ("--decisions", "one.jsonl", "--dead-letters", "one.jsonl"),
        ("--colour",),
    ],
)
def test_wrong_usage_is_exit_code_2_and_answers_nothing(arguments: tuple[str, ...]) -> None:
    ended = apportion("compose", *arguments, stdin=lines(request("r")))
    assert (ended.exit_code, ended.out) == (2, b"")
    assert ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("option", ["--decisions", "--dead-letters"])
def test_a_file_that_holds_something_is_written_over_only_by_force(option: str) -> None:
    Path("kept").write_text("of before\n", "utf-8")
    ended = apportion("compose", option, "kept", stdin=mixed_events())
    assert (ended.exit_code, ended.out) == (2, b"")
    assert "kept exists; --force overwrites it" in ended.err
    assert Path("kept").read_text("utf-8") == "of before\n"
    assert apportion("compose", option, "kept", "--force", stdin=mixed_events()).exit_code == 3
    assert b"of before" not in Path("kept").read_bytes()
    Path("empty").touch()
    assert apportion("compose", option, "empty", stdin=mixed_events()).exit_code == 3


@pytest.mark.parametrize("option", ["--decisions", "--dead-letters"])
def test_a_disk_that_is_full_ends_it_with_the_files_name(option: str) -> None:
    events = lines(request("r1", candidate("a"))) + b"no json\n"
    ended = process("compose", option, "/dev/full", stdin=events)
    assert ended.exit_code == 1
    assert ended.err.splitlines()[-1] == "apportion: file_failed: /dev/full: No space left on device"
    assert "Traceback" not in ended.err


def test_a_full_disk_behind_stdout_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(lines(request("r1"), request("r2")))
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(  # noqa: S603 - our own interpreter
            command("compose", "events.jsonl"),
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr == b"apportion: file_failed: <stdout>: No space left on device\n"


def test_a_file_that_cannot_be_read_to_its_end_ends_it_with_its_name() -> None:
    ended = process("compose", "/proc/self/mem")
    assert (ended.exit_code, ended.out) == (1, b"")
    assert ended.err == "apportion: file_failed: /proc/self/mem: Input/output error\n"


def test_a_closed_reader_of_the_decisions_is_a_failure(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "decisions")
    with started(
        command("compose", "--decisions", "decisions"),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        (tmp_path / "decisions").open("rb").close()
        running.stdin.write(lines(request("r")))
        running.stdin.close()
        assert running.stderr.read() == b"apportion: file_failed: decisions: Broken pipe\n"
        assert running.wait() == 1


def test_a_policy_that_is_refused_is_wrong_usage_and_named_with_its_file(tmp_path: Path) -> None:
    write_policy(tmp_path / "own", "small", -1)
    ended = apportion("compose", "--policies", "own", stdin=lines(request("r")))
    assert (ended.exit_code, ended.out) == (2, b"")
    assert ended.err.startswith("apportion: invalid_policy: own/small.toml: budget_tokens: ")


def test_the_events_are_never_written_over(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_bytes(lines(request("r")))
    assert apportion("compose", events, "--decisions", "events.jsonl").exit_code == 2
    assert events.read_bytes() == lines(request("r"))


def test_a_closed_reader_ends_the_command_silently(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(lines(*(request(f"r{number}") for number in range(2_000))))
    with started(
        command("compose", "events.jsonl"),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert json.loads(running.stdout.readline())["request_id"] == "r0"
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait() == 1


def test_an_answer_is_there_before_the_next_line_is() -> None:
    with started(
        command("compose"), env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for name in ("r1", "r2"):
            running.stdin.write(lines(request(name)))
            running.stdin.flush()
            assert json.loads(running.stdout.readline())["request_id"] == name


def test_a_terminal_shows_progress_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(lines(request("r")))
    ours, theirs = pty.openpty()
    with started(
        command("compose", "events.jsonl"),
        env=environment(TERM="xterm"),
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as running:
        os.close(theirs)
        shown = b"".join(iter(lambda: _drained(ours), b"")).decode()
        assert running.wait() == 0
    os.close(ours)
    assert "composing" in shown
    assert process("compose", "events.jsonl").err == ""


def _drained(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux's way to say that the other side is closed
        return b""
