"""Decisions restored from the rows of the tables.

They lack scores above 2**63 - 1, and `certificate`, `prefix` and `run`, of which the tables have only some
fields. All else is as in the record.
"""

from collections.abc import Mapping, Sequence
from typing import Any, get_origin

import msgspec
from duckdb import DuckDBPyConnection
from msgspec import Struct
from msgspec.structs import fields

from apportion.core.accountant import BOUNDS
from apportion.core.results import ContextDecision
from apportion.decisions.analytics.records import Decision, Entry, struct_in

_CANDIDATES = "candidates"
_INCOMPLETE = frozenset({"certificate", "prefix", "run"})
"""Parts of a decision for which the tables have only some fields."""


def restore_decisions(tables: DuckDBPyConnection, prefix: str, most: int) -> Sequence[ContextDecision]:
    """Return up to `most` decisions whose ids begin with `prefix`; raise msgspec.ValidationError."""
    rows = _rows(tables, "FROM decisions WHERE starts_with(decision_id, ?) LIMIT ?", prefix, most)
    return [
        _restored(
            row, _rows(tables, "FROM candidates WHERE decision_id = ? ORDER BY rank", row["decision_id"])
        )
        for row in rows
    ]


def _rows(tables: DuckDBPyConnection, sql: str, *values: object) -> Sequence[dict[str, Any]]:
    result = tables.execute(sql, values)
    columns = [column[0] for column in result.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]


def _restored(row: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> ContextDecision:
    nested = _nested(row, Decision)
    assert nested is not None, "a decision has an id"
    names = nested.get("score_parts", ())
    entries = [_entry(candidate, names) for candidate in candidates]
    return msgspec.convert({**nested, _CANDIDATES: entries}, ContextDecision)


def _entry(row: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """Return a candidate; columns that repeat what its reason or tokens imply are left out."""
    implied = dict(row)
    if row["bound"] == BOUNDS.get(row["reason"]):
        implied["bound"] = None
    if row["needed"] == (row["tokens"] or 0):
        implied["needed"] = None
    if row["parts"] is not None:
        implied["parts"] = [row["parts"][name] for name in names]
    return _nested(implied, Entry) or {}


def _nested(row: Mapping[str, Any], kind: type[Struct], before: str = "") -> dict[str, Any] | None:
    """Return a row's columns, named from `before`, as the nested fields of `kind`; None if all are null."""
    values: dict[str, Any] = {}
    for field in fields(kind):
        name = field.encode_name
        column = before + name
        if not before and name in _INCOMPLETE:
            continue
        inner = struct_in(field.type)
        if inner is None:
            value = row.get(column)
        elif get_origin(field.type) is tuple:
            value = [_nested(part, inner) for part in row.get(column) or ()]
        else:
            value = _nested(row, inner, f"{column}_")
        if value is not None:
            values[name] = value
    return values or None
