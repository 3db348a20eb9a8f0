"""`apportion fit`: a chat in a file, fitted to a limit of tokens."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.commands import apportion, process
from support.fitted_chats import chat, tool_round

from apportion import FitOptions, LocalSessions, fit
from apportion.core.results import ToolResults

SINGLE = FitOptions(continues=False)
MESSAGES = chat(20)
BODY: dict[str, Any] = {"model": "m", "system": "Be brief.", "messages": MESSAGES[1:], "stream": True}


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "body.json").write_text(json.dumps(BODY, indent=2))


@pytest.mark.parametrize("body", [MESSAGES, BODY], ids=["list", "anthropic"])
def test_a_body_is_fitted_as_by_the_library(body: Any) -> None:
    own = fit(body, 300, options=SINGLE)
    ended = apportion("fit", "--limit", "300", stdin=json.dumps(body).encode())
    assert (ended.exit_code, json.loads(ended.out)) == (0, own.body)
    kept = f"{own.decision.candidates_selected} of 42 messages, {own.used_tokens} of 300 tokens"
    cut = [entry.tokens or 0 for entry in own.decision.candidates if entry.reason == "history_truncated"]
    left_out = f"history_truncated: {len(cut)} messages, {sum(cut)} tokens left out"
    assert ended.err == f"apportion: {kept}\napportion: {left_out}\n"


def test_a_summary_of_more_messages_than_a_decision_lists_gives_at_least_their_tokens() -> None:
    ended = apportion("fit", "--limit", "300", stdin=json.dumps(chat(1000)).encode())
    assert re.search(r"history_truncated: 1,9\d\d messages, at least 1\d,\d{3} tokens left out\n", ended.err)


def test_files_are_written_and_not_overwritten() -> None:
    arguments = ("fit", "body.json", "--limit", "300", "--output", "fitted.json", "--decision", "d.json")
    first = apportion(*arguments)
    assert (first.exit_code, first.out) == (0, b"")
    assert json.loads(Path("fitted.json").read_bytes())["stream"] is True
    assert json.loads(Path("d.json").read_bytes())["policy"]["name"] == "fit"
    refused = apportion(*arguments)
    assert refused.exit_code == 2
    assert "fitted.json exists; --force overwrites it" in refused.err
    assert apportion(*arguments, "--force").exit_code == 0
    same = apportion("fit", "body.json", "--limit", "300", "--output", "body.json", "--force")
    assert same.exit_code == 2


def test_a_model_counts_its_tokens_and_is_written_into_the_body() -> None:
    def shown(*given: str) -> Any:
        return json.loads(apportion("fit", "body.json", "--limit", "300", *given).out)

    assert shown() == fit(BODY, 300, options=SINGLE).body
    assert (
        shown("--model", "claude-opus-4-7")
        == fit({**BODY, "model": "claude-opus-4-7"}, 300, options=SINGLE).body
    )
    unknown = apportion("fit", "body.json", "--limit", "300", "--model", "m")
    assert (unknown.exit_code, unknown.out) == (1, b"")
    assert "unknown_model: the table of models has no row" in unknown.err


def test_without_a_limit_the_window_of_the_model_holds() -> None:
    shown = apportion("fit", "body.json", "--model", "claude-haiku-4-5")
    assert "136,000 tokens" in shown.err
    assert "missing_field: name the limit" in apportion("fit", "body.json").err


def test_a_session_in_a_file_keeps_the_beginning() -> None:
    sessions = LocalSessions()
    bodies: list[Any] = []
    for turns in range(20, 24):
        messages = chat(turns)
        ended = apportion("fit", "--limit", "300", "--session", "chat-1", stdin=json.dumps(messages).encode())
        bodies.append(json.loads(ended.out))
        assert bodies[-1] == fit(messages, 300, session_id="chat-1", client=sessions).body
    fresh = fit(chat(23), 300, session_id="fresh", client=LocalSessions()).messages
    assert bodies[-1][1] == bodies[-2][1] != fresh[1]


def test_cleared_results_are_counted() -> None:
    messages = chat(1)[:-1]
    for turn in range(8):
        messages += tool_round(f"c{turn}", "line " * 400)
    messages.append({"role": "user", "content": "Go on."})
    ended = apportion("fit", "--limit", "2500", stdin=json.dumps(messages).encode())
    decision = fit(messages, 2500, options=SINGLE).decision
    cleared = [entry for entry in decision.candidates if entry.fidelity == "cleared"]
    assert len(cleared) > 1
    assert isinstance(decision.tool_results, ToolResults)
    freed = f"{decision.tool_results.freed_tokens:,} tokens left out"
    assert ended.err.splitlines()[1] == f"apportion: cleared: {len(cleared)} messages, {freed}"


@pytest.mark.parametrize(
    ("stdin", "arguments", "exit_code", "shown"),
    [
        (b"", (), 2, "not_json: <stdin>: "),
        (b"{", (), 2, "not_json: <stdin>: "),
        (b"5", (), 2, "wrong_type: <stdin>: holds no body and no list of messages"),
        (b"[]", (), 1, "missing_field: "),
        (b'[{"role":"wizard","content":"x"}]', (), 1, "invalid_value: "),
        (b'[{"role":"user","content":"x"}]', ("--policy", "mine"), 1, "unknown_policy: "),
        (
            b'[{"role":"user","content":"x"}]',
            ("--session", "body.json"),
            2,
            "wrong_file: body.json: ",
        ),
        (b"[]", ("--policies", "nowhere"), 2, "invalid_settings: "),
    ],
)
def test_an_error_is_typed(stdin: bytes, arguments: tuple[str, ...], exit_code: int, shown: str) -> None:
    ended = process("fit", "--limit", "300", *arguments, stdin=stdin)
    assert (ended.exit_code, ended.out) == (exit_code, b"")
    assert ended.err.startswith(f"apportion: {shown}"), ended.err


def test_a_chat_that_cannot_be_fitted_leaves_its_decision() -> None:
    messages = json.dumps([{"role": "system", "content": "why " * 300}]).encode()
    ended = apportion("fit", "--limit", "100", "--decision", "d.json", "--session", "s", stdin=messages)
    assert (ended.exit_code, ended.out) == (1, b"")
    assert ended.err.startswith("apportion: infeasible: ")
    assert json.loads(Path("d.json").read_bytes())["status"] == "infeasible"
    assert not Path("s").exists()
