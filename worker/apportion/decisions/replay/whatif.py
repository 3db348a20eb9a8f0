"""Changes to requests and policies, and the differences between two compositions of one request."""

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

_FULLEST_FIRST = (
    Fidelity.FULL,
    Fidelity.EXCERPT,
    Fidelity.SHRUNK,
    Fidelity.TRUNCATED,
    Fidelity.SHORTENED,
    Fidelity.SUMMARY,
    Fidelity.NAME,
    Fidelity.CLEARED,
)

_Numbered: TypeAlias = dict[tuple[str, int], ComposedItem]


class Change(Struct, frozen=True):
    """Replacements in every request and its policy; None or empty replaces nothing.

    - `policy`: replaces every version of that name; if no policy has the name, every policy of its strategy.
    - `budget_tokens`: the budget of every request, even above a policy's maximum; the session's limits stay.
    - `counter`: the `counter` of every policy; `model` counts by the model of each request.
    - `without`: kinds and lanes of the candidates to exclude.
    - `without_query`: empties the query; the relevance of a candidate without its own score is then 0.
    - `without_tools`: removes the tools and the choice of a tool.
    """

    policy: Policy | None = None
    budget_tokens: int | None = None
    counter: str | None = None
    without: tuple[str, ...] = ()
    without_query: bool = False
    without_tools: bool = False

    def policy_for(self, recorded: Policy, known: Collection[str]) -> Policy:
        """Return the policy that replaces the recorded one; `known` are the names of all policies."""
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
        """Return the changed request, for the policy that `policy_for` returned."""
        if self.budget_tokens is not None:
            request = replace(request, budget_tokens=self.budget_tokens)
        if self.without_query and request.query is not UNSET:
            request = replace(request, query="")
        if self.without_tools and request.tools is not UNSET:
            request = replace(request, tools=UNSET, tool_choice=UNSET)
        if self.without and "constraints.must_exclude" in STRATEGIES[policy.strategy].reads:
            given = Constraints() if request.constraints is UNSET else request.constraints
            types = (MatchType.KIND, MatchType.LANE)
            own = tuple(Constraint(Match(match, name)) for name in self.without for match in types)
            request = replace(request, constraints=replace(given, must_exclude=given.must_exclude + own))
        return request

    def _replaced(self, recorded: Policy, known: Collection[str]) -> Policy:
        if self.policy is None:
            return recorded
        if self.policy.name in known:
            return self.policy if recorded.name == self.policy.name else recorded
        return self.policy if recorded.strategy == self.policy.strategy else recorded


class Moved(Struct, frozen=True, omit_defaults=True):
    """An item of only one of the two contexts; `reason` is why the other omits it, if that is listed."""

    id: str
    kind: str
    group: str
    tokens: int
    reason: Opt[Reason] = UNSET


class Resized(Struct, frozen=True):
    """An item of both contexts, with another size."""

    id: str
    kind: str
    group: str
    fidelity_before: Fidelity
    fidelity_after: Fidelity
    tokens_before: int
    tokens_after: int


class AnswerSide(Struct, frozen=True, omit_defaults=True):
    """The answer to a request before or after the change, in tokens; see `held_tokens` for `held`."""

    status: Status
    counter: str
    limit: int
    used: int
    held: int = 0


class DecisionDifference(Result, frozen=True, kw_only=True):
    """The difference that a change makes to one decision.

    - `gained`, `lost`: items only of the new context, and only of the old one, in its order.
    - `shrunk`, `grown`: items of both contexts with another size, in the order of the new context.
    - `reordered`: the items of both contexts have another order.
    - `rewritten`: the text differs, although all items, sizes and their order are equal.
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
        """True if the context or the status differs."""
        moved = self.gained or self.lost or self.shrunk or self.grown or self.reordered or self.rewritten
        return bool(moved) or self.before.status is not self.after.status

    @property
    def weight(self) -> tuple[int, int]:
        """The size of the change, for sorting: in tokens, then in items gained, lost or resized."""
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
    """A decision for which the request is refused under the change, with the error."""

    decision_id: str
    error: Failure


def difference(recorded: Answered, changed: Answered) -> DecisionDifference:
    """Return the difference between the recorded and the changed answer, with the recorded decision's id.

    Sizes in tokens are compared only if both answers use the same counter.
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
    """Return the number of tokens in the unchanged beginning, which a provider's cache can serve."""
    prefix, window = decision.prefix, decision.window
    if prefix is not UNSET and not prefix.cold:
        return prefix.prefix_tokens
    if window is not UNSET and window.broken is not WindowBreak.TTL_EXPIRED:
        return window.tokens
    return 0


def _written(composed: ContextComposed) -> tuple[object, ...]:
    return composed.text, composed.system_prompt, composed.messages


def _numbered(items: Iterable[ComposedItem]) -> _Numbered:
    """Return the items by id and number of earlier items with that id."""
    counts: Counter[str] = Counter()
    numbered: _Numbered = {}
    for item in items:
        numbered[item.id, counts[item.id]] = item
        counts[item.id] += 1
    return numbered


def _growth(before: ComposedItem, after: ComposedItem, *, alike: bool) -> int:
    """Return a number above 0 if an item grew, below 0 if it shrank, else 0.

    Fidelities are compared first, then tokens, unless both are full or the counters differ.
    """
    if before.fidelity is not after.fidelity:
        return _FULLEST_FIRST.index(before.fidelity) - _FULLEST_FIRST.index(after.fidelity)
    is_cut = after.fidelity is not Fidelity.FULL
    return after.tokens - before.tokens if alike and is_cut else 0


def _moved(items: Iterable[ComposedItem], other: Answered) -> tuple[Moved, ...]:
    """Return the items with the reasons why the other context omits them.

    If an id has several candidates, the reason of the first by rank counts, and not those of its duplicates.
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
    """Return the reasons, such as ` (no_room 2)`, by descending count, then by name."""
    counts = Counter(str(item.reason) for item in lost if item.reason is not UNSET)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return f" ({', '.join(f'{reason} {count:,}' for reason, count in ordered)})" if ordered else ""
