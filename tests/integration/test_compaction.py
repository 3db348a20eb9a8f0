"""Repeated compaction of transcripts to a fifth of their size: surviving facts and stale facts."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from compaction_kit.benchmark import run_budget_benchmark
from support.compactors import ConversationCompactor, LanesCompactor

COMPACTORS: Mapping[str, Callable[[], Any]] = {
    "lanes": LanesCompactor,
    "conversation": ConversationCompactor,
}
SEEDS = (1, 2, 3, 4)
FIFTH = 0.2
CONFLICTS = 64


def figures(compactor: Callable[[], Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the kit's figures of transcripts with typed statements, and of those with reworded updates."""
    [entry] = run_budget_benchmark({"compactor": compactor}, budgets=[FIFTH], seeds=SEEDS)["entries"]
    assert entry["budget_compliant"]
    return entry["randomized"], entry["semantic"]


@pytest.mark.parametrize("name", COMPACTORS)
def test_rules_and_facts_survive_and_no_stale_value_does(name: str) -> None:
    randomized, semantic = figures(COMPACTORS[name])
    assert randomized["overall_final_survival"] >= 0.85
    assert randomized["final_median_by_type"]["safety_rule"] == 1
    assert randomized["supersession"]["stale"] == 0
    conflicts = semantic["conflicts"]
    assert (conflicts["n"], conflicts["stale"]) == (CONFLICTS, 0)
    assert semantic["distinct_pair_rate"] == 1


def test_subjects_keep_stale_values_out() -> None:
    _, semantic = figures(partial(LanesCompactor, with_subjects=False))
    assert semantic["conflicts"]["stale"] > 0
