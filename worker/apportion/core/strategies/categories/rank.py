"""Priorities and canonical order of candidates in categories."""

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import UNSET

from apportion.core.canonical import Facts
from apportion.core.canonical_json import exact_json_integer
from apportion.core.events import Opt
from apportion.core.strategies.categories.policy import CategoriesPolicy
from apportion.core.strategy_api.task import Prepared, Task
from apportion.core.strategy_api.verdict import Verdict

SCORE_PARTS = ("relevance", "recency", "diversity")
_RECENCY = (1_300, 1_200, 1_100, 1_000, 800)
_AGREEMENT_EDGES = (1_000, 2_500, 5_000)
_DIVERSITY = (800, 1_000, 1_200, 1_500)
"""Thousandths, like recency: the first value below the first edge, the last value from the last edge on."""


class Contender(Verdict, gc=False, kw_only=True):
    """A candidate in canonical order, with its verdict; its group is its category."""

    prepared: Prepared
    priority: int


def rank(task: Task[CategoriesPolicy, None], categories: Sequence[str]) -> list[Contender]:
    """Return all candidates in canonical order; `categories` are the names by priority."""
    order = {name: index for index, name in enumerate(categories)}
    return sorted(
        map(_contender, task.candidates),
        key=lambda each: (order[each.group], -each.priority, each.id, each.prepared.tie),
    )


def _contender(prepared: Prepared) -> Contender:
    priority, parts = _priority(prepared.facts, prepared.age)
    category, score = prepared.facts.category or "", exact_json_integer(priority)
    return Contender(
        prepared.id,
        prepared.kind,
        category,
        score,
        parts,
        prepared.constraint,
        prepared.bound,
        prepared=prepared,
        priority=priority,
    )


def _priority(facts: Facts, age: int) -> tuple[int, Opt[tuple[int, ...]]]:
    """Return a candidate's priority and its factors, in thousandths; a given priority has no factors."""
    if facts.priority is not UNSET:
        return int(facts.priority), UNSET
    relevance, agreement = facts.relevance or 0, int(facts.weighted_agreement or 0)
    recency, diversity = _RECENCY[age], _DIVERSITY[bisect_right(_AGREEMENT_EDGES, agreement)]
    score = (relevance * recency * diversity + 500_000) // 1_000_000
    return score, (relevance, recency, diversity)
