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
  after it are considered as if it had never been there. To find it without counting every text on the way,
  all candidates are tried first, then one, two, four, … on top of what is known to fit: with a counter whose
  counts fall while a text grows, "would pass" holds along this path.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, ClassVar

from msgspec import UNSET, Struct
from msgspec.structs import replace
from pydantic import Field

from worker.core.candidates import Prepared
from worker.core.errors import ErrorCode, EventError
from worker.core.events import MAX_INTEGER, Candidate, ContextRequest, Opt
from worker.core.identity import event_time_us
from worker.core.policy import Count, Policy, Problem, Table, integer
from worker.core.render import join
from worker.core.results import ComposedItem, Entry, Fidelity, Group, Margin, Outcome, Reason, Status
from worker.core.strategies.base import Composition, Task, mark_repeats, missing, withhold

DEFAULT_TOTAL_TOKENS = 1_200
SMALLEST_TOTAL_TOKENS = 100

_AGE_EDGES_US = tuple(hours * 3_600_000_000 for hours in (1, 24, 7 * 24, 30 * 24))
_RECENCY = (1_300, 1_200, 1_100, 1_000, 800)
_AGREEMENT_EDGES = (1_000, 2_500, 5_000)
_DIVERSITY = (800, 1_000, 1_200, 1_500)
"""Thousandths, like recency: the first below the first edge, the last at the last edge and above."""


class Overflow(StrEnum):
    """What a category that may overflow can draw on: the reserve alone, or all that is left."""

    RESERVE = "reserve"
    ANY = "any"


class CategoryPolicy(Table):
    """`[categories.NAME]`: the lowest priority is first."""

    priority: Count
    budget_tokens: Count
    may_overflow: bool = False


class ReservePolicy(Table):
    """`[reserve]`: without `tokens`, it is what the categories leave of the total."""

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
    categories: dict[str, CategoryPolicy] = Field(DEFAULT_CATEGORIES, min_length=1, validate_default=True)
    reserve: ReservePolicy = ReservePolicy()

    def parts(self, total_tokens: int) -> tuple[dict[str, int], int]:
        """Return the categories' budgets, by priority, and the reserve at that total."""
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
        """Yield totals that are too small, shared priorities, and parts that pass the total."""
        yield from super().cross_check(raw)
        whole = {"budget_tokens": DEFAULT_TOTAL_TOKENS, "categories": DEFAULT_CATEGORIES, **raw}
        for key in ("budget_tokens", "budget_tokens_max"):
            if 0 < (integer(whole, key) or 0) < SMALLEST_TOTAL_TOKENS:
                yield Problem(key, f"at least {SMALLEST_TOTAL_TOKENS}, or 0")
        categories = whole["categories"] if isinstance(whole["categories"], Mapping) else {}
        owners: dict[int, str] = {}
        for name, category in categories.items():
            priority = integer(category, "priority")
            if priority is not None and owners.setdefault(priority, name) != name:
                reason = f"category {owners[priority]} has the same; priorities must differ"
                yield Problem(f"categories.{name}.priority", reason)
        total = integer(whole, "budget_tokens") or 0
        parts = sum(integer(category, "budget_tokens") or 0 for category in categories.values())
        parts += integer(raw.get("reserve"), "tokens") or 0
        if 0 < total < parts:
            reason = f"the categories' budgets and the reserve add up to {parts}, above the total {total}"
            yield Problem("budget_tokens", reason)


class _Ranked(Struct, gc=False):
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


