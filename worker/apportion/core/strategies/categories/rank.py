"""Priorities and canonical order of candidates in categories.

Decides who comes before whom. Canonical order: category priority, priority descending, id, then canonical
JSON, so that the order of the request never shows.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct

from apportion.core.candidates import Prepared
from apportion.core.events import Opt
from apportion.core.identity import event_time_us
from apportion.core.results import Margin, Reason
from apportion.core.strategies.base import Task
from apportion.core.strategies.categories.policy import CategoriesPolicy

_AGE_EDGES_US = tuple(hours * 3_600_000_000 for hours in (1, 24, 7 * 24, 30 * 24))
_RECENCY = (1_300, 1_200, 1_100, 1_000, 800)
_AGREEMENT_EDGES = (1_000, 2_500, 5_000)
_DIVERSITY = (800, 1_000, 1_200, 1_500)
"""Thousandths, like recency: the first below the first edge, the last at the last edge and above."""


class Ranked(Struct, gc=False):
    """A candidate in order, and what has become of it so far. `tokens` is exact, `cost` as it counts."""

    prepared: Prepared
    category: str
    score: int
    parts: Opt[dict[str, int]]
    reason: Reason | None
    cost: int = 0
    selected: bool = False
    margin: Margin | None = None
    tokens: int = 0

    def refuse(self, reason: Reason, needed: int, left: int) -> None:
        """Leave the candidate out."""
        self.selected, self.reason, self.margin = False, reason, Margin(needed, left)


def rank(task: Task[CategoriesPolicy], places: Mapping[str, int]) -> list[Ranked]:
    """Return all candidates in canonical order; `places` are those of the categories."""
    now_us = event_time_us(task.request.requested_at)
    ranked = [
        Ranked(one, one.candidate.category or "", *_priority(one.rounded, now_us), one.omitted)
        for one in task.candidates
    ]
    ranked.sort(key=lambda one: (places[one.category], -one.score, one.prepared.id, one.prepared.canonical))
    return ranked


def _priority(rounded: Mapping[str, Any], now_us: int) -> tuple[int, Opt[dict[str, int]]]:
    """Return a priority and what it was made of: nothing, where it was given."""
    if "priority" in rounded:
        return int(rounded["priority"]), UNSET
    relevance = rounded["relevance"]
    recency = _RECENCY[bisect_right(_AGE_EDGES_US, now_us - rounded["created_at"])]
    diversity = _DIVERSITY[bisect_right(_AGREEMENT_EDGES, int(rounded["weighted_agreement"]))]
    score = (relevance * recency * diversity + 500_000) // 1_000_000
    return score, {"relevance": relevance, "recency": recency, "diversity": diversity}
