"""Differences added up: decisions, items by group and kind, tokens, and money.

Decides what is in which figure. What could not be replayed is in none but its own.
"""

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeVar

from msgspec import UNSET, Struct, field
from msgspec.structs import astuple, replace

from apportion.core.events import Opt
from apportion.decisions.replay.findings import Found, counted
from apportion.decisions.replay.whatif import DecisionDifference, Misfit, Moved, Resized

V = TypeVar("V")
_READ, _WRITTEN = Decimal("0.1"), Decimal("1.25")
"""Prices of a token that is read from a provider's cache, and of one that is written to it."""
_MOVES = ("gained", "lost", "shrunk", "grown")


class ItemFlow(Struct, frozen=True):
    """What comes and goes in one lane (or other group), or of one kind. Tokens are the moved items' own."""

    gained: int = 0
    lost: int = 0
    shrunk: int = 0
    grown: int = 0
    tokens_gained: int = 0
    tokens_lost: int = 0

    def __add__(self, other: "ItemFlow") -> "ItemFlow":
        return ItemFlow(*(ours + theirs for ours, theirs in zip(astuple(self), astuple(other), strict=True)))


class Sum(Struct, frozen=True, kw_only=True):
    """All differences. `statuses` counts how answers changed, as `composed > exhausted`.

    `unverifiable` are the decisions that are not composed as recorded, by reason, and `misfits` those whose
    request is refused under the change, by code: neither is in any other figure. Requests `in_flight` were
    recorded, and are not known to be answered yet. Tokens `held` are those of unchanged beginnings. Costs are
    in the unit of the price, exact. `cost_cached` is the cost if a provider caches each text: a held token
    then costs 0.1, and any other at most 1.25. It is absent if no token is held.
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
        """Whether every decision was replayed."""
        return not self.unverifiable and not self.misfits

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to replay."""
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
        reasons = both["unverifiable"]
        both["unverifiable"] = {str(found): reasons[found] for found in Found if found in reasons}
        return Sum(**both)

    def priced(self, per_million: Decimal | None) -> "Sum":
        """Return it with what the tokens cost, if a million of them has a price."""
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


class DifferenceSum:
    """Adds differences up."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._misfits: Counter[str] = Counter()
        self._statuses: Counter[str] = Counter()
        self._groups: dict[str, ItemFlow] = {}
        self._kinds: dict[str, ItemFlow] = {}

    def add(self, one: DecisionDifference | Misfit) -> None:
        """Take one decision in."""
        if isinstance(one, Misfit):
            self._misfits[one.error.code] += 1
            return
        self._counts += Counter(
            replayed=1,
            changed=one.is_change,
            reordered=one.reordered,
            tokens_before=one.before.used,
            tokens_after=one.after.used,
            held_before=one.before.held,
            held_after=one.after.held,
        )
        for what in _MOVES:
            those: tuple[Moved | Resized, ...] = getattr(one, what)
            self._counts[what] += len(those)
            for item in those:
                flow = _flow(what, item)
                self._groups[item.group] = self._groups.get(item.group, ItemFlow()) + flow
                self._kinds[item.kind] = self._kinds.get(item.kind, ItemFlow()) + flow
        if one.before.status is not one.after.status:
            self._statuses[f"{one.before.status} > {one.after.status}"] += 1

    def sum(self, unverifiable: Mapping[str, int], in_flight: int) -> Sum:
        """Return the sum so far; names in their order."""
        return replace(
            Sum(),
            **self._counts,
            unverifiable=unverifiable,
            in_flight=in_flight,
            misfits=_sorted(self._misfits),
            statuses=_sorted(self._statuses),
            groups=_sorted(self._groups),
            kinds=_sorted(self._kinds),
        )


def _flow(what: str, item: Moved | Resized) -> ItemFlow:
    if isinstance(item, Moved):
        more = item.tokens if what == "gained" else -item.tokens
    else:
        more = item.tokens_after - item.tokens_before
    return ItemFlow(**{what: 1}, tokens_gained=max(more, 0), tokens_lost=max(-more, 0))


def _cached_cost(cost: Decimal, held_cost: Decimal) -> Decimal:
    """Return a cost if a provider caches; without held tokens nothing is written either."""
    return cost * _WRITTEN - held_cost * (_WRITTEN - _READ) if held_cost else cost


def _added(ours: Any, theirs: Any) -> Any:
    if not isinstance(ours, Mapping):
        return ours + theirs
    both = [name for name in ours if name in theirs]
    return _sorted({**ours, **theirs, **{name: ours[name] + theirs[name] for name in both}})


def _sorted(counted: Mapping[str, V]) -> dict[str, V]:
    return dict(sorted(counted.items()))


def _from_to(what: str, before: Decimal | int, after: Decimal | int) -> str:
    """Return `tokens: 100 > 75, 25 saved (25.0%)`; of nothing there is no share."""
    more = Decimal(after) - before
    change = f"{abs(more):,f} {'spent more' if more > 0 else 'saved'}" if more else "the same"
    share = f" ({abs(more) / before:.1%})" if more and before else ""
    return f"{what}: {before:,} > {after:,}, {change}{share}"
