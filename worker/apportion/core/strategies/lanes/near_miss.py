"""Near misses: the extra tokens in its bound that would have admitted a rejected candidate, all else equal.

They are recorded only without `[prefix]`, `[overlap]` and quotas. The number is sufficient, not minimal:

- Limit: the cost of all candidates up to this one that would be selected without a limit, minus the limit.
  It never falls in the order of selection. While a floor is filled, the unmet claims of other lanes count as
  used, so that no floor is filled differently.
- Ceiling of the lane: the cost of this candidate and of all that the ceiling rejected before it in its lane,
  minus the tokens that the ceiling had left. It is recorded only if the limit could pay this cost, the
  ceiling rejected no candidate for the floor, and the floor is below the ceiling.
"""

from msgspec.structs import replace

from apportion.core.overlap.selection_order import Canonical
from apportion.core.strategies.lanes.select import Choosable, Selection, greedy
from apportion.core.strategy_api.verdict import Bound


def record_near_misses(choosable: Choosable, selection: Selection) -> None:
    """Set `more` of rejected candidates, or `limit_left` if ceiling and limit were both too small."""
    rejected_tokens = [0] * len(choosable.lanes)
    limited = False
    for rejection in selection.rejections:
        if rejection.bound is Bound.LIMIT:
            limited = True
            continue
        artifact, lane = choosable.artifacts[rejection.index], choosable.lane_of[rejection.index]
        cost = choosable.costs[rejection.index]
        rejected_tokens[lane] += cost
        if cost > rejection.limit_left:
            artifact.limit_left = max(0, rejection.limit_left)
        elif rejected_tokens[lane] <= rejection.limit_left and lane not in selection.tight:
            bounds = choosable.lanes[lane]
            if bounds.floor < bounds.ceiling:
                artifact.more = rejected_tokens[lane] - rejection.left
    if limited:
        # with room for all candidates, only the ceilings of the lanes reject some
        unlimited = replace(choosable, limit_tokens=choosable.limit_tokens + sum(choosable.costs))
        greedy(_Unlimited(unlimited, choosable.limit_tokens))


class _Unlimited(Selection):
    """The selection without a limit; it sets `more` of the candidates that the limit rejected."""

    def __init__(self, choosable: Choosable, limit_tokens: int) -> None:
        super().__init__(choosable, Canonical(choosable.scores))
        self._unlimited_tokens = choosable.limit_tokens - limit_tokens
        self._more = -limit_tokens

    def take(self, index: int) -> None:
        """Select a candidate, and set its `more` if the limit rejected it."""
        super().take(index)
        excess_tokens = self._unlimited_tokens - self.left_tokens
        self._more = max(self._more, excess_tokens + self.reserve)
        artifact = self.choosable.artifacts[index]
        if artifact.bound is Bound.LIMIT:
            artifact.more = self._more
