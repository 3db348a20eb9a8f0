"""`apportion report` as it is called."""

import json
import sys
from pathlib import Path

import pytest
from support.commands import apportion, process
from support.reported import DEAD_LETTER, as_lines, decision

from apportion.decisions.analytics.queries import load_queries


@pytest.fixture(autouse=True)
def _with_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = as_lines([decision(1), decision(2), DEAD_LETTER])
    Path("decisions").write_bytes(b"\n".join(lines) + b"\n")


def test_a_page_is_written_and_named() -> None:
    ended = apportion("report", "decisions")
    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.out.startswith(b"report.html: 2 decisions, 2 to open, ")
    assert Path("report.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in Path().iterdir()) == ["decisions", "report.html"]


def test_a_file_is_overwritten_only_with_force() -> None:
    Path("report.html").write_text("mine")
    ended = apportion("report", "decisions")
    assert (ended.exit_code, Path("report.html").read_text()) == (2, "mine")
    assert "--force" in ended.err
    assert apportion("report", "decisions", "--force").exit_code == 0
    assert Path("report.html").read_text() != "mine"
    assert apportion("report", "decisions", "--output", "decisions", "--force").exit_code == 2


def test_a_report_of_nothing_writes_nothing_and_fails() -> None:
    Path("none").write_bytes(b"not a decision\n")
    ended = apportion("report", "none")
    assert (ended.exit_code, Path("report.html").exists()) == (1, False)
    assert ended.err.startswith("apportion: no_decisions: there is no decision to report")


def test_unreadable_records_are_counted_in_the_summary() -> None:
    Path("cut").write_bytes(Path("decisions").read_bytes()[:-200])
    ended = apportion("report", "cut")
    assert ended.exit_code == 0
    assert ended.out.startswith(b"report.html: 2 decisions, 2 to open, 1 unreadable record, ")


@pytest.mark.parametrize("given", [(), ("gone",), (".",), ("decisions", "--output", "gone/page.html")])
def test_an_invalid_source_or_output_is_wrong_usage(given: tuple[str, ...]) -> None:
    assert apportion("report", *given).exit_code == 2


def test_sources_or_topics_are_read_and_a_time_is_of_topics_alone() -> None:
    assert apportion("report", "decisions", "--from-topics").exit_code == 2
    ended = apportion("report", "decisions", "--since", "2026-03-01T00:00:00Z")
    assert (ended.exit_code, "--from-topics" in ended.err) == (2, True)
    assert not Path("report.html").exists()


def test_tables_of_the_sink_give_the_page_that_their_lines_give() -> None:
    assert apportion("sink", "--from", "decisions", "--tables", "tables").exit_code == 0
    assert apportion("report", "tables", "--output", "of-tables.html").exit_code == 0
    assert apportion("report", "decisions", "--output", "of-lines.html").exit_code == 0
    assert Path("of-tables.html").read_text() == Path("of-lines.html").read_text()


def test_the_page_has_the_replay_and_an_incomplete_replay_is_refused() -> None:
    side = {"status": "composed", "counter": "chars4", "limit": 60, "used": 50}
    change = {"decision_id": "changed", "before": side, "after": side | {"used": 9}}
    Path("replay").write_text(f"{json.dumps(change)}\n")
    ended = apportion("report", "decisions", "--replay", "replay")
    assert (ended.exit_code, Path("report.html").exists()) == (1, False)
    assert ended.err.startswith("apportion: no_replay: the last line, the sum, is missing")
    Path("replay").write_text(f'{json.dumps(change | {"reordered": True})}\n{{"replayed":1,"changed":1}}\n')
    assert apportion("report", "decisions", "--replay", "replay").exit_code == 0
    assert '"changed"' in Path("report.html").read_text()


def test_the_queries_are_printed_as_they_are() -> None:
    out = apportion("report", "--sql").out.decode()
    assert [query.name for query in load_queries() if f"-- {query.name}\n{query.sql}" not in out] == []


def test_without_its_extra_the_command_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "apportion.decisions.analytics.source", raising=False)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    ended = apportion("report", "decisions")
    assert (ended.exit_code, Path("report.html").exists()) == (2, False)
    assert ended.err.startswith("apportion: not_installed: ")
    assert "pip install 'apportion[analytics]'" in ended.err


def test_the_help_needs_nothing_but_the_command() -> None:
    assert process("report", "--help").exit_code == 0
