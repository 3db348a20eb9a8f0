"""Priorities and canonical order of candidates in categories.

Decides who comes before whom. Canonical order: category priority, priority descending, id, then canonical
JSON, so that the order of the request never shows.
"""

from bisect import bisect_right
from collections.abc import Mapping

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
"""Thousandths, like recency: the first below the first edge, the last at the last edge and above."""


class Contender(Verdict, gc=False, kw_only=True):
    """A candidate in order, and what becomes of it; its group is its category."""

    prepared: Prepared
    priority: int


def rank(task: Task[CategoriesPolicy, None], places: Mapping[str, int]) -> list[Contender]:
    """Return all candidates in canonical order; `places` are those of the categories."""
    ranked = [_contender(prepared) for prepared in task.candidates]
    ranked.sort(
        key=lambda contender: (
            places[contender.group],
            -contender.priority,
            contender.id,
            contender.prepared.tie,
        )
    )
    return ranked


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
    """Return a priority and what it was made of: nothing, where it was given."""
    if facts.priority is not UNSET:
        return int(facts.priority), UNSET
    relevance, agreement = facts.relevance or 0, int(facts.weighted_agreement or 0)
    recency, diversity = _RECENCY[age], _DIVERSITY[bisect_right(_AGREEMENT_EDGES, agreement)]
    score = (relevance * recency * diversity + 500_000) // 1_000_000
    return score, (relevance, recency, diversity)
