"""Prefix rule: the beginning of the session's previous text that is held at the beginning of the new text.

A provider's cache serves the longest unchanged beginning of a text. So each served token is worth `weight`
of the policy's `[prefix]`; fewer than `min_cached` tokens are worth nothing. The rule weighs this gain
against the value of the selection, Σ score · cost. All numbers are integers.

1. The base is the selection that holds nothing. It wins if the protected candidates exceed the limit, or if
   the cache is cold.
2. The longest beginning has the previous items up to the first that is gone, excluded or changed. It ends
   before an item that does not fit into its source's quota, its lane or the limit. The protected candidates
   and the items before it count as selected.
3. The core is the best-ranked candidates of the base, up to the share `core` of its tokens.
4. At most 16 beginnings are tried, from the longest down, each with the selection that holds it: the longest
   and the eight below it, then only beginnings with a next item that is not in the base.
5. A beginning is barred if a lane gets less of its claim than in the base, if the loss is above `max_loss`,
   or if a candidate of the core is missing.
6. The beginning with the highest value plus gain wins. Ties: the base first, then the first tried.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

from msgspec import Struct

from apportion.core.overlap.selection_order import Canonical, Order
from apportion.core.results import PrefixBreakReason
from apportion.core.strategies.lanes.policy import PrefixPolicy
from apportion.core.strategies.lanes.prefix_state import PrefixItem, piece_digest
from apportion.core.strategies.lanes.rank import Artifact
from apportion.core.strategies.lanes.select import Choosable, Selection, greedy, output_order
from apportion.core.strategy_api.verdict import Bound

TRIES_MAX = 16
_REPEATS = frozenset({Bound.SUBJECT, Bound.ID})
"""The bounds of a rejected candidate whose id another candidate may have."""
_ALWAYS_TRIED_ITEMS = 8


class PreviousText(Struct, frozen=True):
    """The items of the previous text."""

    items: Sequence[PrefixItem]
    indices: Sequence[int | PrefixBreakReason]
    """For each item, its index among the choosable candidates, or the reason for which it has none."""


class Holding(Struct, frozen=True):
    """The result of the prefix rule, by indices of `choosable`."""

    choosable: Choosable
    previous: PreviousText
    selection: Selection
    base: Selection
    """The selection that holds nothing."""
    order: Sequence[int]
    """The selected candidates in output order."""
    held: Sequence[int]
    """The held beginning, in the order of the previous text."""
    broken: PrefixBreakReason | None
    """The reason for which the held beginning ends; None if all of the previous text is held."""
    tried: int
    """The number of beginnings that were tried."""

    @property
    def displaced(self) -> list[int]:
        """The candidates that are in the base and not in the selection, in canonical order."""
        both = enumerate(zip(self.base.taken, self.selection.taken, strict=True))
        return [index for index, (in_base, selected) in both if in_base and not selected]


def previous_text(
    items: Sequence[PrefixItem], ranked: Sequence[Artifact], choosable: Choosable, template: str | None
) -> PreviousText:
    """Return the previous items with their indices; `ranked` is in canonical order."""
    best: dict[str, Artifact] = {}
    for candidate in ranked if items else ():
        # a superseded candidate, or with a query a repeated one, may rank before the candidate that counts
        if candidate.bound not in _REPEATS:
            best.setdefault(candidate.id, candidate)
    index_of = {artifact.id: index for index, artifact in enumerate(choosable.artifacts)} if items else {}
    indices: list[int | PrefixBreakReason] = []
    for item in items:
        artifact = best.get(item.id)
        if artifact is None:
            indices.append(PrefixBreakReason.GONE)
        elif artifact.bound is Bound.EXCLUSION:
            indices.append(PrefixBreakReason.EXCLUDED)
        elif artifact.bound is not None or piece_digest(artifact, template) != item.digest:
            indices.append(PrefixBreakReason.CHANGED)
        else:
            indices.append(index_of[item.id])
    return PreviousText(items, indices)


def hold_beginning(
    choosable: Choosable,
    previous: PreviousText,
    policy: PrefixPolicy,
    new_order: Callable[[], Order],
    *,
    cold: bool,
) -> Holding:
    """Return the selection that the rule chooses; `new_order` makes the order of one selection."""
    base = greedy(Selection(choosable, new_order()), records_all=False)
    if sum([choosable.costs[index] for index in choosable.protected]) > choosable.limit_tokens:
        base.record_rest()
        order = output_order(choosable, base)
        return Holding(choosable, previous, base, base, order, (), PrefixBreakReason.LIMIT, 0)
    held, broken = _longest_beginning(choosable, previous)
    search = _BeginningSearch(choosable, held, policy, base, cold=cold)
    if not cold:
        search.run(new_order)
    end, selection = search.end, search.selection
    selection.record_rest()
    if end < len(held):
        broken = PrefixBreakReason.COLD if cold else search.barred_by or PrefixBreakReason.WORTH
    unchanged = [index for index in previous.indices if isinstance(index, int) and selection.taken[index]]
    order = output_order(choosable, selection, [*held[:end], *unchanged])
    return Holding(choosable, previous, selection, base, order, held[:end], broken, search.tried)


def _longest_beginning(
    choosable: Choosable, previous: PreviousText
) -> tuple[Sequence[int], PrefixBreakReason | None]:
    """Return the longest beginning that can be held, and the reason for its end."""
    selection = Selection(choosable, Canonical(choosable.scores))
    for protected_index in choosable.protected:
        selection.take(protected_index)
    held: list[int] = []
    for index in previous.indices:
        if isinstance(index, PrefixBreakReason):
            return held, index
        if not selection.taken[index]:
            cost, lane = choosable.costs[index], choosable.lane_of[index]
            if selection.quota_use is not None and selection.quota_use.refuses(index):
                return held, PrefixBreakReason.SOURCE_MAX
            if cost > choosable.lanes[lane].ceiling - selection.used[lane]:
                return held, PrefixBreakReason.LANE_MAX
            if cost > selection.left_tokens:
                return held, PrefixBreakReason.LIMIT
            selection.take(index)
        held.append(index)
    return held, None


class _BeginningSearch:
    """The search for the beginning with the highest value plus gain; at first the base is the best."""

    def __init__(
        self, choosable: Choosable, held: Sequence[int], policy: PrefixPolicy, base: Selection, *, cold: bool
    ) -> None:
        self._choosable = choosable
        self._held = held
        self._policy = policy
        self._base = self.selection = base
        self._tokens = [0, *accumulate(choosable.costs[index] for index in held)]
        self._cold = cold
        self._core = self._core_of_base()
        self.end = self._end_of_beginning(0, base)
        self._best = base.value + self._gain(self.end)
        self.barred_by: PrefixBreakReason | None = None
        self.tried = 0

    def run(self, new_order: Callable[[], Order]) -> None:
        """Try beginnings, the longest first; sets `selection`, `end`, `barred_by` and `tried`."""
        base, held, weight = self._base, self._held, self._policy.weight
        for length in range(len(held), 0, -1):
            # Step 1: skip a short beginning whose next item the base selects anyway.
            if length < len(held) - _ALWAYS_TRIED_ITEMS and base.taken[held[length]]:
                continue
            # Step 2: stop when even a selection without loss could not beat the best one.
            if base.value + weight * self._tokens[length] <= self._best or self.tried == TRIES_MAX:
                break
            # Step 3: select with this beginning held. The first reason for a bar is reported.
            self.tried += 1
            selection = Selection(self._choosable, new_order())
            greedy(selection, held[:length], records_all=False)
            bar = self._reason_to_bar(selection)
            if bar is not None:
                self.barred_by = self.barred_by or bar
                continue
            # Step 4: items that were selected by score may extend the beginning. Keep the best result.
            end = self._end_of_beginning(length, selection)
            worth = selection.value + self._gain(end)
            if worth > self._best:
                self._best, self.end, self.selection = worth, end, selection

    def _gain(self, end: int) -> int:
        tokens = self._tokens[end]
        return 0 if self._cold or tokens < self._policy.min_cached else self._policy.weight * tokens

    def _end_of_beginning(self, length: int, selection: Selection) -> int:
        """Return the number of leading items that a selection has, given that it has the first `length`."""
        while length < len(self._held) and selection.taken[self._held[length]]:
            length += 1
        return length

    def _reason_to_bar(self, selection: Selection) -> PrefixBreakReason | None:
        base = self._base
        for lane, (used, used_in_base) in enumerate(zip(selection.used, base.used, strict=True)):
            if used < used_in_base and used < self._choosable.claim(lane):
                return PrefixBreakReason.FLOORS
        if selection.value * 1_000 < base.value * (1_000 - self._policy.max_loss):
            return PrefixBreakReason.MAX_LOSS
        if not all(selection.taken[index] for index in self._core):
            return PrefixBreakReason.CORE
        return None

    def _core_of_base(self) -> Sequence[int]:
        """Return the best-ranked candidates of the base within the share `core` of its tokens."""
        costs = self._choosable.costs
        indices = [index for index, taken in enumerate(self._base.taken) if taken]
        most = self._policy.core * sum([costs[index] for index in indices])
        sums = accumulate([costs[index] * 1_000 for index in indices])
        return [index for index, tokens in zip(indices, sums, strict=True) if tokens <= most]
