"""Changes to a request, and the difference each would have made.

Decides what a change replaces, and what counts as gained, lost, shrunk, grown and reordered. Pure: it sees
two compositions of one request, and composes nothing.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import TypeAlias

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.compose import Answered
from apportion.core.events import Constraint, Constraints, ContextRequest, Match, MatchType, Opt
from apportion.core.results import (
    ComposedItem,
    ContextComposed,
    ContextDecision,
    Failure,
    Fidelity,
    Reason,
    Result,
    Status,
    WindowBreak,
)
from apportion.core.strategies import STRATEGIES, parse_policy
from apportion.core.strategy_api.policy import Policy
from apportion.core.text.tokens import CounterName

_FULLEST_FIRST = (
    Fidelity.FULL,
    Fidelity.EXCERPT,
    Fidelity.SHRUNK,
    Fidelity.TRUNCATED,
    Fidelity.SUMMARY,
    Fidelity.NAME,
    Fidelity.CLEARED,
)

_Numbered: TypeAlias = dict[tuple[str, int], ComposedItem]


class Change(Struct, frozen=True):
    """What is replaced in every request and its policy; what is None or empty stays.

    `policy` stands in the place of all versions of its name; if no policy has its name, of all policies of
    its strategy. `budget_tokens` is what every request asks for, and gets whatever a policy allows; the
    session's limits stay. `without` are kinds and lanes that are excluded; what has neither stays.
    `without_query` empties the query; a candidate without a relevance of its own then has 0.
    """

    policy: Policy | None = None
    budget_tokens: int | None = None
    counter: CounterName | None = None
    without: tuple[str, ...] = ()
    without_query: bool = False

    def policy_for(self, recorded: Policy, known: Collection[str]) -> Policy:
        """Return the policy in the place of the recorded one; `known` are the names of all policies."""
        policy = self._replaced(recorded, known)
        keys: dict[str, object] = {}
        if self.budget_tokens is not None and policy.budget_tokens_max:
            keys |= {"budget_tokens_max": 0}
        if self.counter is not None:
            keys |= {"counter": self.counter}
        if not keys:
            return policy
        return parse_policy(policy.model_dump(mode="json", exclude_unset=True) | keys)

    def request_for(self, request: ContextRequest, policy: Policy) -> ContextRequest:
        """Return the request as it is composed under the policy that `policy_for` gave."""
        if self.budget_tokens is not None:
            request = replace(request, budget_tokens=self.budget_tokens)
        if self.without_query and request.query is not UNSET:
            request = replace(request, query="")
        if self.without and "constraints.must_exclude" in STRATEGIES[policy.strategy].reads:
            given = Constraints() if request.constraints is UNSET else request.constraints
            own = tuple(
                Constraint(Match(each, name))
                for name in self.without
                for each in (MatchType.KIND, MatchType.LANE)
            )
            request = replace(request, constraints=replace(given, must_exclude=given.must_exclude + own))
        return request

    def _replaced(self, recorded: Policy, known: Collection[str]) -> Policy:
        if self.policy is None:
            return recorded
        if self.policy.name in known:
            return self.policy if recorded.name == self.policy.name else recorded
        return self.policy if recorded.strategy == self.policy.strategy else recorded


class Moved(Struct, frozen=True, omit_defaults=True):
    """What stands in one of two contexts; `reason` is why it does not in the other, if that is listed."""

    id: str
    kind: str
    group: str
    tokens: int
    reason: Opt[Reason] = UNSET


class Resized(Struct, frozen=True):
    """What stands in both, at another size."""

    id: str
    kind: str
    group: str
    fidelity_before: Fidelity
    fidelity_after: Fidelity
    tokens_before: int
    tokens_after: int


class AnswerSide(Struct, frozen=True, omit_defaults=True):
    """The answer to a request before the change, or after it.

    `held` is how many tokens of an unchanged beginning a provider's cache can serve.
    """

    status: Status
    counter: str
    limit: int
    used: int
    held: int = 0


class DecisionDifference(Result, frozen=True, kw_only=True):
    """What a change makes of one decision. What is gained and grown stands in the order of the new context.

    `reordered`: those that stand in both stand in another order. `rewritten`: the same stands in both at the
    same size and in the same order, and yet the text differs.
    """

    decision_id: str
    before: AnswerSide
    after: AnswerSide
    gained: tuple[Moved, ...] = ()
    lost: tuple[Moved, ...] = ()
    shrunk: tuple[Resized, ...] = ()
    grown: tuple[Resized, ...] = ()
    reordered: bool = False
    rewritten: bool = False

    @property
    def is_change(self) -> bool:
        """Whether another context goes out, or the request is answered otherwise."""
        moved = self.gained or self.lost or self.shrunk or self.grown or self.reordered or self.rewritten
        return bool(moved) or self.before.status is not self.after.status

    @property
    def weight(self) -> tuple[int, int]:
        """How large the change is, for an order: in tokens, then in items that came, went or were resized."""
        moved = (self.gained, self.lost, self.shrunk, self.grown)
        return abs(self.after.used - self.before.used), sum(map(len, moved))

    def __str__(self) -> str:
        parts = []
        if self.before.status is not self.after.status:
            parts.append(f"{self.before.status} > {self.after.status}")
        for what in ("gained", "lost", "shrunk", "grown"):
            moved = getattr(self, what)
            if moved:
                parts.append(f"{len(moved):,} {what}{_reasons(moved) if what == 'lost' else ''}")
        parts += [what for what in ("reordered", "rewritten") if getattr(self, what)]
        return ", ".join(parts) or "unchanged"


class Misfit(Struct, frozen=True):
    """A decision whose request is refused under the change, and why."""

    decision_id: str
    error: Failure


def difference(recorded: Answered, changed: Answered) -> DecisionDifference:
    """Return what a change makes of one request; the decision is called as it was recorded.

    Tokens tell a size only if both were counted alike. What was answered before is as it was.
    """
    before, after = recorded.composed, changed.composed
    alike = before.tokens.counter == after.tokens.counter
    old, new = _numbered(before.items), _numbered(after.items)
    both = [(old[key], item) for key, item in new.items() if key in old]
    shrunk = tuple(_resized(*pair) for pair in both if _growth(*pair, alike=alike) < 0)
    grown = tuple(_resized(*pair) for pair in both if _growth(*pair, alike=alike) > 0)
    gained = _moved((item for key, item in new.items() if key not in old), recorded)
    lost = _moved((item for key, item in old.items() if key not in new), changed)
    reordered = [key for key in old if key in new] != [key for key in new if key in old]
    is_same = not (gained or lost or shrunk or grown or reordered)
    return DecisionDifference(
        decision_id=before.decision_id,
        before=_side(recorded),
        after=_side(changed),
        gained=gained,
        lost=lost,
        shrunk=shrunk,
        grown=grown,
        reordered=reordered,
        rewritten=is_same and _written(before) != _written(after),
    )


def _side(answered: Answered) -> AnswerSide:
    tokens = answered.composed.tokens
    held = held_tokens(answered.decision)
    return AnswerSide(answered.composed.status, tokens.counter, tokens.limit, tokens.used, held)


def held_tokens(decision: ContextDecision) -> int:
    """Return the tokens of an unchanged beginning that a provider's cache can serve."""
    prefix, window = decision.prefix, decision.window
    if prefix is not UNSET and not prefix.cold:
        return prefix.prefix_tokens
    if window is not UNSET and window.broken is not WindowBreak.TTL_EXPIRED:
        return window.tokens
    return 0