class Categories:
    """The strategy; see the module."""

    name = "categories"
    policy_type = CategoriesPolicy
    reads: ClassVar = frozenset({"candidates", "constraints.must_exclude"})
    needs: ClassVar = frozenset({"candidates"})

    def unsuitable(self, candidate: Candidate, policy: CategoriesPolicy) -> EventError | None:
        """Return why this candidate cannot be used: a field is missing, or its category is unknown."""
        if candidate.content is UNSET or candidate.category is UNSET:
            return missing(candidate, ("content", "category"))
        if candidate.category not in policy.categories:
            message = f"policy {policy.name} has no such category"
            return EventError(ErrorCode.UNKNOWN_CATEGORY, message, ".category")
        if candidate.priority is UNSET:
            for field in ("relevance", "created_at", "weighted_agreement"):
                if getattr(candidate, field) is UNSET:
                    message = "give priority, or relevance, created_at and weighted_agreement"
                    return EventError(ErrorCode.MISSING_FIELD, message, f".{field}")
        return None

    def compose(self, task: Task[CategoriesPolicy]) -> Composition:
        """Choose by category, then keep what fits as a text; nothing is protected."""
        budgets, reserve_tokens = task.policy.parts(_total_tokens(task.request, task.policy))
        ranked = _rank(task, {name: place for place, name in enumerate(budgets)})
        mark_repeats(ranked)
        if task.withheld is not None:
            withhold(ranked, task.withheld)
        queue = [one for one in ranked if one.reason is None]
        _estimate(queue, task)
        purse = _Purse(task.policy, budgets, reserve_tokens, task.limit_tokens)
        text, used_tokens = _select(queue, purse, task)
        standing = [one for one in queue if one.selected]
        own_tokens = task.count_contents([one.prepared for one in standing])
        for one, tokens in zip(standing, own_tokens, strict=True):
            one.tokens = tokens
        return Composition(
            status=Status.COMPOSED if standing else Status.EMPTY,
            text=text,
            items=tuple(_item(one, one.prepared) for one in standing),
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


def _rank(task: Task[CategoriesPolicy], places: Mapping[str, int]) -> list[_Ranked]:
    now_us = event_time_us(task.request.requested_at)
    ranked = [
        _Ranked(one, one.candidate.category or "", *_priority(one.rounded, now_us), one.omitted)
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


def _estimate(queue: list[_Ranked], task: Task[CategoriesPolicy]) -> None:
    """Set the cost of each candidate that can still be chosen."""
    unknown = [one.prepared for one in queue if one.prepared.candidate.token_estimate is UNSET]
    counts = iter(task.count_contents(unknown))
    for one in queue:
        one.cost = one.prepared.candidate.token_estimate or next(counts)


class _Purse(Struct, frozen=True):
    """What is left to spend, by cost: of the categories' budgets, of the reserve, of the limit."""

    policy: CategoriesPolicy
    budgets: Mapping[str, int]
    reserve_tokens: int
    limit_tokens: int

    def after(self, one: _Ranked) -> "_Purse":
        """Select a candidate and return what is left; or leave in it why that cannot be."""
        own_left = self.budgets[one.category]
        above = max(0, one.cost - own_left)
        may_overflow = self.policy.categories[one.category].may_overflow
        anything = may_overflow and self.policy.reserve.overflow is Overflow.ANY
        in_reach = own_left + self.reserve_tokens if may_overflow else own_left
        if one.cost > in_reach and not anything:
            one.refuse(Reason.CATEGORY_BUDGET_REACHED, one.cost, in_reach)
            return self
        if one.cost > self.limit_tokens:
            one.refuse(Reason.BUDGET_EXCEEDED, one.cost, self.limit_tokens)
            return self
        one.selected, one.reason, one.margin = True, None, None
        return replace(
            self,
            budgets={**self.budgets, one.category: own_left - one.cost + above},
            reserve_tokens=self.reserve_tokens if anything else self.reserve_tokens - above,
            limit_tokens=self.limit_tokens - one.cost,
        )


def _select(queue: list[_Ranked], purse: _Purse, task: Task[CategoriesPolicy]) -> tuple[str, int]:
    """Select from the candidates in their order; return their text and its exact count."""
    pieces: list[str] = []
    text, tokens, place, stretch = "", 0, 0, max(1, len(queue))
    while place < len(queue):
        trial, end, taken = purse, place, list[_Ranked]()
        while end < len(queue) and len(taken) < stretch:
            trial = trial.after(queue[end])
            if queue[end].selected:
                taken.append(queue[end])
            end += 1
        longer = join([*pieces, *(one.prepared.content for one in taken)])
        needed = task.counter.count(longer) if taken else tokens
        if needed <= task.limit_tokens:
            pieces += (one.prepared.content for one in taken)
            text, tokens, purse, place, stretch = longer, needed, trial, end, 2 * stretch
        elif stretch > 1:
            stretch = 1
        else:
            taken[0].refuse(Reason.BUDGET_EXCEEDED, needed - tokens, task.limit_tokens - tokens)
            place = end
    return text, tokens


def _item(one: _Ranked, prepared: Prepared) -> ComposedItem:
    group, fidelity = one.category, Fidelity.FULL
    return ComposedItem(id=prepared.id, kind=prepared.kind, group=group, fidelity=fidelity, tokens=one.tokens)


def _entry(place: int, one: _Ranked) -> Entry:
    return Entry(
        one.prepared.id,
        one.prepared.kind,
        one.category,
        place,
        Outcome.SELECTED if one.selected else Outcome.OMITTED,
        min(one.score, MAX_INTEGER),
        one.parts,
        one.tokens if one.selected else one.tokens or one.cost or UNSET,
        Fidelity.FULL if one.selected else UNSET,
        one.reason or UNSET,
        one.margin or UNSET,
        one.prepared.constraint or UNSET,
    )


def _group(name: str, budget: int, ranked: list[_Ranked]) -> Group:
    mine = [one for one in ranked if one.category == name]
    cost = sum(one.cost for one in mine)
    used = [one.tokens for one in mine if one.selected]
    rejected = len(mine) - len(used)
    return Group(
        name=name, min=0, max=budget, used=sum(used), available=cost, selected=len(used), rejected=rejected
    )
