"""From records to rows."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from msgspec import Struct
from msgspec.structs import fields, replace
from support.sinking import USAGE

from apportion.core import results
from apportion.core.events import ContextUsage
from apportion.decisions.analytics.conversion import RecordLines, convert
from apportion.decisions.analytics.tables import SCHEMAS, Table

ROOT = Path(__file__).parents[4]
GOLDEN = sorted((ROOT / "tests" / "golden").rglob("decisions.jsonl"))
PAGE = (ROOT / "docs" / "analytics.md").read_text("utf-8")


RECORDED = next(line for path in GOLDEN for line in path.read_bytes().splitlines() if b'"parts":[' in line)
"""A recorded decision with scores."""


def lines(*values: bytes | None) -> RecordLines:
    places = range(7, 7 + len(values))
    return RecordLines(
        topic="t", partition=3, offsets=places, timestamps_ms=[1_700_000_000_000] * len(values), values=values
    )


def recorded() -> list[bytes]:
    """Return the recorded decisions of every strategy."""
    return [line for path in GOLDEN for line in path.read_bytes().splitlines()]


def at(record: Any, path: str) -> Any:
    """Return the value of a record for a column, naively: by the longest field that begins the name."""
    if not path or record is None:
        return record
    for name in sorted(record, key=len, reverse=True):
        if path == name or path.startswith(f"{name}_"):
            return at(record[name], path[len(name) + 1 :])
    return None


def test_the_page_has_every_column() -> None:
    for table, schema in SCHEMAS.items():
        section = PAGE.partition(f"### `{table}`")[2].partition("\n## ")[0].partition("\n### ")[0]
        shared = PAGE.partition("Every table has")[2].partition("\n### ")[0]
        assert set(schema.names) <= set(re.findall(r"`(\w+)`", section + shared)), table


def test_golden_decisions_in_tables_equal_a_naive_reading() -> None:
    values = recorded()
    tables = convert(lines(*values))
    assert [tables[table].num_rows for table in (Table.DEAD_LETTERS, Table.UNREADABLE)] == [0, 0]
    rows = tables[Table.DECISIONS].to_pylist()
    candidates = iter(tables[Table.CANDIDATES].to_pylist())
    for offset, (value, row) in enumerate(zip(values, rows, strict=True), 7):
        record = json.loads(value)
        assert (row["topic"], row["partition"], row["offset"]) == ("t", 3, offset)
        for name in (
            "decision_id",
            "policy_digest",
            "counter_name",
            "digests_output",
            "tokens_used",
            "status",
        ):
            assert row[name] == at(record, name), name
        assert row["session_after_prompts"] == (at(record, "session_after_prompts") or 0)
        assert [group["name"] for group in row["groups"]] == [
            group["name"] for group in record.get("groups", [])
        ]
        assert row["reasons"] == record.get("reasons", [])
        for entry in record.get("candidates", []):
            candidate = next(candidates)
            assert (candidate["offset"], candidate["decision_id"]) == (offset, record["decision_id"])
            assert candidate["outcome"] == entry.get("outcome", "omitted")
            for name in ("id", "kind", "group", "rank", "tokens", "reason", "left", "more"):
                assert candidate[name] == entry.get(name), name
            score = int(entry["score"]) if "score" in entry else None
            assert candidate["score"] == (None if score is None or score >= 2**63 else score)
            names = record.get("score_parts", [])
            parts = dict(zip(names, entry["parts"], strict=True)) if "parts" in entry else None
            assert (None if candidate["parts"] is None else dict(candidate["parts"])) == parts
    assert next(candidates, None) is None


@pytest.mark.parametrize(
    ("value", "code", "pointer"),
    [
        (None, "empty_value", "$"),
        (b'{"type":', "not_json", "$"),
        (b'{"type":"context-composed"}', "unknown_type", "$.type"),
        (b'{"type":"context-decision","schema_version":1}', "unsupported_version", "$.schema_version"),
        (b'{"type":"context-decision","schema_version":2}', "missing_field", "$.decision_id"),
        (
            b'{"type":"context-decision","schema_version":1,"candidates":[{"parts":{"recency":1}}]}',
            "unsupported_version",
            "$.schema_version",
        ),
        (b'{"type":"context-decision","a":' + b"[" * 100_000, "too_deep", "$"),
        (
            RECORDED.replace(b'"parts":[', b'"parts":[1,', 1),
            "invalid_value",
            "$.candidates[...].parts",
        ),
    ],
)
def test_an_unreadable_line_is_named_and_keeps_its_offset(
    value: bytes | None, code: str, pointer: str
) -> None:
    first, last = recorded()[:2]
    tables = convert(lines(first, value, last))
    assert tables[Table.DECISIONS]["offset"].to_pylist() == [7, 9]
    [row] = tables[Table.UNREADABLE].to_pylist()
    assert (row["offset"], row["error_code"], row["error_pointer"]) == (8, code, pointer)


DECIDED = json.loads(RECORDED)
ENTRY = DECIDED["candidates"][0]


def plain(**changes: Any) -> bytes:
    return json.dumps(DECIDED | changes).encode()


@pytest.mark.parametrize(
    ("written", "form"),
    [
        (json.dumps(DECIDED, indent=1).encode(), plain()),
        (plain()[:-1] + b',"tenant":"told-twice"}', plain(tenant="told-twice")),
        (plain(requested_at="2026-03-01t14:00:00+02:00"), plain(requested_at="2026-03-01T12:00:00Z")),
        (plain(candidates=[ENTRY | {"of_a_later_version": {"a": [1]}}]), plain(candidates=[ENTRY])),
    ],
    ids=["over several lines", "a field twice", "another zone", "a later version's field"],
)
def test_however_a_record_is_written_its_rows_are_the_same_and_so_are_its_neighbours(
    written: bytes, form: bytes
) -> None:
    first, last = recorded()[:2]
    assert convert(lines(first, written, last)) == convert(lines(first, form, last))


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (plain(candidates=[None]), "$.candidates[0]"),
        (plain(candidates=[ENTRY | {"kind": None}]), "$.candidates[0].kind"),
        (plain(candidates=[ENTRY | {"rank": "7"}]), "$.candidates[0].rank"),
        (plain(candidates=[ENTRY | {"rank": 7.5}]), "$.candidates[0].rank"),
        (plain(candidates=[ENTRY | {"rank": 1 << 63}]), "$.candidates[0].rank"),
        (plain(candidates=[ENTRY | {"kind": "?"}]).replace(b"?", b"\xff"), "$"),
        (plain(requested_at="2026-03-01T12:00:00"), "$.requested_at"),
    ],
    ids=[
        "no candidate",
        "no kind",
        "a text",
        "a fraction",
        "past 64 bits",
        "no UTF-8",
        "a time without zone",
    ],
)
def test_a_deep_error_in_a_record_is_named_and_affects_no_other_record(value: bytes, pointer: str) -> None:
    first, last = recorded()[:2]
    tables, right = convert(lines(first, value, last)), convert(lines(first, None, last))
    assert tables[Table.DECISIONS] == right[Table.DECISIONS]
    assert tables[Table.CANDIDATES] == right[Table.CANDIDATES]
    assert tables[Table.UNREADABLE]["offset"].to_pylist() == [8]
    assert tables[Table.UNREADABLE]["error_pointer"].to_pylist() == [pointer]


@pytest.mark.parametrize(
    ("score", "column"),
    [
        ('"9092624259849807"', 9092624259849807),
        (f'"{2**63 - 1}"', 2**63 - 1),
        (f'"{2**63}"', None),
        ('"' + 5_000 * "9" + '"', None),
    ],
)
def test_a_score_in_digits_becomes_a_number_within_the_columns_range(score: str, column: int | None) -> None:
    written = re.sub(rb'"score":\d+', b'"score":' + score.encode(), RECORDED)
    tables = convert(lines(RECORDED, written))
    before, after = (
        tables[Table.CANDIDATES].filter(pc.field("offset") == offset).to_pylist() for offset in (7, 8)
    )
    scores = [None if each["score"] is None else column for each in before]
    assert [each["score"] for each in after] == scores
    assert [each | {"score": 0, "offset": 0} for each in after] == [
        each | {"score": 0, "offset": 0} for each in before
    ]


def test_a_score_of_other_characters_is_unreadable() -> None:
    written = re.sub(rb'"score":\d+', b'"score":"high"', RECORDED)
    [row] = convert(lines(written))[Table.UNREADABLE].to_pylist()
    assert row["error_code"] == "invalid_value"


def test_every_field_of_an_entry_is_a_column() -> None:
    kind: type[Struct] = results.Entry
    flat = {field.name for field in fields(kind)} - {"redundant", "excerpt"}
    flat |= {f"redundant_{field.name}" for field in fields(results.Redundant)}
    flat |= {f"excerpt_{field.name}" for field in fields(results.Excerpt)}
    assert flat <= set(SCHEMAS[Table.CANDIDATES].names)


def test_usage_is_a_row_with_the_names_of_the_conventions() -> None:
    tables = convert(lines(USAGE))
    [row] = tables[Table.USAGE].to_pylist()
    event = json.loads(USAGE)
    for name in ("request_id", "session_id", "tenant", "gen_ai.request.model", "gen_ai.usage.input_tokens"):
        assert row[name.replace(".", "_")] == event[name]
    assert row["gen_ai_usage_cache_creation_input_tokens"] is None
    assert row["used_at"].isoformat() == "2026-03-02T09:15:04+00:00"


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"gen_ai.usage.input_tokens": -1}, "$.gen_ai.usage.input_tokens"),
        ({"gen_ai.usage.output_tokens": "many"}, "$.gen_ai.usage.output_tokens"),
        ({"request_id": ""}, "$.request_id"),
    ],
)
def test_invalid_usage_is_unreadable_with_its_place(wrong: dict[str, Any], pointer: str) -> None:
    tables = convert(lines(json.dumps(json.loads(USAGE) | wrong).encode()))
    assert tables[Table.USAGE].num_rows == 0
    assert tables[Table.UNREADABLE]["error_pointer"].to_pylist() == [pointer]


def test_usage_may_have_the_written_tokens_by_time_to_live_and_the_cause_of_a_miss() -> None:
    told = {
        "cache_creation_5m_input_tokens": 0,
        "cache_creation_1h_input_tokens": 7,
        "cache_miss_reason": "tools_changed",
    }
    [row] = convert(lines(json.dumps(json.loads(USAGE) | told).encode()))[Table.USAGE].to_pylist()
    assert {name: row[name] for name in told} == told
    [without] = convert(lines(USAGE))[Table.USAGE].to_pylist()
    assert {without[name] for name in told} == {None}


def test_other_attributes_of_a_span_are_left_out_of_the_row_of_its_usage() -> None:
    with_content = json.loads(USAGE) | {"gen_ai.input.messages": "a secret"}
    tables = convert(lines(json.dumps(with_content).encode()))
    assert tables[Table.USAGE].num_rows == 1
    assert "a secret" not in str(tables[Table.USAGE].to_pylist())


def test_null_for_an_absent_number_of_a_provider_is_absent() -> None:
    with_null = json.loads(USAGE) | {"gen_ai.provider.name": None, "gen_ai.usage.output_tokens": None}
    [row] = convert(lines(json.dumps(with_null).encode()))[Table.USAGE].to_pylist()
    assert (row["gen_ai_provider_name"], row["gen_ai_usage_output_tokens"]) == (None, None)


def test_a_decision_in_the_topic_of_usage_is_unreadable() -> None:
    tables = convert(replace(lines(RECORDED), kinds=frozenset({ContextUsage})))
    assert tables[Table.DECISIONS].num_rows == 0
    assert tables[Table.UNREADABLE]["error_code"].to_pylist() == ["unknown_type"]
