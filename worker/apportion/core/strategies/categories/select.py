"""Selection in categories: candidates that their category, the reserve and the limit can pay for."""

from bisect import bisect, insort
from collections.abc import Mapping, Sequence
from itertools import groupby

from msgspec import UNSET

from apportion.core.overlap.selection_order import Canonical, Discounted, Order
from apportion.core.results import Certificate, Fidelity
from apportion.core.strategies.categories.policy import CategoriesPolicy, Overflow
from apportion.core.strategies.categories.rank import Contender
from apportion.core.strategy_api.certificate import BoundedChoice, Cap, certify
from apportion.core.strategy_api.strategy import set_costs
from apportion.core.strategy_api.task import Task
from apportion.core.strategy_api.verdict import Bound, mark_covered
from apportion.core.text import join
from apportion.core.text.cut import largest
from apportion.core.text.piecewise_count import Joined
from apportion.core.text.tokens import Units, units_of


def select(
    queue: list[Contender],
    budgets: Mapping[str, int],
    reserve_tokens: int,
    task: Task[CategoriesPolicy, None],
) -> tuple[str, int]:
    """Select from the candidates, category by category; return the selected text and its exact count."""
    set_costs(queue, task.count_contents)
    purse = _Purse(task.policy, budgets, reserve_tokens, task.limit_tokens)
    prepared = [contender.prepared for contender in queue]
    priorities = [contender.priority for contender in queue]
    threshold = task.policy.overlap.threshold
    order: Order = Canonical(priorities)
    if threshold:
        order = Discounted(task.overlap_of(prepared, threshold), priorities)

    known = [each.cost if each.prepared.facts.token_estimate is UNSET else None for each in queue]
    text = _GrowingText([each.labelled for each in prepared], known, units_of(task.counter))
    for _, indexes in groupby(range(len(queue)), key=lambda index: queue[index].group):
        for index in order.arrange(list(indexes)):
            contender = queue[index]
            if index in order.redundant:
                contender.bound = Bound.REDUNDANCY
            elif purse.affords(contender):
                longer_tokens = text.tokens_with(index)
                if longer_tokens <= task.limit_tokens:
                    purse.pay(contender)
                    text.add(index)
                    order.taken(index)
                else:
                    tokens = text.tokens()
                    contender.refuse(Bound.LIMIT, longer_tokens - tokens, task.limit_tokens - tokens)
    mark_covered(queue, order.covered)
    return _counted([contender for contender in queue if contender.fidelity is not None], task)


def certified(
    queue: Sequence[Contender],
    budgets: Mapping[str, int],
    reserve_tokens: int,
    task: Task[CategoriesPolicy, None],
) -> Certificate | None:
    """Return the certificate of a selection; None if the policy does not enable it."""
    policy = task.policy
    if not policy.certificate.enabled:
        return None
    caps = []
    for name, budget in budgets.items():
        most = budget
        if policy.categories[name].may_overflow:
            is_any = policy.reserve.overflow is Overflow.ANY
            most = task.limit_tokens if is_any else budget + reserve_tokens
        caps.append(Cap(name, 0, most))
    category_indexes = {name: index for index, name in enumerate(budgets)}
    choice = BoundedChoice(
        scores=[contender.priority for contender in queue],
        costs=[contender.cost for contender in queue],
        group_of=[category_indexes[contender.group] for contender in queue],
        taken=[contender.fidelity is not None for contender in queue],
        protected=(),
        caps=caps,
        limit_tokens=task.limit_tokens,
    )
    return certify(choice, undiscounted=bool(policy.overlap.threshold))


def _counted(standing: list[Contender], task: Task[CategoriesPolicy, None]) -> tuple[str, int]:
    """Return the text and its count; bisection rejects the last ones if the reckoned count was too low."""
    tokens = [0] * (len(standing) + 1)

    def fits(kept: int) -> bool:
        tokens[kept] = task.counter.count(join(contender.prepared.labelled for contender in standing[:kept]))
        return tokens[kept] <= task.limit_tokens

    kept = len(standing)
    if not fits(kept):
        kept = largest(kept - 1, fits)
        for contender in standing[kept:]:
            contender.refuse(Bound.LIMIT, tokens[kept + 1], task.limit_tokens)
    return join(contender.prepared.labelled for contender in standing[:kept]), tokens[kept]


class _Purse:
    """The unspent tokens of the categories' budgets, of the reserve, and of the limit."""

    def __init__(
        self, policy: CategoriesPolicy, budgets: Mapping[str, int], reserve_tokens: int, limit_tokens: int
    ) -> None:
        self._categories = policy.categories
        self._draws_on_all = policy.reserve.overflow is Overflow.ANY
        self._budgets = dict(budgets)
        self._reserve_tokens = reserve_tokens
        self._limit_tokens = limit_tokens

    def affords(self, contender: Contender) -> bool:
        """Return whether a candidate can be paid for; if not, set its bound and margin."""
        in_reach = self._budgets[contender.group]
        may_overflow = self._categories[contender.group].may_overflow
        if may_overflow:
            in_reach += self._reserve_tokens
        if contender.cost > in_reach and not (may_overflow and self._draws_on_all):
            contender.refuse(Bound.CATEGORY, contender.cost, in_reach)
        elif contender.cost > self._limit_tokens:
            contender.refuse(Bound.LIMIT, contender.cost, self._limit_tokens)
        else:
            return True
        return False

    def pay(self, contender: Contender) -> None:
        """Select a candidate that can be paid for."""
        above = max(0, contender.cost - self._budgets[contender.group])
        self._budgets[contender.group] -= contender.cost - above
        if not self._draws_on_all:
            self._reserve_tokens -= above
        self._limit_tokens -= contender.cost
        contender.stand(Fidelity.FULL)


class _GrowingText:
    """A text that starts empty, and its count; candidates are indexes in output order, added in any order."""

    def __init__(self, contents: Sequence[str], known: Sequence[int | None], units: Units) -> None:
        """`known` has the counts of the contents, None if a content was not counted."""
        self._contents = contents
        self._known = known
        self._units = units
        self._joined = Joined.empty(len(contents), units)
        self._added: list[int] = []
        self._tried: int | None = None

    def tokens(self) -> int:
        self._withdraw()
        return self._joined.tokens()

    def tokens_with(self, index: int) -> int:
        """Return the count with one more candidate; `add` keeps it in the text."""
        self._withdraw()
        after = bisect(self._added, index)
        before = self._added[after - 1] if after else None
        content, tokens = self._contents[index], self._known[index]
        tokens = self._units.of(content) if tokens is None else tokens
        self._joined.put_in(index, content, tokens, before)
        self._tried = index
        return self._joined.tokens()

    def add(self, index: int) -> None:
        assert self._tried == index, "it was tried last"
        insort(self._added, index)
        self._tried = None

    def _withdraw(self) -> None:
        if self._tried is not None:
            self._joined.take_out(self._tried)
            self._tried = None
