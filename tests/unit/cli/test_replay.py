"""`apportion replay` as it is called."""

import contextlib
import json
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.commands import Ended, apportion, command, environment
from support.composing import candidate
from support.recording import altered, asked

NEVER = [candidate(name, 20, shrink="never") for name in "abc"]
LOST = "1 lost (budget_exceeded 1)"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("APPORTION_")]:
        monkeypatch.delenv(variable)


@pytest.fixture(autouse=True)
def decisions() -> list[bytes]:
    """The output of `apportion compose` for three events, with one refused."""
    Path("chars.toml").write_text(policy_text("chars", 8_000))
    Path("folder").mkdir()
    Path("folder/chars.toml").write_text(policy_text("chars", 8_000))
    those: dict[str, Any] = {"candidates": NEVER, "policy": "chars"}
    events = [asked("r1", **those), asked("r2", layers={}), asked("r3", "t", **those)]
    Path("events").write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in events))
    apportion("compose", "events", "--decisions", "decisions", "--policies", "folder")
    return Path("decisions").read_bytes().splitlines()


def policy_text(name: str, budget: int, lane: str = "local") -> str:
    return (
        f'name = "{name}"\nversion = "2"\nstrategy = "lanes"\ncounter = "chars4"\nbudget_tokens = {budget}\n'
        f"[lanes.{lane}]\npriority = 0\nmin_tokens = 0\nmax_tokens = {budget}\n"
    )


def replay(*arguments: str) -> Ended:
    return apportion("replay", "events", "decisions", "--policies", "folder", *arguments)


def ids() -> list[str]:
    return [json.loads(line)["decision_id"] for line in Path("decisions").read_bytes().splitlines()]


def test_an_empty_replay_is_reported() -> None:
    Path("events").write_bytes(b"")
    Path("decisions").write_bytes(b"")
    ended = replay("--budget", "45")
    assert (ended.exit_code, ended.out.splitlines()[0].split()[0]) == (0, b"0")
    assert ended.err.endswith("apportion: nothing was compared: there is no request and no decision\n")


def test_a_pipe_gets_a_line_for_each_change_each_group_and_kind_and_the_sum() -> None:
    ended = replay("--budget", "45", "--price-per-million", "2.5")
    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.out.decode().splitlines() == [
        "Decision\tTokens\tChange",
        *(f"{each}\t61 > 41\t{LOST}" for each in ids()),
        "Group or kind\tGained\tLost\tShrunk\tGrown\tTokens",
        "group local\t0\t2\t0\t0\t+0 -40",
        "kind recent_edit\t0\t2\t0\t0\t+0 -40",
        "2 decisions replayed, 2 changed: 0 gained, 2 lost, 0 shrunk, 0 grown, 0 reordered",
        "tokens: 122 > 82, 40 saved (32.8%)",
        "cost: 0.0003050 > 0.0002050, 0.0001000 saved (32.8%)",
    ]


def test_a_replay_without_tools_shows_the_lost_tools() -> None:
    whole = policy_text("whole", 8_000).replace('"lanes"', '"request"').partition("[")[0]
    Path("folder/whole.toml").write_text(f"{whole}response_tokens = 100\n")
    chat = {"system_prompt": "", "messages": [], "new_message": "Search."}
    tools = [{"name": "search"}, {"name": "pay"}]
    event = asked("r1", conversation=chat, policy="whole", candidates=None, tools=tools)
    Path("events").write_text(json.dumps({key: value for key, value in event.items() if value}) + "\n")
    apportion("compose", "events", "--decisions", "decisions", "--policies", "folder", "--force")
    ended = replay("--without-tools", "--format", "json")
    assert (ended.exit_code, ended.err) == (0, "")
    difference = json.loads(ended.out.splitlines()[0])
    assert [item["id"] for item in difference["lost"]] == ["tools/search", "tools/pay"]


def test_without_changes_only_the_summary_is_printed_and_exits_with_0() -> None:
    ended = replay("--policy", "chars.toml")
    assert ended.exit_code == 0
    assert ended.out.decode().splitlines() == [
        "2 decisions replayed, 0 changed: 0 gained, 0 lost, 0 shrunk, 0 grown, 0 reordered",
        "tokens: 122 > 122, the same",
    ]


def test_json_has_a_line_for_each_decision_and_for_the_summary() -> None:
    ended = replay("--budget", "45", "--format", "json")
    first, second, whole = map(json.loads, ended.out.splitlines())
    assert [each["decision_id"] for each in (first, second)] == ids()
    assert first["lost"] == [
        {"id": "c", "kind": "recent_edit", "group": "local", "tokens": 20, "reason": "budget_exceeded"}
    ]
    assert (whole["replayed"], whole["lost"], whole["tokens_after"]) == (2, 2, 82)
    assert "cost_before" not in whole


def test_each_request_that_the_policy_refuses_is_listed_and_exits_with_1() -> None:
    Path("other.toml").write_text(policy_text("chars", 8_000, "rules"))
    ended = replay("--policy", "other.toml")
    assert ended.exit_code == 1
    rows = ended.out.decode().splitlines()
    assert [row.split("\t")[0] for row in rows[1:3]] == ids()
    assert all("unknown_lane: " in row and "$.candidates[0].lane" in row for row in rows[1:3])
    assert rows[-1] == "2 refused under the change (unknown_lane 2)"
    misfit, *_ = map(json.loads, replay("--policy", "other.toml", "--format", "json").out.splitlines())
    assert misfit["error"]["code"] == "unknown_lane"