def _written(composed: ContextComposed) -> tuple[object, ...]:
    return composed.text, composed.system_prompt, composed.messages


def _numbered(items: Iterable[ComposedItem]) -> _Numbered:
    """Return the items by id, and by how often the id came before."""
    often: Counter[str] = Counter()
    numbered: _Numbered = {}
    for item in items:
        numbered[item.id, often[item.id]] = item
        often[item.id] += 1
    return numbered


def _growth(before: ComposedItem, after: ComposedItem, *, alike: bool) -> int:
    """Return by how much an item grew: above 0, at 0 or below. What is full in both is not another."""
    if before.fidelity is not after.fidelity:
        return _FULLEST_FIRST.index(before.fidelity) - _FULLEST_FIRST.index(after.fidelity)
    is_cut = after.fidelity is not Fidelity.FULL
    return after.tokens - before.tokens if alike and is_cut else 0


def _moved(items: Iterable[ComposedItem], other: Answered) -> tuple[Moved, ...]:
    """Return the items with why they do not stand in the other context.

    An id that came several times is out for what the first of them by rank is, not for coming again.
    """
    moved = tuple(items)
    if not moved:
        return ()
    reasons = {
        entry.id: entry.reason
        for entry in reversed(other.decision.candidates)
        if entry.reason is not Reason.DUPLICATE or other.composed.status is Status.DUPLICATE
    }
    return tuple(
        Moved(item.id, item.kind, item.group, item.tokens, reasons.get(item.id, UNSET)) for item in moved
    )


def _resized(before: ComposedItem, after: ComposedItem) -> Resized:
    own = after.id, after.kind, after.group
    return Resized(*own, before.fidelity, after.fidelity, before.tokens, after.tokens)


def _reasons(lost: Iterable[Moved]) -> str:
    """Return why, as ` (no_room 2)`: most first, ties by name."""
    counts = Counter(str(each.reason) for each in lost if each.reason is not UNSET)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return f" ({', '.join(f'{reason} {count:,}' for reason, count in ordered)})" if ordered else ""
