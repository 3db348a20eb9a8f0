"""Strategy `categories`: selection of candidates under budgets by category and a reserve.

`docs/strategies/categories.md` has the rules, from the TokenBudgetManager specification. More exactly:

- The product of relevance, recency and diversity is rounded once, half up. A negative age counts as 0.
- Order: category priority, priority descending, id, canonical JSON.
- If the policy's total is 0, the sum of its parts replaces it when a request sets another total.
- A candidate that would make the whole text exceed the limit is rejected, without effect on later ones.
"""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import UNSET

from apportion.core.errors import ErrorCode, EventError, unknown
from apportion.core.events import MAX_INTEGER, Candidate, ContextRequest
from apportion.core.results import Reason
from apportion.core.strategies.categories.policy import SMALLEST_TOTAL_TOKENS, CategoriesPolicy
from apportion.core.strategies.categories.rank import SCORE_PARTS, rank
from apportion.core.strategies.categories.select import certified, select
from apportion.core.strategy_api.levers import Ceiling, Levers, Meaning, ScoreField
from apportion.core.strategy_api.strategy import CandidateNeeds, mark_superseded, missing
from apportion.core.strategy_api.task import SessionPart, Task
from apportion.core.strategy_api.verdict import GroupBounds, Verdicts, mark_repeats

RANKED_BY = ("relevance", "created_at", "weighted_agreement")
"""The fields that give a priority if the candidate has none."""
_SCORES = (ScoreField("priority", most=1 << 30), ScoreField("relevance"))
"""The highest priority tried is far above every product of relevance, recency and diversity."""


class CategoriesStrategy:
    """The strategy `categories`; the module's docstring has its rules."""

    name = "categories"
    policy_type = CategoriesPolicy
    reads: ClassVar = frozenset({"budget_tokens", "candidates", "constraints.must_exclude"})
    needs: ClassVar = frozenset({"candidates"})
    candidate_needs: ClassVar = CandidateNeeds(("content", "category"), (("priority",), RANKED_BY))
    meanings: ClassVar[Mapping[Reason, Meaning]] = {
        Reason.CATEGORY_BUDGET_REACHED: Meaning(
            "its category could not pay for it, nor what it may draw on beside"
        )
    }

    def levers(self, policy: CategoriesPolicy, group: str) -> Levers:
        """Return the scores and the category's budget, which may grow by the unassigned tokens.

        If the total is 0, the budget may grow without bound. An unknown category has no budget.
        """
        if group not in policy.categories:
            return Levers(scores=_SCORES)
        now, total = policy.categories[group].budget_tokens, policy.budget_tokens
        parts = sum(category.budget_tokens for category in policy.categories.values())
        left = max(0, total - parts - (policy.reserve.tokens or 0))
        keys = ("categories", group, "budget_tokens")
        return Levers(Ceiling(keys, now, now + left if total else MAX_INTEGER), _SCORES)

    def unsuitable(self, candidate: Candidate, policy: CategoriesPolicy) -> EventError | None:
        """Return an error if a field of the candidate is missing, or if its category is unknown."""
        if candidate.content is UNSET or candidate.category is UNSET:
            return missing(candidate, self.candidate_needs.every)
        if candidate.category not in policy.categories:
            message = unknown("category", policy.name, policy.categories)
            return EventError(ErrorCode.UNKNOWN_CATEGORY, message, ".category")
        if candidate.priority is UNSET:
            for field in RANKED_BY:
                if getattr(candidate, field) is UNSET:
                    message = "give priority, or relevance, created_at and weighted_agreement"
                    return EventError(ErrorCode.MISSING_FIELD, message, f".{field}")
        return None

    def read_own(self, request: ContextRequest, session: SessionPart) -> None:
        """Return None: the strategy reads no other fields."""

    def compose(self, task: Task[CategoriesPolicy, None]) -> Verdicts:
        """Select by category while the text fits; raise EventError for a total from 1 to 99."""
        if 0 < task.total_tokens < SMALLEST_TOTAL_TOKENS:
            message = f"strategy categories shares out {SMALLEST_TOTAL_TOKENS} tokens or more; 0 disables"
            raise EventError(ErrorCode.INVALID_VALUE, message, "$.budget_tokens")
        budgets, reserve_tokens = task.policy.parts(task.total_tokens)
        ranked = rank(task, list(budgets))
        mark_superseded(ranked)
        mark_repeats(ranked)
        bounds = [GroupBounds(name, 0, budget) for name, budget in budgets.items()]
        if not task.limit_tokens:
            return Verdicts(
                verdicts=ranked, score_parts=SCORE_PARTS, groups=bounds, reserved_tokens=reserve_tokens
            )
        queue = [contender for contender in ranked if contender.bound is None]
        text, used_tokens = select(queue, budgets, reserve_tokens, task)
        standing = [contender for contender in queue if contender.fidelity is not None]
        own_tokens = task.count_contents([contender.prepared for contender in standing])
        for contender, tokens in zip(standing, own_tokens, strict=True):
            contender.tokens = tokens
        return Verdicts(
            verdicts=ranked,
            score_parts=SCORE_PARTS,
            groups=bounds,
            standing=standing,
            text=text,
            used_tokens=used_tokens,
            reserved_tokens=reserve_tokens,
            certificate=certified(queue, budgets, reserve_tokens, task),
        )
