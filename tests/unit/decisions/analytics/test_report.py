"""The report: answers of its queries, their rows, and the content of the page."""

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.reported import DEAD_LETTER, HOSTILE, ROOT, as_lines, candidate, decision, hostile, page

from apportion.decisions.analytics.conversion import RecordLines, convert
from apportion.decisions.analytics.queries import NAMES, load_queries, load_query
from apportion.decisions.analytics.replayed import NoReplayError, replayed_of
from apportion.decisions.analytics.report import NothingToReportError, report_of
from apportion.decisions.analytics.source import LogSource, TablesFailedError, open_tables

NOTEBOOK = ROOT / "docs" / "notebooks" / "decisions.ipynb"
GOLDEN = sorted((ROOT / "tests" / "golden").rglob("decisions.jsonl"))
MISSES = [
    candidate("a", 1, more=7),
    candidate("b", 2, more=20),
    candidate("c", 3, more=21),
    candidate("d", 4),
]


def asked(name: str, records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the answer of a query about these records."""
    with open_tables((), (LogSource("log", as_lines(records)),)) as tables:
        found = tables.execute(load_query(name).sql)
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def test_every_query_runs_over_the_recorded_decisions_of_every_strategy() -> None:
    logs = [LogSource(str(path), path.read_bytes().splitlines()) for path in GOLDEN]
    with open_tables((), logs) as tables:
        answers = {query.name: tables.execute(query.sql).fetchall() for query in load_queries()}
    assert set(answers) == set(NAMES)
    assert {row[2] for row in answers["policies"]} == {
        "categories",
        "conversation",
        "lanes",
        "layers",
        "request",
        "tiers",
    }


def test_every_query_states_its_question_in_the_first_line() -> None:
    assert [query.name for query in load_queries() if not re.search(r"\?( .*)?$", query.answers)] == []


def test_omitted_candidates_are_counted_like_a_naive_reading() -> None:
    records = [json.loads(line) for path in GOLDEN for line in path.read_bytes().splitlines()]
    naive: Counter[tuple[str, ...]] = Counter()
    for logged in {record["decision_id"]: record for record in reversed(records)}.values():
        for row in logged.get("candidates", ()):
            if row["outcome"] == "omitted":
                naive[row["group"], row["kind"], row["reason"]] += 1
    found = asked("dropped", records)
    assert {(row["group"], row["kind"], row["reason"]): row["candidates"] for row in found} == naive


def test_reasons_count_the_candidates_without_a_row_too() -> None:
    more = {
        "reasons": [{"reason": "duplicate", "count": 3}],
        "unlisted": [{"reason": "duplicate", "count": 2}],
    }
    [found] = asked("reasons", [decision(1, **more), decision(2, **more)])
    assert found == {"reason": "duplicate", "candidates": 6, "decisions": 2}


def test_near_misses_are_counted_by_the_least_step_that_admits_them() -> None:
    found = asked("near_misses", [decision(1, candidates=MISSES)])
    assert [(row["more_at_most"], row["candidates"]) for row in found] == [(10, 1), (20, 1), (50, 1)]


def test_an_unmet_floor_is_counted_with_its_shortfall() -> None:
    row = {"name": "rules", "min": 10, "used": 4, "available": 4, "selected": 1, "rejected": 0}
    short = row | {"shortfall": {"requested": 10, "available": 4}}
    bare = row | {"available": 0, "shortfall": {"requested": 10, "available": 0}}
    records = [decision(number, groups=[each]) for number, each in enumerate((row, short, bare))]
    [found] = asked("floors", records)
    counts = [
        found[name] for name in ("decisions", "without_candidates", "tokens_requested", "tokens_available")
    ]
    assert counts == [2, 1, 20, 4]


def test_held_tokens_are_summed_by_policy_and_cause() -> None:
    window = {"tokens": 40, "share": 800, "cut": 2, "since": 1}
    chat: dict[str, Any] = {"window": window, "tool_results": {"cleared": 1, "freed_tokens": 9}}
    broken: dict[str, Any] = {"window": window | {"tokens": 5, "break": "room"}}
    every: list[dict[str, Any]] = [chat, chat, broken, {}]
    records = [decision(number, **more) for number, more in enumerate(every)]
    found = [
        (row["broken"], row["decisions"], row["tokens_held"], row["tokens_cleared"])
        for row in asked("held", records)
    ]
    assert found == [(None, 2, 80, 18), ("room", 1, 5, 0)]


def test_queries_are_added_up_by_policy_with_the_excerpts_that_they_brought() -> None:
    excerpt = {"fidelity": "excerpt", "excerpt": {"passages": 9, "lines": [[3, 4]]}, "full_tokens": 90}
    chosen = [
        candidate("a", 1, outcome="selected", tokens=30, **excerpt),
        candidate("b", 2, outcome="selected", tokens=6, **excerpt),
        candidate("c", 3, outcome="selected", tokens=50, fidelity="full"),
    ]
    found = asked(
        "queries",
        [
            decision(1, query={"terms": 4, "matched": 3, "passages": 20}, candidates=chosen),
            decision(2, query={"terms": 2, "matched": 0, "passages": 10}),
            decision(3),
        ],
    )
    [row] = [{name: value for name, value in row.items() if name != "policy_name"} for row in found]
    assert row == {
        "decisions": 2,
        "terms": 6,
        "terms_matched": 3,
        "unmatched": 1,
        "passages": 30,
        "excerpts": 2,
        "excerpt_tokens": 36,
        "excerpt_full_tokens": 180,
    }


def test_tables_of_an_earlier_version_miss_columns_and_are_reported(tmp_path: Path) -> None:
    values = list(as_lines([decision(1)]))
    lines = RecordLines(topic="t", partition=0, offsets=[0], timestamps_ms=[None], values=values)
    for table, rows in convert(lines).items():
        (tmp_path / table).mkdir()
        later = [
            name for name in rows.column_names if name.startswith(("window_", "tool_results_", "query_"))
        ]
        pq.write_table(rows.drop_columns(later), tmp_path / table / "part.parquet")
    with open_tables((tmp_path,), ()) as tables:
        answers = report_of(tables).answers
        assert (answers["held"].rows, answers["queries"].rows) == ([], [])


def test_a_session_is_reported_from_its_last_decision() -> None:
    def after(number: int, spent: int) -> dict[str, Any]:
        times = {"started_at": "2026-01-31T12:00:00Z", "last_event_at": f"2026-01-31T12:0{number}:00Z"}
        row = {"prompts": number, "sequence": number, "spent_tokens": spent, **times}
        limits = {"budget_tokens": 60, "max_tokens": 1000}
        return decision(number, session_id="s", session={"before": times, "after": row}, limits=limits)

    [found] = asked("sessions", [after(2, 800), after(1, 500)])
    assert (found["spent_tokens"], found["max_tokens"], found["prompts_left"]) == (800, 1000, 0)
    assert asked("session_shares", [after(2, 800), after(1, 500)]) == [{"tenth": 8, "sessions": 1}]


def test_latency_is_reported_by_phase_and_in_total() -> None:
    def took(number: int, *us: int) -> dict[str, Any]:
        phases = [{"name": name, "duration_us": each} for name, each in zip("ab", us, strict=True)]
        return decision(number, run={"phases": phases})

    found = asked("latency", [took(1, 10, 1), took(2, 20, 2), took(3, 30, 3)])
    assert [(row["phase"], row["p50_p90_p99_us"][0], row["max_us"]) for row in found] == [
        (None, 22, 33),
        ("a", 20, 30),
        ("b", 2, 3),
    ]


def test_dead_letters_and_unreadable_records_are_counted_by_code() -> None:
    found = asked("dead_letters", [DEAD_LETTER, DEAD_LETTER, {"type": "something"}])
    assert [(row["what"], row["records"]) for row in found] == [("dead letter", 2), ("unreadable", 1)]


def test_utilisation_falls_into_at_most_a_hundred_odd_spans_of_time() -> None:
    found = asked("utilisation", [decision(number) for number in range(400)])
    assert 50 <= len(found) <= 101
    assert sum(row["decisions"] for row in found) == 400


def test_utilisation_is_reported_for_each_policy() -> None:
    of_other = {
        "policy": {**decision(0)["policy"], "name": "tight"},
        "tokens": {**decision(0)["tokens"], "used": 1},
    }
    found = asked("utilisation", [decision(1), decision(2), decision(1, **of_other, decision_id="other")])
    shares = {row["policy_name"]: row["share_p10_p50_p90"][1] for row in found}
    assert shares.pop("tight") < min(shares.values())


def test_a_decision_that_was_recorded_twice_is_counted_once_with_its_candidates() -> None:
    records = [decision(1, candidates=MISSES), decision(2), decision(1, candidates=MISSES)]
    assert asked("overview", records)[0]["decisions"] == 2
    assert sum(row["candidates"] for row in asked("near_misses", records)) == 3


def test_a_report_without_decisions_is_refused_and_counts_the_records() -> None:
    with (
        open_tables((), (LogSource("log", as_lines([DEAD_LETTER])),)) as tables,
        pytest.raises(NothingToReportError, match="1 dead letter"),
    ):
        report_of(tables)


def test_a_half_written_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "decisions").mkdir()
    (tmp_path / "decisions" / "half.parquet").write_bytes(b"PAR1 and then the disk was full")
    with pytest.raises(TablesFailedError, match=r"half\.parquet"), open_tables((tmp_path,)):
        pass


def test_the_same_records_give_the_same_page() -> None:
    records = [decision(number) for number in range(30)]
    assert page(records) == page(records)


def test_a_page_has_some_of_many_decisions_and_their_number() -> None:
    ids = [candidate("x" * 200, rank, kind="k" * 100) for rank in range(1, 101)]
    records = [decision(number, candidates=ids) for number in range(200)]
    with open_tables((), (LogSource("log", as_lines(records)),)) as tables:
        found = report_of(tables)
    assert len(found.opened) < len(found.listed.rows) == found.decisions == 200
    assert len(page(records)) < 5_000_000


def test_text_of_a_client_opens_and_closes_no_html_element() -> None:
    text = page([hostile(1), decision(2)])
    assert HOSTILE not in text
    assert "alert(1)</script" not in text
    block = text.partition('<script type="application/json" id="report">')[2].partition("</script>")[0]
    assert not re.search("[<>&]", block)
    assert HOSTILE in {row[1] for row in json.loads(block)["listed"]["rows"]}


def test_the_page_allows_its_own_scripts_alone_and_no_connection() -> None:
    text = page([decision(1)])
    policy = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digests = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    nothing_else = "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    assert policy == [f"default-src 'none'; script-src {allowed}; {nothing_else}"]
    assert re.findall(r'(?:src|href)="([^"]*)"', text.partition("<script")[0]) == ["data:,", "#decisions"]


def test_a_replay_is_reported_with_its_largest_changes_and_summary() -> None:
    side = {"status": "composed", "counter": "chars4", "limit": 60, "used": 50}
    small, large = (
        {"decision_id": name, "before": side, "after": side | {"used": used}, "reordered": True}
        for name, used in (("small", 49), ("large", 10))
    )
    same = {"decision_id": "same", "before": side, "after": side}
    misfit = {"decision_id": "no", "error": {"code": "unknown_lane", "message": "…", "pointer": "$"}}
    finding = {"found": "no_event", "log": "decisions"}
    told = replayed_of(as_lines([small, same, misfit, finding, large, {"replayed": 3, "changed": 2}]))
    assert [change.decision_id for change in told.changes] == ["large", "small"]
    assert (told.sum["changed"], len(told.misfits), told.changes_left_out) == (2, 1, 0)


def test_a_page_has_the_largest_changes_of_a_large_replay() -> None:
    side = {"status": "composed", "counter": "chars4", "limit": 60, "used": 50}
    lost = [{"id": "<" * 200, "kind": "k", "group": "g", "tokens": 1}] * 100
    lines = [{"decision_id": f"{n}", "before": side, "after": side, "lost": lost} for n in range(100)]
    text = page([decision(1)], replayed_of(as_lines([*lines, {"replayed": 100, "changed": 100}])))
    told = json.loads(text.partition('id="report">')[2].partition("</script>")[0])["replayed"]
    assert len(told["changes"]) + told["changes_left_out"] == 100
    assert len(text) < 1_200_000


@pytest.mark.parametrize("lines", [[], [b"{}"], [b"not JSON"], as_lines([decision(1)])])
def test_an_incomplete_replay_is_refused(lines: list[bytes]) -> None:
    with pytest.raises(NoReplayError):
        replayed_of(lines)


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "decisions.jsonl").write_bytes(GOLDEN[0].read_bytes())
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for cell in cells:
        exec("".join(cell["source"]), names)  # noqa: S102 - the cells are ours, and this is how they run
    assert set(names["answers"]) == set(NAMES)
