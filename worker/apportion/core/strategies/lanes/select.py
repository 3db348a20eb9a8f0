"""Selection in lanes: protected ones, floors by lane priority, floors without reserve, the rest.

Decides by selection cost: the candidate's `token_estimate`, else its count. Never renders.
"""

from collections.abc import Callable, Sequence

from msgspec import UNSET

from apportion.core.candidates import Prepared
from apportion.core.results import Margin, Reason
from apportion.core.strategies.lanes.rank import Lane, Ranked

_LANE_MAX_REACHED, _BUDGET_EXCEEDED = Reason.LANE_MAX_REACHED, Reason.BUDGET_EXCEEDED


def estimate(ranked: list[Ranked], count_contents: Callable[[Sequence[Prepared]], list[int]]) -> None:
    """Set the selection cost of all that can still be chosen, and what each lane has of it."""
    open_ones = [one for one in ranked if one.reason is None]
    uncounted = [one for one in open_ones if one.prepared.candidate.token_estimate is UNSET]
    counts = count_contents([one.prepared for one in uncounted])
    for one, tokens in zip(uncounted, counts, strict=True):
        one.cost = tokens
    for one in open_ones:
        if one.prepared.candidate.token_estimate is not UNSET:
            one.cost = one.prepared.candidate.token_estimate
        one.lane.available += one.cost


def select(ranked: list[Ranked], lanes: list[Lane], limit_tokens: int) -> None:
    """Mark what is selected; an omitted one keeps the reason of the last time it was considered."""
    selection = _Selection(limit_tokens)
    rest: list[Ranked] = []
    by_lane: dict[str, list[Ranked]] = {lane.name: [] for lane in lanes}
    for one in ranked:
        if one.reason is None:
            if one.prepared.protected:
                selection.add(one)
            else:
                rest.append(one)
                by_lane[one.lane.name].append(one)
    claims = sum(lane.claim for lane in lanes)
    for lane in lanes:
        others = claims - lane.claim
        _fill_floor(selection, lane, by_lane[lane.name], others)
        claims = others + lane.claim
    for lane in lanes:
        _fill_floor(selection, lane, by_lane[lane.name], 0)
    for one in rest:
        if not one.selected:
            selection.consider(one, 0)


def _fill_floor(selection: "_Selection", lane: Lane, candidates: list[Ranked], reserve: int) -> None:
    lane.filled = True
    for one in candidates:
        if lane.used >= lane.floor:
            return
        if not one.selected:
            selection.consider(one, reserve)


class _Selection:
    """What is used of the limit so far."""

    def __init__(self, limit_tokens: int) -> None:
        self.limit_tokens = limit_tokens
        self.used_tokens = 0

    def add(self, one: Ranked) -> None:
        """Select a candidate, whether it fits or not."""
        one.selected, one.reason, one.margin = True, None, None
        one.lane.used += one.cost
        self.used_tokens += one.cost

    def consider(self, one: Ranked, reserve: int) -> None:
        """Select a candidate if its lane's ceiling and the limit less the reserve allow it."""
        lane_left = one.lane.ceiling - one.lane.used
        left = self.limit_tokens - self.used_tokens - reserve
        if one.cost > lane_left:
            one.reason, one.margin = _LANE_MAX_REACHED, Margin(one.cost, max(0, lane_left))
        elif one.cost > left:
            one.reason, one.margin = _BUDGET_EXCEEDED, Margin(one.cost, max(0, left))
        else:
            self.add(one)