def test_unverifiable_decisions_are_counted_apart_and_exit_with_1(decisions: list[bytes]) -> None:
    changed = altered(decisions[0], "status", value="empty")
    Path("decisions").write_bytes(changed + b"\n" + decisions[1] + b"\n")
    ended = replay("--budget", "45")
    assert ended.exit_code == 1
    assert ended.out.decode().splitlines()[-1] == "1 unverifiable (difference 1)"
    assert ended.err == "apportion: apportion verify lists each unverifiable decision\n"
    finding, _, whole = map(json.loads, replay("--budget", "45", "--format", "json").out.splitlines())
    assert (finding["found"], finding["line"], whole["replayed"]) == ("difference", 1, 1)


def test_options_for_topics_are_refused_with_files() -> None:
    neither = apportion("replay", "--budget", "45")
    assert (neither.exit_code, "or --from-topics" in neither.err) == (2, True)
    assert replay("--budget", "45", "--from-topics").exit_code == 2
    assert "--snapshot" in replay("--budget", "45", "--snapshot", "rows").err
    assert "--from-topics" in replay("--budget", "45", "--since", "2026-03-01T00:00:00Z").err


def test_changes_may_be_joined_and_sessions_evolve() -> None:
    arguments = ("--without", "local", "--without", "rules", "--counter", "words1.3", "--evolve")
    ended = replay(*arguments, "--format", "json")
    assert ended.exit_code == 0
    one, *_, whole = map(json.loads, ended.out.splitlines())
    assert {each["reason"] for each in one["lost"]} == {"excluded_by_policy"}
    assert one["after"] == {"status": "empty", "counter": "words1.3", "limit": 8000, "used": 0}
    assert whole["statuses"] == {"composed > empty": 2}


def test_a_replay_counts_by_any_counter_of_a_policy(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0}, "?"))
    words.save(str(tmp_path / "own.json"))
    own = ("--counter", "file:mine", "--counters", f"mine={tmp_path / 'own.json'}")
    for arguments, counter in (
        (("--counter", "claude-4.7"), "claude-4.7"),
        (("--counter", "qwen3"), "qwen3"),
        (own, "file:mine"),
    ):
        ended = replay(*arguments, "--format", "json")
        assert ended.exit_code == 0, ended.err
        assert json.loads(ended.out.splitlines()[0])["after"]["counter"] == counter
    by_model = replay("--counter", "model", "--format", "json")
    assert json.loads(by_model.out.splitlines()[0])["error"]["code"] == "missing_field"
    unknown = replay("--counter", "file:other", "--counters", f"mine={tmp_path / 'own.json'}")
    assert (unknown.exit_code, "file:mine" in unknown.err) == (2, True)


def test_only_the_largest_changes_are_shown_and_the_others_counted() -> None:
    events = [asked(f"r{number}", f"s{number}", candidates=NEVER[: 1 + number % 3]) for number in range(30)]
    Path("events").write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in events))
    apportion("compose", "events", "--decisions", "decisions", "--force", "--policies", "folder")
    ended = replay("--without", "local")
    shown = [row.split("\t") for row in ended.out.decode().splitlines() if " > " in row and "\t" in row]
    assert [row[2].partition(",")[0] for row in shown] == ["composed > empty"] * 20
    assert [int(row[2].split()[3]) for row in shown] == [3] * 10 + [2] * 10
    assert ended.err == "apportion: 10 more are not shown here; --format json shows all\n"


def test_events_or_decisions_may_come_through_a_pipe() -> None:
    given = Path("events").read_bytes()
    arguments = ("--policies", "folder", "--budget", "45")
    assert apportion("replay", "-", "decisions", *arguments, stdin=given).exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--evolve",),
        ("--budget", "-1"),
        ("--counter", "none"),
        ("--policy", "nowhere.toml"),
        ("--budget", "1", "--price-per-million", "much"),
        ("--budget", "1", "--price-per-million", "-1"),
        ("--budget", "1", "--price-per-million", "nan"),
        ("--budget", "1", "--price-per-million", "1e999999999"),
        ("--budget", "1", "--format", "xml"),
    ],
)
def test_an_absent_or_wrong_change_is_wrong_usage(arguments: tuple[str, ...]) -> None:
    ended = replay(*arguments)
    assert (ended.exit_code, ended.out) == (2, b"")


def test_a_file_that_is_no_policy_is_wrong_usage_with_every_problem() -> None:
    Path("wrong.toml").write_text('name = "a"\nstrategy = "lanes"\nextra = 1\n')
    ended = replay("--policy", "wrong.toml")
    assert ended.exit_code == 2
    assert "wrong.toml: version: required" in ended.err
    assert "wrong.toml: extra: " in ended.err


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_shows_tables_that_fit(columns: int) -> None:
    shown = on_terminal(columns, "replay", "events", "decisions", "--policies", "folder", "--budget", "45")
    assert "Decision" in shown
    assert "Group or kind" in shown
    tables, _, _ = shown.partition("2 decisions replayed")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", tables).splitlines()
    assert max(map(len, plain)) <= columns


def on_terminal(columns: int, *arguments: str) -> str:
    """Return the output of a command on a terminal of this width."""
    ours, theirs = pty.openpty()
    done = subprocess.run(  # noqa: S603 - our own interpreter
        command(*arguments),
        env=environment(COLUMNS=str(columns), TERM="xterm"),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while piece := os.read(ours, 1 << 16):
            shown += piece
    os.close(ours)
    assert (done.returncode, done.stderr) == (0, b"")
    return shown.decode()
