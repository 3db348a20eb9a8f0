"""The tools of `apportion mcp`, called by the SDK's own client."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.types import CallToolResult, TextContent
from support.commands import apportion, command, environment, started
from support.composing import SECRET, candidate
from support.recording import asked, published

from apportion.decisions.mcp.server import DecisionServer, create_server
from apportion.decisions.mcp.sources import DecisionFile, DecisionFilter, DecisionTables
from apportion.decisions.replay.origin import AmbiguousDecisionError
from apportion.settings import Settings

POLICY = """
name = "lanes"
version = "9"
strategy = "lanes"
counter = "chars4"
budget_tokens = 200

[lanes.local]
priority = 0
min_tokens = 0
max_tokens = 100
"""
CONTENT = "the quick brown fox"
CANDIDATES = [
    candidate("a", 60, relevance=0.9),
    candidate("b", 30, relevance=0.6),
    candidate("c", 50, relevance=0.3),
    candidate("", id=None, path="src/secret.py", content=CONTENT),
]
EVENTS = [
    asked("r1", at="2026-03-01T12:00:00Z"),
    asked("r2", at="2026-03-01T12:00:01Z", candidates=CANDIDATES),
    published(candidate("p", 10, content=CONTENT), at="2026-03-01T12:00:02Z"),
    asked("r3", session="other", tenant="acme", at="2026-03-01T12:00:03Z", budget_tokens=0),
    asked("r1", at="2026-03-01T12:00:00Z"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with events, their decisions, and the tables of these."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "policies").mkdir()
    (folder / "policies/lanes.toml").write_text(POLICY, "utf-8")
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in EVENTS), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("APPORTION_POLICIES", "policies")
        patch.setenv("APPORTION_FINGERPRINT_SECRET", SECRET.decode())
        assert apportion("compose", "events.jsonl", "--decisions", "decisions.jsonl").exit_code == 0
        lines = Path("decisions.jsonl").read_bytes()
        first = lines.partition(b"\n")[0]
        Path("decisions.jsonl").write_bytes(lines + first + b"\n{}\nno decision\n")  # recorded twice
        assert apportion("sink", "--from", "decisions.jsonl", "--tables", "tables").exit_code == 3
        yield folder


@pytest.fixture(params=["decisions.jsonl", "tables"])
def server(folder: Path, request: pytest.FixtureRequest) -> DecisionServer:
    return create_server(Settings(), folder / request.param, None)


@pytest.fixture
def replaying(folder: Path) -> DecisionServer:
    """A server that has the events, too."""
    settings = Settings(policies=folder / "policies", fingerprint_secret=SECRET.decode())
    return create_server(settings, folder / "decisions.jsonl", folder / "events.jsonl")


def called(server: DecisionServer, tool: str, **arguments: Any) -> CallToolResult:
    async def call() -> CallToolResult:
        async with Client(server) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(call())


def result(server: DecisionServer, tool: str, **arguments: Any) -> Any:
    answer = called(server, tool, **arguments)
    assert not answer.is_error, text(answer)
    return answer.structured_content


def text(answer: CallToolResult) -> str:
    [content] = answer.content
    assert isinstance(content, TextContent)
    return content.text


def refused(server: DecisionServer, tool: str, **arguments: Any) -> str:
    answer = called(server, tool, **arguments)
    assert answer.is_error
    assert answer.structured_content is None
    return text(answer).removeprefix(f"Error executing tool {tool}: ")


def requests(found: Any) -> Sequence[str]:
    return [decision["request_id"] for decision in found["decisions"]]


def identity(server: DecisionServer, request_id: str) -> str:
    [*_, first] = result(server, "find_decisions", request_id=request_id)["decisions"]
    return str(first["decision_id"])


def test_the_tools_are_read_only_and_typed_and_replay_needs_the_events(
    server: DecisionServer, replaying: DecisionServer
) -> None:
    names = ["find_decisions", "summarize_decisions", "explain_decision"]
    assert [tool.name for tool in asyncio.run(server.list_tools())] == names
    tools = asyncio.run(replaying.list_tools())
    assert [tool.name for tool in tools] == [*names, "replay_decisions"]
    for tool in tools:
        assert tool.annotations is not None
        assert (tool.annotations.read_only_hint, tool.annotations.open_world_hint) == (True, False)
        assert tool.output_schema is not None
        assert tool.description
        assert all(field["description"] for field in tool.input_schema["properties"].values())


def test_decisions_are_found_newest_first_and_each_once(server: DecisionServer) -> None:
    answer = called(server, "find_decisions")
    assert answer.structured_content is not None
    assert requests(answer.structured_content) == ["r3", "r2", "r1", "r1"]
    assert answer.structured_content["has_more"] is False
    newest = answer.structured_content["decisions"][0]
    assert newest["tenant"] == "acme"
    assert newest["reasons"] == {"disabled": 2}
    ids = f"{newest['decision_id']}, session acme/other, request r3"
    assert text(answer).splitlines()[0] == f"2026-03-01T12:00:03+00:00 {ids}: {newest['summary']}"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"session_id": "s"}, ["r2", "r1", "r1"]),
        ({"session_id": "s", "tenant": "acme"}, []),
        ({"tenant": "acme"}, ["r3"]),
        ({"request_id": "r2"}, ["r2"]),
        ({"status": "disabled"}, ["r3"]),
        ({"status": "duplicate"}, ["r1"]),
        ({"reason": "lane_max_reached"}, ["r2"]),
        ({"reason": "expired"}, []),
        ({"since": "2026-03-01T12:00:01Z"}, ["r3", "r2"]),
        ({"until": "2026-03-01T13:00:01+01:00"}, ["r1", "r1"]),
    ],
)
def test_each_filter_finds_its_decisions(folder: Path, wanted: dict[str, str], expected: list[str]) -> None:
    answer = called(create_server(Settings(), folder / "decisions.jsonl", None), "find_decisions", **wanted)
    assert requests(answer.structured_content) == expected
    assert expected or text(answer) == "no decision matches"


def test_tables_and_file_give_the_same_decisions(folder: Path) -> None:
    file, tables = DecisionFile(folder / "decisions.jsonl"), DecisionTables(folder / "tables")
    for wanted in (
        DecisionFilter(session_id="s", status="composed", reason="lane_max_reached"),
        DecisionFilter(tenant="acme", request_id="r3", since=datetime(2026, 3, 1, 12, 0, 3, tzinfo=UTC)),
        DecisionFilter(until=datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC)),
    ):
        found = file.newest(wanted, 3)
        assert found
        assert tables.newest(wanted, 3) == found


def test_a_list_is_bounded_and_marks_its_truncation(server: DecisionServer) -> None:
    answer = called(server, "find_decisions", limit=1)
    assert answer.structured_content is not None
    assert (requests(answer.structured_content), answer.structured_content["has_more"]) == (["r3"], True)
    assert "there are more" in text(answer)
    last = answer.structured_content["decisions"][-1]["requested_at"]
    assert requests(result(server, "find_decisions", limit=1, until=last)) == ["r2"]


def test_a_decision_is_explained_as_the_command_does(server: DecisionServer, folder: Path) -> None:
    decision_id = identity(server, "r2")
    answer = called(server, "explain_decision", decision_id=decision_id[:8])
    command = apportion("explain", decision_id, "--decisions", folder / "decisions.jsonl").out.decode()
    assert text(answer).split() == re.sub("[█░│]+", " ", command).split()
    assert "  " not in text(answer)
    explained = answer.structured_content
    assert explained is not None
    assert explained["decision"]["decision_id"] == decision_id
    assert [(group["name"], group["used_tokens"]) for group in explained["groups"]] == [("local", 95)]
    by_id = {entry["id"]: entry for entry in explained["candidates"]}
    assert (by_id["a"]["outcome"], by_id["a"]["fidelity"], by_id["a"]["reason"]) == ("selected", "full", None)
    assert by_id["c"]["meaning"] == "it did not fit under its lane's ceiling"
    assert (by_id["c"]["needed_tokens"], by_id["c"]["left_tokens"]) == (50, 5)
    assert explained["candidates_left_out"] == 0


def test_without_the_events_a_candidate_is_explained_from_the_record(server: DecisionServer) -> None:
    answer = called(server, "explain_decision", decision_id=identity(server, "r2"), candidate_id="c")
    assert "Left out, lane_max_reached: it did not fit under its lane's ceiling." in text(answer)
    assert answer.structured_content is not None
    assert [entry["id"] for entry in answer.structured_content["candidates"]] == ["c"]
    assert answer.structured_content["changes"] is None


def test_with_the_events_the_changes_that_admit_a_candidate_are_searched(replaying: DecisionServer) -> None:
    decision_id = identity(replaying, "r2")
    answer = called(replaying, "explain_decision", decision_id=decision_id, candidate_id="c")
    assert answer.structured_content is not None
    changes = {change["key"]: change for change in answer.structured_content["changes"]}
    ceiling = changes["lanes.local.max_tokens"]
    assert (ceiling["now"], ceiling["needed"], ceiling["ended"]) == (100, 145, "admitted")
    assert changes["budget_tokens"]["needed"] is None
    assert changes["constraints.pinned"]["displaced"] == ["a"]
    assert "The smallest change found of each kind" in text(answer)
    selected = result(replaying, "explain_decision", decision_id=decision_id, candidate_id="a")
    assert (selected["changes"], selected["not_searched"]) == (None, None)


def test_events_that_do_not_give_the_decision_are_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(json.dumps(asked("another")) + "\n", "utf-8")
    settings = Settings(policies=folder / "policies", fingerprint_secret=SECRET.decode())
    server = create_server(settings, folder / "decisions.jsonl", tmp_path / "events.jsonl")
    found = result(server, "explain_decision", decision_id=identity(server, "r2"), candidate_id="c")
    assert found["changes"] is None
    assert found["not_searched"].startswith("no_event: ")


def test_a_replay_returns_sums_and_the_largest_changes(replaying: DecisionServer) -> None:
    policy = POLICY.replace("max_tokens = 100", "max_tokens = 150")
    answer = called(replaying, "replay_decisions", policy_toml=policy)
    replayed = answer.structured_content
    assert replayed is not None
    assert (replayed["replayed"], replayed["changed"]) == (4, 1)
    assert replayed["unverifiable"] == {"not_json": 1, "no_record": 1}
    [largest] = replayed["largest"]
    assert (largest["decision_id"], largest["gained"]) == (identity(replaying, "r2"), ["c"])
    assert "4 decisions replayed, 1 changed: 1 gained" in text(answer)
    fewer = result(replaying, "replay_decisions", budget_tokens=40, without=["none"], counter="bytes4")
    assert fewer["used_tokens_after"] < fewer["used_tokens_before"]
    assert result(replaying, "replay_decisions", counter="qwen3")["replayed"] == 4
    assert result(replaying, "replay_decisions", without_tools=True)["changed"] == 0  # none has tools
    refused_requests = result(replaying, "replay_decisions", policy_toml=POLICY.replace(".local]", ".rules]"))
    assert refused_requests["refused"] == {"unknown_lane": 3}
    assert refused_requests["first_refused"][0]["place"] == "$.candidates[0].lane"


def test_wrong_arguments_are_refused_with_what_to_do(
    server: DecisionServer, replaying: DecisionServer
) -> None:
    assert "less than or equal to 100" in refused(server, "find_decisions", limit=101)
    assert "expected one of duplicate, " in refused(server, "find_decisions", reason="too_big")
    assert "expected an RFC 3339 timestamp" in refused(server, "find_decisions", since="2026")
    assert "timezone" in refused(server, "find_decisions", since="2026-01-01T00:00:00")
    wrong = refused(server, "find_decisions", session="s")
    assert wrong.startswith("unknown_argument: session; find_decisions takes session_id, ")
    assert "String should match pattern" in refused(server, "explain_decision", decision_id="../x")
    assert refused(server, "explain_decision", decision_id="00").startswith("unknown_decision: ")
    unlisted = refused(server, "explain_decision", decision_id=identity(server, "r2"), candidate_id="none")
    assert unlisted == "unknown_candidate: the decision lists no candidate with this id"
    assert refused(replaying, "replay_decisions").startswith("no_change: give policy_toml, ")
    unknown = refused(replaying, "replay_decisions", counter="file:mine")
    assert unknown.startswith("unknown_counter: expected one of chars4, ")
    invalid = refused(replaying, "replay_decisions", policy_toml='name = "x"\nstrategy = "lanes"')
    assert invalid.startswith("invalid_policy: policy_toml: version: required")
    assert refused(replaying, "replay_decisions", policy_toml="=").startswith("invalid_policy: policy_toml: ")
    assert "greater than or equal to 0" in refused(replaying, "replay_decisions", budget_tokens=-1)


def test_the_beginning_of_several_ids_is_ambiguous(folder: Path) -> None:
    for source in (DecisionFile(folder / "decisions.jsonl"), DecisionTables(folder / "tables")):
        with pytest.raises(
            AmbiguousDecisionError, match=r"^several ids begin so, as \w{32} and \w{32}; give more"
        ):
            source.decision("")


def test_no_answer_has_content_or_a_path(replaying: DecisionServer, server: DecisionServer) -> None:
    decision_id = identity(replaying, "r2")
    answers = [
        called(replaying, "find_decisions"),
        called(replaying, "explain_decision", decision_id=decision_id, candidate_id="c"),
        called(replaying, "replay_decisions", budget_tokens=30),
        called(server, "explain_decision", decision_id=decision_id),
    ]
    for answer in answers:
        assert not answer.is_error
        shown = text(answer) + json.dumps(answer.structured_content)
        assert CONTENT not in shown
        assert "secret.py" not in shown


def test_a_source_that_is_gone_is_an_error_without_its_path(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone = create_server(Settings(), tmp_path / "gone.jsonl", None)
    told = refused(gone, "find_decisions")
    assert told == "sources_failed: the server cannot read its files; its log says why"
    assert "gone.jsonl" in caplog.text
    (tmp_path / "decisions").mkdir()
    (tmp_path / "decisions/broken.parquet").write_bytes(b"PAR1")
    broken = create_server(Settings(), tmp_path, None)
    assert refused(broken, "explain_decision", decision_id="0").startswith("sources_failed: ")
    assert folder.exists()


def test_a_decision_of_another_version_is_found_and_not_explained(folder: Path, tmp_path: Path) -> None:
    [*_, line] = (folder / "decisions.jsonl").read_bytes().splitlines()[:2]
    (tmp_path / "decisions").write_bytes(line.replace(b'"status":"composed"', b'"status":"quite_new"'))
    assert apportion("sink", "--from", tmp_path / "decisions", "--tables", tmp_path / "tables").exit_code == 0
    for source in ("decisions", "tables"):
        server = create_server(Settings(), tmp_path / source, None)
        [found] = result(server, "find_decisions")["decisions"]
        assert found["status"] == "quite_new"
        told = refused(server, "explain_decision", decision_id=found["decision_id"])
        assert told.startswith("unreadable_decision: ")


def test_a_long_explanation_is_cut_and_lists_are_bounded(tmp_path: Path) -> None:
    many = [candidate(f"c{number}-{'x' * 200}", 1) for number in range(400)]
    (tmp_path / "events").write_text(json.dumps(asked("r", candidates=many, budget_tokens=8_000)), "utf-8")
    done = apportion("compose", tmp_path / "events", "--decisions", tmp_path / "decisions")
    assert done.exit_code == 0
    server = create_server(Settings(), tmp_path / "decisions", None)
    answer = called(server, "explain_decision", decision_id=identity(server, "r"))
    assert answer.structured_content is not None
    assert len(answer.structured_content["candidates"]) == 50
    assert answer.structured_content["candidates_left_out"] == 350
    assert len(text(answer)) == 20_000
    assert text(answer).endswith("… cut, see the structured content")


def test_ctrl_c_ends_the_command_while_its_client_is_connected(folder: Path) -> None:
    with started(
        command("mcp", folder / "decisions.jsonl"),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        server.stdin.flush()
        assert server.stdout.readline()
        server.send_signal(signal.SIGINT)
        assert server.wait() == -signal.SIGINT


def test_without_its_extra_the_command_names_the_package_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "apportion.decisions.mcp.server")
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    ended = apportion("mcp", folder / "decisions.jsonl")
    assert (ended.exit_code, ended.out) == (2, b"")
    assert ended.err.startswith("apportion: not_installed: mcp.server is not installed: ")
    assert "pip install 'apportion[mcp]'" in ended.err


def test_wrong_sources_end_the_command_with_what_to_do(folder: Path, tmp_path: Path) -> None:
    decisions, events = folder / "decisions.jsonl", folder / "events.jsonl"
    for arguments, told in (
        ((tmp_path / "none",), "No such file"),
        ((tmp_path,), "holds no tables of apportion sink"),
        ((folder / "tables", "--events", events), "needs a file of decisions"),
        ((decisions, "--events", decisions), "given twice"),
        ((decisions, "--events", tmp_path / "none"), "No such file"),
        ((decisions, "--events", events, "--default-policy", "none"), "no policy of that name"),
    ):
        ended = apportion("mcp", *arguments)
        assert (ended.exit_code, ended.out) == (2, b"")
        assert told in " ".join(ended.err.replace("│", " ").split()), ended.err


def test_decisions_are_summed(server: DecisionServer) -> None:
    answer = called(server, "summarize_decisions", by="reason")
    lines = ["4 decisions", "disabled: 1 decisions, 2 omitted", "duplicate: 1 decisions, 2 omitted"]
    assert text(answer).splitlines()[:3] == lines
    days = result(server, "summarize_decisions", by="day", tenant="acme")["sums"]
    assert [(day["name"], day["omitted"], day["used_tokens"]) for day in days] == [("2026-03-01", 2, 0)]
    groups = result(server, "summarize_decisions", by="group")["sums"]
    assert {group["name"] for group in groups} == {"local"}
    policies = result(server, "summarize_decisions", by="policy", until="2026-03-01T12:00:01Z")
    assert [(policy["name"], policy["decisions"]) for policy in policies["sums"]] == [("lanes", 2)]
    assert refused(server, "summarize_decisions", by="colour").startswith("invalid_argument: by: ")


def test_a_line_with_a_time_without_an_offset_is_skipped(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "decisions.jsonl").read_bytes().splitlines(keepends=True)
    lines[0] = lines[0].replace(b"2026-03-01T12:00:00Z", b"2026-03-01T12:00:00")
    (tmp_path / "decisions").write_bytes(b"".join(lines[:3]))
    found = result(create_server(Settings(), tmp_path / "decisions", None), "find_decisions")
    assert requests(found) == ["r3", "r2"]
