"""Near misses: the extra tokens in its bound that would have admitted a rejected candidate, all else equal.

They are recorded only without `[prefix]`, `[overlap]` and quotas. The number is sufficient, not minimal:

- Limit: the cost of all candidates up to this one that would be selected without a limit, minus the limit.
  It never falls in the order of selection. While a floor is filled, the unmet claims of other lanes count as
  used, so that no floor is filled differently.
- Ceiling of the lane: the cost of this candidate and of all that the ceiling rejected before it in its lane,
  minus the tokens that the ceiling had left. It is recorded only if the limit could pay this cost, the
  ceiling rejected no candidate for the floor, and the floor is below the ceiling.
"""

from apportion.core.strategies.lanes.select import Choosable, Selection
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
        _Unlimited(choosable).record_more()


class _Unlimited:
    """The selection as it would be without a limit, at first with the protected candidates alone."""

    def __init__(self, choosable: Choosable) -> None:
        self._choosable = choosable
        self._used = [0] * len(choosable.lanes)
        for index in choosable.protected:
            self._used[choosable.lane_of[index]] += choosable.costs[index]
        self._excess_tokens = sum(self._used) - choosable.limit_tokens  # negative: tokens left
        self._more = self._excess_tokens

    def record_more(self) -> None:
        """Set `more` of the candidates that the limit rejected.

        While a floor is filled, the unmet claims of other lanes count as used.
        """
        choosable, used = self._choosable, self._used
        filling = set[int]()
        claims = sum([self._unmet(lane) for lane, _ in choosable.floors])
        for lane, indices in choosable.floors:
            others = claims - self._unmet(lane)
            for index in indices:
                if used[lane] >= choosable.lanes[lane].floor:
                    break
                if self._fits(index):
                    self._take(index, others)
                    filling.add(index)
            claims = others + self._unmet(lane)
        for index in choosable.rest:
            if index not in filling and self._fits(index):
                self._take(index, 0)

    def _unmet(self, lane: int) -> int:
        return max(0, self._choosable.claim(lane) - self._used[lane])

    def _fits(self, index: int) -> bool:
        lane = self._choosable.lane_of[index]
        return self._choosable.costs[index] <= self._choosable.lanes[lane].ceiling - self._used[lane]

    def _take(self, index: int, reserved_tokens: int) -> None:
        artifact, cost = self._choosable.artifacts[index], self._choosable.costs[index]
        self._used[self._choosable.lane_of[index]] += cost
        self._excess_tokens += cost
        self._more = max(self._more, self._excess_tokens + reserved_tokens)
        if artifact.bound is Bound.LIMIT:
            artifact.more = self._more
