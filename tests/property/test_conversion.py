"""Rows of arbitrary records: equal values, with defaults for absent fields."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.sinking import RECORDED

from apportion.core.accountant import BOUNDS
from apportion.core.results import Bound, Fidelity, Outcome, Reason
from apportion.decisions.analytics.conversion import RecordLines, convert
from apportion.decisions.analytics.tables import CANDIDATES, GROUP, Table

COUNTS = st.integers(min_value=0, max_value=(1 << 63) - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
NAMES = ("recency", "relevance")
OWN = CANDIDATES.names[CANDIDATES.names.index("id") :]
"""The columns that an entry itself gives."""


def optional(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw objects in which each of these may be absent."""
    return st.fixed_dictionaries({}, optional=values)


ENTRIES = st.builds(
    lambda whole, part: whole | part,
    st.fixed_dictionaries(
        {"id": TEXTS, "kind": TEXTS, "group": TEXTS, "rank": COUNTS, "outcome": st.sampled_from(Outcome)}
    ),
    optional(
        score=COUNTS,
        parts=st.lists(COUNTS, min_size=len(NAMES), max_size=len(NAMES)),
        tokens=COUNTS,
        fidelity=st.sampled_from(Fidelity),
        full_tokens=COUNTS,
        reason=st.sampled_from(Reason) | st.just("of_a_later_version"),
        bound=st.sampled_from(Bound),
        needed=COUNTS,
        left=COUNTS,
        more=COUNTS,
        limit_left=COUNTS,
        constraint=TEXTS,
        redundant=st.fixed_dictionaries({"covered_by": TEXTS, "permille": COUNTS}),
        of_a_later_version=COUNTS,
    ),
)
GROUPS = st.builds(
    lambda whole, part: whole | part,
    st.fixed_dictionaries(
        {"name": TEXTS} | dict.fromkeys(("min", "used", "available", "selected", "rejected"), COUNTS)
    ),
    optional(
        max=COUNTS,
        shortfall=st.fixed_dictionaries({"requested": COUNTS, "available": COUNTS}),
    ),
)
DECISIONS = st.builds(
    lambda entries, groups: (
        json.loads(RECORDED[0]) | {"score_parts": NAMES, "candidates": entries, "groups": groups}
    ),
    st.lists(ENTRIES, max_size=4),
    st.lists(GROUPS, max_size=3),
)


def candidate_row(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that belong to the entry alone."""
    row = dict.fromkeys(OWN) | entry
    row.pop("of_a_later_version", None)
    row |= {f"redundant_{name}": value for name, value in row.pop("redundant", {}).items()}
    if row["bound"] is None:
        row["bound"] = BOUNDS.get(row["reason"])
    if row["needed"] is None and row["left"] is not None:
        row["needed"] = row["tokens"] or 0
    if row["parts"] is not None:
        row["parts"] = list(zip(NAMES, row["parts"], strict=True))
    return row


def group_row(group: dict[str, Any]) -> dict[str, Any]:
    """Return a group's row."""
    row: dict[str, Any] = dict.fromkeys([field.name for field in GROUP]) | group
    for name, value in row.pop("shortfall", {}).items():
        row[f"shortfall_{name}"] = value
    return row


@settings(deadline=None)
@given(st.lists(DECISIONS, max_size=4))
def test_random_records_are_in_the_tables_unchanged(records: list[dict[str, Any]]) -> None:
    values = [json.dumps(record).encode() for record in records]
    offsets = range(len(values))
    tables = convert(
        RecordLines(
            topic="t", partition=0, offsets=offsets, timestamps_ms=[None] * len(values), values=values
        )
    )
    assert tables[Table.UNREADABLE].num_rows == 0
    rows = tables[Table.CANDIDATES].to_pylist()
    found = [(row["offset"], {name: row[name] for name in OWN}) for row in rows]
    assert found == [
        (offset, candidate_row(entry))
        for offset, record in enumerate(records)
        for entry in record["candidates"]
    ]
    groups = tables[Table.DECISIONS]["groups"].to_pylist()
    assert groups == [[group_row(group) for group in record["groups"]] for record in records]
