"""Selection in categories: what each candidate's category, the reserve and the limit can pay for.

Decides by cost first, then by the count of the text as it would be with the candidate. That is reckoned on
the end of the text, from its last seam on, and no more than its last code points; what comes out is counted
itself (see `docs/adr/0009-bounded-work.md`).
"""

from collections.abc import Mapping

from msgspec import UNSET

from apportion.core.cut import largest
from apportion.core.render import SEPARATOR, join
from apportion.core.results import Fidelity
from apportion.core.seams import end_of, stands_apart
from apportion.core.strategies.categories.policy import CategoriesPolicy, Overflow
from apportion.core.strategies.categories.rank import Contender
from apportion.core.task import Task
from apportion.core.tokens import Units, units_of
from apportion.core.verdict import Bound


def select(
    queue: list[Contender], budgets: Mapping[str, int], reserve_tokens: int, task: Task[CategoriesPolicy]
) -> tuple[str, int]:
    """Select from the candidates in their order; return their text and its exact count."""
    _estimate(queue, task)
    purse = _Purse(task.policy, budgets, reserve_tokens, task.limit_tokens)
    units = units_of(task.counter)
    text = _GrowingText(units)
    for one in queue:
        if purse.affords(one):
            longer_units = text.units_with(one.prepared.content)
            longer_tokens = units.tokens(longer_units)
            if longer_tokens <= task.limit_tokens:
                purse.pay(one)
                text.add(one.prepared.content, longer_units)
            else:
                tokens = units.tokens(text.units)
                one.refuse(Bound.LIMIT, longer_tokens - tokens, task.limit_tokens - tokens)
    return _counted([one for one in queue if one.fidelity is not None], task)


def _estimate(queue: list[Contender], task: Task[CategoriesPolicy]) -> None:
    """Set the cost of each candidate that can still be chosen."""
    unknown = [one.prepared for one in queue if one.prepared.facts.token_estimate is UNSET]
    counts = iter(task.count_contents(unknown))
    for one in queue:
        one.cost = one.prepared.facts.token_estimate or next(counts)


def _counted(standing: list[Contender], task: Task[CategoriesPolicy]) -> tuple[str, int]:
    """Return the text of what was selected, and its count; where it passes the limit, the last of it go.

    Bisection finds how many. None have to go where units add up as far as `_GrowingText` looks; the limit
    holds with any counter.
    """
    tokens = [0] * (len(standing) + 1)

    def fits(kept: int) -> bool:
        tokens[kept] = task.counter.count(join(one.prepared.content for one in standing[:kept]))
        return tokens[kept] <= task.limit_tokens

    kept = len(standing)
    if not fits(kept):
        kept = largest(kept - 1, fits)
        for one in standing[kept:]:
            one.refuse(Bound.LIMIT, tokens[kept + 1], task.limit_tokens)
    return join(one.prepared.content for one in standing[:kept]), tokens[kept]


class _Purse:
    """What is left to spend, by cost: of the categories' budgets, of the reserve, of the limit."""

    def __init__(
        self, policy: CategoriesPolicy, budgets: Mapping[str, int], reserve_tokens: int, limit_tokens: int
    ) -> None:
        self._categories = policy.categories
        self._draws_on_all = policy.reserve.overflow is Overflow.ANY
        self._budgets = dict(budgets)
        self._reserve_tokens = reserve_tokens
        self._limit_tokens = limit_tokens

    def affords(self, one: Contender) -> bool:
        """Tell whether a candidate can be paid for; where not, leave in it why."""
        in_reach = self._budgets[one.group]
        may_overflow = self._categories[one.group].may_overflow
        if may_overflow:
            in_reach += self._reserve_tokens
        if one.cost > in_reach and not (may_overflow and self._draws_on_all):
            one.refuse(Bound.CATEGORY, one.cost, in_reach)
        elif one.cost > self._limit_tokens:
            one.refuse(Bound.LIMIT, one.cost, self._limit_tokens)
        else:
            return True
        return False

    def pay(self, one: Contender) -> None:
        """Select a candidate that can be paid for."""
        above = max(0, one.cost - self._budgets[one.group])
        self._budgets[one.group] -= one.cost - above
        if not self._draws_on_all:
            self._reserve_tokens -= above
        self._limit_tokens -= one.cost
        one.stand(Fidelity.FULL)


class _GrowingText:
    """The units of a text to which one piece after another is joined.

    What stands after its last seam is all that a next piece can change. No more than its last code points
    are looked at for that (see `core.seams.REACH`).
    """

    def __init__(self, units: Units) -> None:
        """Start empty."""
        self.units = 0
        self._units_of = units.of
        self._end = ""
        self._end_units = 0
        self._before_end_units = 0

    def units_with(self, piece: str) -> int:
        """Return what the units would be with one more piece."""
        if stands_apart(self._end.rstrip("\n"), piece):
            return self._before_end_units + self._end_units + self._units_of(piece)
        return self._before_end_units + self._units_of(self._end + piece)

    def add(self, piece: str, units: int) -> None:
        """Join a piece, with which the units are these."""
        end = end_of(self._end + piece)
        self.units = units
        self._before_end_units = units - self._units_of(end)
        self._end = end + SEPARATOR
        self._end_units = self._units_of(self._end)
