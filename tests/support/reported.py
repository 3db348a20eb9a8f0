"""Shared parts of tests of the report: logged decisions, some of them hostile, and their page."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from apportion.decisions.analytics.page import page_of
from apportion.decisions.analytics.replayed import Replayed
from apportion.decisions.analytics.report import report_of
from apportion.decisions.analytics.source import LogSource, open_tables

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "schemas" / "examples"
DECISION: dict[str, Any] = json.loads((EXAMPLES / "context-decision" / "lanes.json").read_text())
DEAD_LETTER: dict[str, Any] = json.loads(
    (EXAMPLES / "context-dead-letter" / "missing-field.json").read_text()
)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)><!--scripts-->'\"&\u2028"
"""A name that a client may give."""


def decision(number: int, **changes: Any) -> dict[str, Any]:
    """Return a decision of its own id, a minute after the one before it."""
    return DECISION | {
        "decision_id": f"{number:032x}",
        "request_id": f"r{number}",
        "session_id": f"s{number % 3}",
        "requested_at": f"2026-01-31T{12 + number // 60:02}:{number % 60:02}:00Z",
        **changes,
    }


def candidate(name: str, rank: int, **changes: Any) -> dict[str, Any]:
    """Return an omitted candidate's row."""
    return {
        "id": name,
        "kind": "rule_doc",
        "group": "rules",
        "rank": rank,
        "outcome": "omitted",
        "tokens": 10,
        "reason": "budget_exceeded",
        "left": 5,
        **changes,
    }


def hostile(number: int) -> dict[str, Any]:
    """Return a decision in which all that a client chooses is hostile."""
    one = candidate(HOSTILE, 1, kind=HOSTILE, group=HOSTILE)
    group = {"name": HOSTILE, "min": 1, "used": 0, "available": 0, "selected": 0, "rejected": 1}
    return decision(
        number,
        request_id=HOSTILE,
        session_id=HOSTILE,
        tenant=HOSTILE,
        candidates=[one],
        groups=[group | {"shortfall": {"requested": 1, "available": 0}}],
        policy=DECISION["policy"] | {"name": HOSTILE},
        status="composed",
        limits={"budget_tokens": 60, "max_tokens": 100},
    )


def as_lines(records: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Return records as lines of a log."""
    return [json.dumps(record).encode() for record in records]


def page(records: Iterable[Mapping[str, Any]], replayed: Replayed | None = None) -> str:
    """Return the page of these records."""
    with open_tables((), (LogSource("log", as_lines(records)),)) as tables:
        return page_of(report_of(tables, replayed))
