"""Strategy `categories`: which candidates, under budgets by category and a reserve.

Decides priority, order and selection; never changes a content. Source: the TokenBudgetManager
specification, whose numbers these are; where it contradicts itself, the rules here hold:

- Priority, in thousandths: the candidate's own, else relevance · recency · diversity, each in thousandths,
  the product rounded once, half up. Recency goes by age, a negative one being 0; diversity by weighted
  agreement. Order: category priority, priority descending, id, canonical JSON.
- Budgets are the policy's. Where a request sets another total t, each is floor(budget · t / total), and the
  reserve is the rest; a t from 1 to 99 is refused. A policy whose total is 0 scales by the sum of its parts.
- Cost: the candidate's `token_estimate`, else its count. In order, each one that its category's budget can
  pay is taken. A category that may overflow draws what is above its budget from the reserve alone
  (`overflow = "reserve"`) or from all that is left (`"any"`). The sum never passes the limit.
- Then the text counts, as a whole: a candidate with which it would pass the limit is left out, and those
  after it are considered as if it had never been there. What comes out was counted itself.
"""

from typing import ClassVar

from msgspec import UNSET

from apportion.core.errors import ErrorCode, EventError, unknown
from apportion.core.events import MAX_INTEGER, Candidate, ContextRequest
from apportion.core.results import ComposedItem, Entry, Fidelity, Group, Outcome, Status
from apportion.core.strategies.base import CandidateNeeds, Composition, Task, mark_repeats, missing, withhold
from apportion.core.strategies.categories.policy import SMALLEST_TOTAL_TOKENS, CategoriesPolicy
from apportion.core.strategies.categories.rank import Ranked, rank
from apportion.core.strategies.categories.select import select

RANKED_BY = ("relevance", "created_at", "weighted_agreement")
"""What a priority is made from where none is given."""
_SELECTED, _OMITTED, _FULL = Outcome.SELECTED, Outcome.OMITTED, Fidelity.FULL


class Categories:
    """The strategy; see the module."""

    name = "categories"
    policy_type = CategoriesPolicy
    reads: ClassVar = frozenset({"candidates", "constraints.must_exclude"})
    needs: ClassVar = frozenset({"candidates"})
    candidate_needs: ClassVar = CandidateNeeds(("content", "category"), (("priority",), RANKED_BY))

    def unsuitable(self, candidate: Candidate, policy: CategoriesPolicy) -> EventError | None:
        """Return why this candidate cannot be used: a field is missing, or its category is unknown."""
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

    def compose(self, task: Task[CategoriesPolicy]) -> Composition:
        """Choose by category, as long as the text fits; nothing is protected."""
        budgets, reserve_tokens = task.policy.parts(_total_tokens(task.request, task.policy))
        ranked = rank(task, {name: place for place, name in enumerate(budgets)})
        mark_repeats(ranked)
        if task.withheld is not None:
            withhold(ranked, task.withheld)
        queue = [one for one in ranked if one.reason is None]
        text, used_tokens = select(queue, budgets, reserve_tokens, task)
        standing = [one for one in queue if one.selected]
        own_tokens = task.count_contents([one.prepared for one in standing])
        for one, tokens in zip(standing, own_tokens, strict=True):
            one.tokens = tokens
        return Composition(
            status=Status.COMPOSED if standing else Status.EMPTY,
            text=text,
            items=tuple(_item(one) for one in standing),
            entries=[_entry(place, one) for place, one in enumerate(ranked, 1)],
            groups=tuple(_group(name, budget, ranked) for name, budget in budgets.items()),
            estimated_tokens=sum(one.cost for one in standing),
            used_tokens=used_tokens,
            reserved_tokens=reserve_tokens,
        )


def _total_tokens(request: ContextRequest, policy: CategoriesPolicy) -> int:
    """Return the configured total, which alone scales the budgets."""
    if request.budget_tokens is not UNSET and 0 < request.budget_tokens < SMALLEST_TOTAL_TOKENS:
        message = f"strategy categories shares out {SMALLEST_TOTAL_TOKENS} tokens or more; 0 disables"
        raise EventError(ErrorCode.INVALID_VALUE, message, "$.budget_tokens")
    return policy.total_tokens(request.budget_tokens)


def _item(one: Ranked) -> ComposedItem:
    prepared, group, fidelity = one.prepared, one.category, _FULL
    return ComposedItem(id=prepared.id, kind=prepared.kind, group=group, fidelity=fidelity, tokens=one.tokens)


def _entry(place: int, one: Ranked) -> Entry:
    return Entry(
        one.prepared.id,
        one.prepared.kind,
        one.category,
        place,
        _SELECTED if one.selected else _OMITTED,
        min(one.score, MAX_INTEGER),
        one.parts,
        one.tokens if one.selected else one.cost or UNSET,
        _FULL if one.selected else UNSET,
        one.reason or UNSET,
        one.margin or UNSET,
        one.prepared.constraint or UNSET,
    )


def _group(name: str, budget: int, ranked: list[Ranked]) -> Group:
    mine = [one for one in ranked if one.category == name]
    cost = sum(one.cost for one in mine)
    used = [one.tokens for one in mine if one.selected]
    rejected = len(mine) - len(used)
    return Group(
        name=name, min=0, max=budget, used=sum(used), available=cost, selected=len(used), rejected=rejected
    )
