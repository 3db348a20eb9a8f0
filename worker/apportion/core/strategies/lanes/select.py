"""Selection in lanes: protected ones, floors by lane priority, floors without reserve, the rest.

Decides by selection cost: the candidate's `token_estimate`, else its count. Never renders.
"""

from collections.abc import Callable, Sequence

from msgspec import UNSET

from apportion.core.results import Fidelity
from apportion.core.strategies.lanes.rank import Artifact, Lane
from apportion.core.task import Prepared
from apportion.core.verdict import Bound

_FULL = Fidelity.FULL


def estimate(ranked: list[Artifact], count_contents: Callable[[Sequence[Prepared]], list[int]]) -> None:
    """Set the selection cost of all that can still be chosen, and what each lane has of it."""
    uncounted = []
    for one in ranked:
        if one.bound is None:
            given = one.prepared.facts.token_estimate
            if given is UNSET:
                uncounted.append(one)
            else:
                one.cost = given
                one.lane.available += given
    for one, tokens in zip(uncounted, count_contents([one.prepared for one in uncounted]), strict=True):
        one.cost = tokens
        one.lane.available += tokens


def select(ranked: list[Artifact], lanes: list[Lane], limit_tokens: int) -> None:
    """Mark what is selected; an omitted one keeps the bound of the last time it was considered."""
    selection = _Selection(limit_tokens)
    rest: list[Artifact] = []
    by_lane: dict[str, list[Artifact]] = {lane.name: [] for lane in lanes}
    for one in ranked:
        if one.bound is None:
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
        if one.fidelity is None:
            selection.consider(one, 0)


def _fill_floor(selection: "_Selection", lane: Lane, candidates: list[Artifact], reserve: int) -> None:
    lane.filled = True
    for one in candidates:
        if lane.used >= lane.floor:
            return
        if one.fidelity is None:
            selection.consider(one, reserve)


class _Selection:
    """What is used of the limit so far."""

    def __init__(self, limit_tokens: int) -> None:
        self.limit_tokens = limit_tokens
        self.used_tokens = 0

    def add(self, one: Artifact) -> None:
        """Select a candidate, whether it fits or not."""
        one.stand(_FULL)
        one.lane.used += one.cost
        self.used_tokens += one.cost

    def consider(self, one: Artifact, reserve: int) -> None:
        """Select a candidate if its lane's ceiling and the limit less the reserve allow it."""
        cost, lane_left = one.cost, one.lane.ceiling - one.lane.used
        limit_left = self.limit_tokens - self.used_tokens
        if cost > lane_left:
            one.refuse(Bound.LANE, cost, lane_left)
        elif cost > limit_left:
            one.refuse(Bound.LIMIT, cost, limit_left - reserve)
        elif cost > limit_left - reserve:
            one.refuse(Bound.FLOORS, cost, limit_left - reserve)
        else:
            self.add(one)
