"""Near misses: how many tokens more of its bound alone would select a refused candidate, all else as it was.

They are recorded after a selection in canonical order. The tokens are enough, not the fewest:

- of the limit, as many as all take that would be selected up to it if there were no limit, and while floors
  are filled, what other floors can still claim beside, so that no floor is filled otherwise;
- of its lane's ceiling, as many as it and those of its lane take that the ceiling refused before it. They are
  given where the limit has that much left, so that nobody before it fares otherwise, and where the ceiling
  had no say in the floor.
"""

from apportion.core.strategies.lanes.select import Choosable, Selection
from apportion.core.strategy_api.verdict import Bound


def record_near_misses(choosable: Choosable, selection: Selection) -> None:
    """Mark what was refused with `more`, and with `limit_left` where the limit was too little beside."""
    refused_tokens = [0] * len(choosable.lanes)
    limited = False
    for refusal in selection.refused:
        if refusal.bound is Bound.LIMIT:
            limited = True
            continue
        artifact, lane = choosable.ones[refusal.place], choosable.lane_of[refusal.place]
        cost = choosable.costs[refusal.place]
        refused_tokens[lane] += cost
        if cost > refusal.limit_left:
            artifact.limit_left = max(0, refusal.limit_left)
        elif refused_tokens[lane] <= refusal.limit_left and lane not in selection.tight:
            bounds = choosable.lanes[lane]
            if bounds.floor < bounds.ceiling:
                artifact.more = refused_tokens[lane] - refusal.left
    if limited:
        _Unlimited(choosable).tell()


class _Unlimited:
    """The selection as it would be if there were no limit."""

    def __init__(self, choosable: Choosable) -> None:
        """Begin with what is protected.

        `_past_tokens` is by how much what is selected passes the limit, below 0 by how much it does not;
        `_more` is what all steps so far ask for.
        """
        self._choosable = choosable
        self._used = [0] * len(choosable.lanes)
        for place in choosable.protected:
            self._used[choosable.lane_of[place]] += choosable.costs[place]
        self._past_tokens = sum(self._used) - choosable.limit_tokens
        self._more = self._past_tokens

    def tell(self) -> None:
        """Mark those that the limit refused; floors hold back what other lanes can claim."""
        choosable, used = self._choosable, self._used
        filling = set[int]()
        claims = sum([self._unmet(lane) for lane, _ in choosable.floors])
        for lane, places in choosable.floors:
            others = claims - self._unmet(lane)
            for place in places:
                if used[lane] >= choosable.lanes[lane].floor:
                    break
                if self._fits(place):
                    self._take(place, others)
                    filling.add(place)
            claims = others + self._unmet(lane)
        for place in choosable.rest:
            if place not in filling and self._fits(place):
                self._take(place, 0)

    def _unmet(self, lane: int) -> int:
        return max(0, self._choosable.claim(lane) - self._used[lane])

    def _fits(self, place: int) -> bool:
        lane = self._choosable.lane_of[place]
        return self._choosable.costs[place] <= self._choosable.lanes[lane].ceiling - self._used[lane]

    def _take(self, place: int, held_back_tokens: int) -> None:
        artifact, cost = self._choosable.ones[place], self._choosable.costs[place]
        self._used[self._choosable.lane_of[place]] += cost
        self._past_tokens += cost
        self._more = max(self._more, self._past_tokens + held_back_tokens)
        if artifact.bound is Bound.LIMIT:
            artifact.more = self._more
