"""Holding the prefix: which beginning of the session's text before stands again at the beginning of this one.

Decides how much of it is held, at what loss, and in which order all stand, in integers alone. Source:
`[prefix]` of the policy. A provider's cache serves the longest unchanged beginning of a text, so a token
that is served is worth `weight`; the rule weighs that against the value of the selection, Σ score · cost:

1. The base is the selection that holds nothing. Where the protected ones pass the limit it stands as it is.
2. The most that can be held are the items before, up to the first that is not there unchanged. They end
   before an item that does not fit its source's quota, its lane or the limit. Beside it stand the protected
   ones and those before it.
3. The best-ranked of the base, up to the share `core` of its tokens, always stand.
4. From the most that can be held down, at most 16 beginnings are tried, each with the selection that holds
   it: the longest and the eight below it, then those whose next item the base lacks. One is barred that
   leaves a lane shorter of its claim than the base does, loses more than `max_loss`, or lacks one of the
   core. The best is the one whose value, with what is served, is greatest; of equals the one tried first,
   and before all the base.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

from msgspec import Struct

from apportion.core.overlap.selection_order import Order
from apportion.core.results import Broken
from apportion.core.strategies.lanes.policy import PrefixPolicy
from apportion.core.strategies.lanes.prefix_state import PrefixItem, piece_digest
from apportion.core.strategies.lanes.rank import Artifact
from apportion.core.strategies.lanes.select import Choosable, Selection, greedy, output_order
from apportion.core.strategy_api.verdict import Bound

TRIES_MAX = 16
_REPEATS = frozenset({Bound.SUBJECT, Bound.ID})
"""The bounds of a candidate of which another one of the same id may stay."""
_ALWAYS_TRIED = 8
"""So far below the longest a beginning is tried whatever the base has after it."""


class PreviousText(Struct, frozen=True):
    """The items of the text before, and of each its place among the choosable, or why it has none."""

    items: Sequence[PrefixItem]
    places: Sequence[int | Broken]

    @property
    def unchanged(self) -> list[int]:
        """The places of those that are there unchanged, in the order of the text before."""
        return [place for place in self.places if isinstance(place, int)]


class Holding(Struct, frozen=True):
    """What the rule chose among the choosable. `order` are the places of what is selected as they stand.

    `held` are the places of the beginning that repeats. `broken` is why it goes no further, None where
    nothing ended it; `tried` is how many selections were.
    """

    choosable: Choosable
    before: PreviousText
    selection: Selection
    base: Selection
    order: Sequence[int]
    held: Sequence[int]
    broken: Broken | None
    tried: int

    @property
    def displaced(self) -> list[int]:
        """The places of what stands in the base and not in the selection, in canonical order."""
        both = enumerate(zip(self.base.taken, self.selection.taken, strict=True))
        return [place for place, (before, now) in both if before and not now]


def before_of(
    items: Sequence[PrefixItem], ranked: Sequence[Artifact], choosable: Choosable, template: str | None
) -> PreviousText:
    """Return the items before as they are among the candidates, in canonical order, now."""
    best: dict[str, Artifact] = {}
    for candidate in ranked if items else ():
        # a repeat may rank before the candidate that stays, if it is superseded or a query changed the scores
        if candidate.bound not in _REPEATS:
            best.setdefault(candidate.id, candidate)
    place_of = {artifact.id: place for place, artifact in enumerate(choosable.ones)} if items else {}
    places: list[int | Broken] = []
    for item in items:
        artifact = best.get(item.id)
        if artifact is None:
            places.append(Broken.GONE)
        elif artifact.bound is Bound.EXCLUSION:
            places.append(Broken.EXCLUDED)
        elif artifact.bound is not None or piece_digest(artifact, template) != item.digest:
            places.append(Broken.CHANGED)
        else:
            places.append(place_of[item.id])
    return PreviousText(items, places)


def hold_beginning(
    choosable: Choosable,
    before: PreviousText,
    policy: PrefixPolicy,
    new_order: Callable[[], Order],
    *,
    cold: bool,
) -> Holding:
    """Return the selection that the rule chooses; `new_order` gives the order of one selection."""
    base = greedy(choosable, new_order(), tells=False)
    if sum([choosable.costs[place] for place in choosable.protected]) > choosable.limit_tokens:
        base.tell()
        order = output_order(choosable, base)
        return Holding(choosable, before, base, base, order, (), Broken.LIMIT, 0)
    held, broken = _most_held(choosable, before)
    search = _BreakSearch(choosable, held, policy, base, cold=cold)
    if not cold:
        search.run(new_order)
    end, selection = search.end, search.selection
    selection.tell()
    if end < len(held):
        broken = Broken.COLD if cold else search.bar or Broken.WORTH
    first = [*held[:end], *(place for place in before.unchanged if selection.taken[place])]
    order = output_order(choosable, selection, first)
    return Holding(choosable, before, selection, base, order, held[:end], broken, search.tried)


def _most_held(choosable: Choosable, before: PreviousText) -> tuple[Sequence[int], Broken | None]:
    """Return the places of the most that can be held, and what ended it."""
    costs, lane_of = choosable.costs, choosable.lane_of
    left_tokens = choosable.limit_tokens
    left_in_lane = [lane.ceiling for lane in choosable.lanes]
    quota_use = choosable.quota_use()
    for protected_place in choosable.protected:
        if quota_use is not None:
            quota_use.take(protected_place)
        left_tokens -= costs[protected_place]
        left_in_lane[lane_of[protected_place]] -= costs[protected_place]
    protected = set(choosable.protected)
    held: list[int] = []
    for place in before.places:
        if isinstance(place, Broken):
            return held, place
        if place not in protected:
            cost, lane = costs[place], lane_of[place]
            if quota_use is not None:
                if quota_use.refuses(place):
                    return held, Broken.SOURCE_MAX
                quota_use.take(place)
            if cost > left_in_lane[lane]:
                return held, Broken.LANE_MAX
            if cost > left_tokens:
                return held, Broken.LIMIT
            left_in_lane[lane] -= cost
            left_tokens -= cost
        held.append(place)
    return held, None


class _BreakSearch:
    """The search for the best break."""

    def __init__(
        self, choosable: Choosable, held: Sequence[int], policy: PrefixPolicy, base: Selection, *, cold: bool
    ) -> None:
        self._choosable = choosable
        self._held = held
        self._policy = policy
        self._base = self.selection = base
        self._at = [0, *accumulate(choosable.costs[place] for place in held)]
        self._cold = cold
        self._core = self._core_of_base()
        self.end = self._repeats(0, base)
        self._best = base.value + self._gain(self.end)
        self.bar: Broken | None = None
        self.tried = 0

    def run(self, new_order: Callable[[], Order]) -> None:
        """Try beginnings from the longest on."""
        base, held, weight = self._base, self._held, self._policy.weight
        for length in range(len(held), 0, -1):
            if length < len(held) - _ALWAYS_TRIED and base.taken[held[length]]:
                continue
            if base.value + weight * self._at[length] <= self._best or self.tried == TRIES_MAX:
                break
            self.tried += 1
            selection = greedy(self._choosable, new_order(), held[:length], tells=False)
            bar = self._bar_of(selection)
            if bar is not None:
                self.bar = self.bar or bar
                continue
            end = self._repeats(length, selection)
            worth = selection.value + self._gain(end)
            if worth > self._best:
                self._best, self.end, self.selection = worth, end, selection

    def _gain(self, end: int) -> int:
        tokens = self._at[end]
        return 0 if self._cold or tokens < self._policy.min_cached else self._policy.weight * tokens

    def _repeats(self, length: int, selection: Selection) -> int:
        """Return how far the beginning goes on in a selection that has the first ones of it."""
        while length < len(self._held) and selection.taken[self._held[length]]:
            length += 1
        return length

    def _bar_of(self, selection: Selection) -> Broken | None:
        base = self._base
        for lane, (used, used_in_base) in enumerate(zip(selection.used, base.used, strict=True)):
            if used < used_in_base and used < self._choosable.claim(lane):
                return Broken.FLOORS
        if selection.value * 1_000 < base.value * (1_000 - self._policy.max_loss):
            return Broken.MAX_LOSS
        if not all(selection.taken[place] for place in self._core):
            return Broken.CORE
        return None

    def _core_of_base(self) -> Sequence[int]:
        """Return the best-ranked places of the base, as many as are within the share of its tokens."""
        costs = self._choosable.costs
        places = [place for place, taken in enumerate(self._base.taken) if taken]
        most = self._policy.core * sum([costs[place] for place in places])
        sums = accumulate([costs[place] * 1_000 for place in places])
        return [place for place, tokens in zip(places, sums, strict=True) if tokens <= most]
