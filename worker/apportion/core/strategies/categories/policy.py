"""The policy of strategy `categories`: categories, their budgets and the reserve.

The defaults are the source's own numbers.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any

from pydantic import Field

from apportion.core.strategy_api.policy import (
    AddedLater,
    CertificatePolicy,
    Count,
    OverlapPolicy,
    OwnName,
    Policy,
    PolicyTable,
    Problem,
    clashing_priorities,
    integer,
)

DEFAULT_TOTAL_TOKENS = 1_200
SMALLEST_TOTAL_TOKENS = 100
AGE_EDGES_US = tuple(hours * 3_600_000_000 for hours in (1, 24, 7 * 24, 30 * 24))


class Overflow(StrEnum):
    """The tokens for an overflow of a category: the reserve only, or all tokens left."""

    RESERVE = "reserve"
    ANY = "any"


class CategoryPolicy(PolicyTable):
    """`[categories.NAME]`: the priority (the lowest is first), the budget, and whether it may overflow."""

    priority: Count
    budget_tokens: Count
    may_overflow: bool = False


class ReservePolicy(PolicyTable):
    """`[reserve]`: its tokens (None: the total minus all budgets), and the tokens that pay an overflow."""

    tokens: Count | None = None
    overflow: Overflow = Field(default=Overflow.RESERVE, strict=False)


DEFAULT_CATEGORIES: Mapping[str, Mapping[str, Any]] = {
    "divergence_alert": {"priority": 1, "budget_tokens": 200, "may_overflow": True},
    "high_relevance_cluster": {"priority": 2, "budget_tokens": 400, "may_overflow": True},
    "single_space_match": {"priority": 3, "budget_tokens": 300},
    "recent_session": {"priority": 4, "budget_tokens": 200},
}


class CategoriesPolicy(Policy):
    """A policy of strategy `categories`. Own `categories` replace the default ones."""

    budget_tokens: Count = DEFAULT_TOTAL_TOKENS
    categories: dict[OwnName, CategoryPolicy] = Field(DEFAULT_CATEGORIES, min_length=1, validate_default=True)
    reserve: ReservePolicy = ReservePolicy()
    overlap: AddedLater[OverlapPolicy] = OverlapPolicy()
    certificate: AddedLater[CertificatePolicy] = CertificatePolicy()

    @cached_property
    def age_edges_us(self) -> Sequence[int]:
        """The ages at which the recency of a candidate falls, in microseconds."""
        return AGE_EDGES_US

    def parts(self, total_tokens: int) -> tuple[dict[str, int], int]:
        """Return the categories' budgets, by priority, and the reserve at this total."""
        ordered = sorted(self.categories.items(), key=lambda item: item[1].priority)
        budgets = {name: category.budget_tokens for name, category in ordered}
        reserve_tokens = self.reserve.tokens
        if total_tokens != self.budget_tokens:
            whole = self.budget_tokens or sum(budgets.values()) + (reserve_tokens or 0) or 1
            budgets = {name: budget * total_tokens // whole for name, budget in budgets.items()}
            reserve_tokens = None
        if reserve_tokens is None:
            reserve_tokens = max(0, total_tokens - sum(budgets.values()))
        return budgets, reserve_tokens

    @classmethod
    def cross_check(cls, raw: Mapping[str, Any]) -> Iterable[Problem]:
        """Yield a problem for totals from 1 to 99, repeated priorities, and parts that exceed the total."""
        yield from super().cross_check(raw)
        whole = {"budget_tokens": DEFAULT_TOTAL_TOKENS, "categories": DEFAULT_CATEGORIES, **raw}
        for key in ("budget_tokens", "budget_tokens_max"):
            if 0 < (integer(whole, key) or 0) < SMALLEST_TOTAL_TOKENS:
                yield Problem(key, f"at least {SMALLEST_TOTAL_TOKENS}, or 0")
        categories = whole["categories"] if isinstance(whole["categories"], Mapping) else {}
        yield from clashing_priorities("categories", "category", categories)
        total = integer(whole, "budget_tokens") or 0
        parts = sum(integer(category, "budget_tokens") or 0 for category in categories.values())
        parts += integer(raw.get("reserve"), "tokens") or 0
        if 0 < total < parts:
            reason = f"the categories' budgets and the reserve add up to {parts}, above the total {total}"
            yield Problem("budget_tokens", reason)
