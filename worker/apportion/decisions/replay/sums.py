"""Sums of differences: decisions, items by group and kind, tokens, and cost."""

from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from msgspec import UNSET, Struct, field
from msgspec.structs import astuple, replace

from apportion.core.events import Opt
from apportion.decisions.replay.findings import by_kind, counted
from apportion.decisions.replay.whatif import DecisionDifference, Misfit, Moved, Resized

_READ, _WRITTEN = Decimal("0.1"), Decimal("1.25")
"""Prices of a token that a provider's cache reads or writes, in multiples of an uncached token's price."""
_MOVES = ("gained", "lost", "shrunk", "grown")


class ItemFlow(Struct, frozen=True):
    """Items of one group or kind that a change moves or resizes, and the tokens that this adds or removes."""

    gained: int = 0
    lost: int = 0
    shrunk: int = 0
    grown: int = 0
    tokens_gained: int = 0
    tokens_lost: int = 0

    def __add__(self, other: "ItemFlow") -> "ItemFlow":
        return ItemFlow(*(ours + theirs for ours, theirs in zip(astuple(self), astuple(other), strict=True)))


class Sum(Struct, frozen=True, kw_only=True):
    """The sum of all differences of a replay.

    - `replayed`, `changed`: decisions that were replayed, and those among them that change.
    - `unverifiable`: decisions that are not composed as recorded, by kind of finding; in no other count.
    - `misfits`: decisions with a request that is refused under the change, by code; in no other count.
    - `in_flight`: recorded requests that may not be answered yet.
    - `gained`, `lost`, `shrunk`, `grown`: items, by what happens to them.
    - `reordered`: decisions in which items change their order.
    - `statuses`: changed statuses, such as `composed > exhausted`.
    - `tokens_before`, `tokens_after`: used tokens.
    - `held_before`, `held_after`: tokens of unchanged beginnings, which a provider's cache can serve.
    - `cost_before`, `cost_after`: exact costs in the unit of the price; unset without a price.
    - `cost_cached_before`, `cost_cached_after`: the same if a provider caches each text: a held token
      costs 0.1, any other at most 1.25 times the price. Unset if no token is held.
    - `groups`, `kinds`: flows of items by group and by kind.
    """

    replayed: int = 0
    changed: int = 0
    unverifiable: Mapping[str, int] = field(default_factory=dict)
    misfits: Mapping[str, int] = field(default_factory=dict)
    in_flight: int = 0
    gained: int = 0
    lost: int = 0
    shrunk: int = 0
    grown: int = 0
    reordered: int = 0
    statuses: Mapping[str, int] = field(default_factory=dict)
    tokens_before: int = 0
    tokens_after: int = 0
    held_before: int = 0
    held_after: int = 0
    cost_before: Opt[Decimal] = UNSET
    cost_after: Opt[Decimal] = UNSET
    cost_cached_before: Opt[Decimal] = UNSET
    cost_cached_after: Opt[Decimal] = UNSET
    groups: Mapping[str, ItemFlow] = field(default_factory=dict)
    kinds: Mapping[str, ItemFlow] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """True if every decision was replayed."""
        return not self.unverifiable and not self.misfits

    @property
    def is_empty(self) -> bool:
        """True if there was nothing to replay, and no request is in flight."""
        return self.is_whole and not self.replayed and not self.in_flight

    def __str__(self) -> str:
        moves = ", ".join(f"{getattr(self, what):,} {what}" for what in (*_MOVES, "reordered"))
        lines = [
            f"{counted(self.replayed, 'decision')} replayed, {self.changed:,} changed: {moves}",
            _from_to("tokens", self.tokens_before, self.tokens_after),
        ]
        if self.cost_before is not UNSET and self.cost_after is not UNSET:
            lines.append(_from_to("cost", self.cost_before, self.cost_after))
        if self.held_before or self.held_after:
            lines.append(_from_to("held", self.held_before, self.held_after))
        if self.cost_cached_before is not UNSET and self.cost_cached_after is not UNSET:
            lines.append(_from_to("cost, cached", self.cost_cached_before, self.cost_cached_after))
        for what, counts in (
            ("answered otherwise", self.statuses),
            ("refused under the change", self.misfits),
            ("unverifiable", self.unverifiable),
        ):
            if counts:
                listed = ", ".join(f"{name} {count:,}" for name, count in counts.items())
                lines.append(f"{sum(counts.values()):,} {what} ({listed})")
        if self.in_flight:
            lines.append(f"{self.in_flight:,} in flight")
        return "\n".join(lines)

    def __add__(self, other: "Sum") -> "Sum":
        """Return the sum of both, without a price."""
        names = [name for name in self.__struct_fields__ if not name.startswith("cost")]
        both = {name: _added(getattr(self, name), getattr(other, name)) for name in names}
        return Sum(**both | {"unverifiable": by_kind(both["unverifiable"])})

    def priced(self, per_million: Decimal | None) -> "Sum":
        """Return the sum with the costs of its tokens, or unchanged without a price per million tokens."""
        if per_million is None:
            return self
        before, after = ((per_million * each).scaleb(-6) for each in (self.tokens_before, self.tokens_after))
        priced = replace(self, cost_before=before, cost_after=after)
        if not (self.held_before or self.held_after):
            return priced
        return replace(
            priced,
            cost_cached_before=_cached_cost(before, (per_million * self.held_before).scaleb(-6)),
            cost_cached_after=_cached_cost(after, (per_million * self.held_after).scaleb(-6)),
        )


