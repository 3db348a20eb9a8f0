"""The ways to make an artifact smaller: one rule a file in `shrink/`, for any implementation."""

import json
from pathlib import Path

import pytest

from apportion.core.shrink import ShrinkStrategy, ladder
from apportion.engine.counters import COUNTERS

FILES = sorted((Path(__file__).parent / "shrink").glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_rule_holds(file: Path) -> None:
    rule = json.loads(file.read_text(encoding="utf-8"))
    assert set(rule) <= {"rule", "strategy", "counter", "language", "path", "content", "cases"}
    forms = ladder(
        ShrinkStrategy(rule["strategy"]),
        rule["content"],
        COUNTERS[rule["counter"]].count,
        rule.get("language"),
        rule.get("path"),
    )
    for case in rule["cases"]:
        form = None if forms is None else forms.within(case["target"])
        told = {"target": case["target"], "text": None if form is None else form.text}
        assert told | ({} if form is None else {"tokens": form.tokens}) == case
