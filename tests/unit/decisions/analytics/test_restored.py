"""Decisions of the tables as they were recorded."""

from pathlib import Path

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from apportion.core.results import ContextDecision
from apportion.decisions.analytics.restored import restore_decisions
from apportion.decisions.analytics.source import LogSource, open_tables

GOLDEN = sorted((Path(__file__).parents[3] / "golden").rglob("decisions.jsonl"))


def without_what_tables_lack(decision: ContextDecision) -> ContextDecision:
    entries = tuple(
        replace(entry, score=UNSET) if entry.score is not UNSET and int(entry.score) >= 1 << 63 else entry
        for entry in decision.candidates
    )
    return replace(decision, certificate=UNSET, prefix=UNSET, run=UNSET, candidates=entries)


def test_every_golden_decision_is_restored_except_fields_outside_the_tables() -> None:
    lines = [line for path in GOLDEN for line in path.read_bytes().splitlines()][::3]
    decisions = [msgspec.json.decode(line, type=ContextDecision) for line in reversed(lines)]
    with open_tables((), [LogSource("golden", lines)]) as tables:
        restored = {decision.decision_id: decision for decision in restore_decisions(tables, "", len(lines))}
    assert len(restored) > 100
    assert restored == {
        decision.decision_id: without_what_tables_lack(decision) for decision in decisions
    }  # of equal ids the first line counts