def sum_of(result: DecisionDifference | Misfit) -> Sum:
    """Return the sum of one result."""
    if isinstance(result, Misfit):
        return Sum(misfits={result.error.code: 1})
    before, after = result.before, result.after
    groups: defaultdict[str, ItemFlow] = defaultdict(ItemFlow)
    kinds: defaultdict[str, ItemFlow] = defaultdict(ItemFlow)
    moves: dict[str, tuple[Moved | Resized, ...]] = {what: getattr(result, what) for what in _MOVES}
    for what, items in moves.items():
        for item in items:
            flow = _flow(what, item)
            groups[item.group] += flow
            kinds[item.kind] += flow
    counts: dict[str, Any] = {what: len(items) for what, items in moves.items()}
    return Sum(
        **counts,
        replayed=1,
        changed=int(result.is_change),
        reordered=int(result.reordered),
        statuses={} if before.status is after.status else {f"{before.status} > {after.status}": 1},
        tokens_before=before.used,
        tokens_after=after.used,
        held_before=before.held,
        held_after=after.held,
        groups=groups,
        kinds=kinds,
    )


def _flow(what: str, item: Moved | Resized) -> ItemFlow:
    if isinstance(item, Moved):
        more = item.tokens if what == "gained" else -item.tokens
    else:
        more = item.tokens_after - item.tokens_before
    return ItemFlow(**{what: 1}, tokens_gained=max(more, 0), tokens_lost=max(-more, 0))


def _cached_cost(cost: Decimal, held_cost: Decimal) -> Decimal:
    """Return a cost with a provider's cache; without held tokens nothing is cached."""
    return cost * _WRITTEN - held_cost * (_WRITTEN - _READ) if held_cost else cost


def _added(ours: Any, theirs: Any) -> Any:
    if not isinstance(ours, Mapping):
        return ours + theirs
    both = [name for name in ours if name in theirs]
    merged = {**ours, **theirs, **{name: ours[name] + theirs[name] for name in both}}
    return dict(sorted(merged.items()))


def _from_to(what: str, before: Decimal | int, after: Decimal | int) -> str:
    """Return `tokens: 100 > 75, 25 saved (25.0%)`; without a percentage if `before` is 0."""
    more = Decimal(after) - before
    change = f"{abs(more):,f} {'spent more' if more > 0 else 'saved'}" if more else "the same"
    share = f" ({abs(more) / before:.1%})" if more and before else ""
    return f"{what}: {before:,} > {after:,}, {change}{share}"
