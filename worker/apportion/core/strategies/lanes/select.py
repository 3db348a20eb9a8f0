"""Selection in lanes: protected ones, floors by lane priority, floors without reserve, the rest.

Decides by selection cost: the candidate's `token_estimate`, else its count. Never renders.

What is refused among the rest is told how many tokens more of that bound alone would have had it selected:
enough for it and for all before it that only that bound refused, so that every one of them is treated as
before or stands. That is known where floors would be filled alike: where the limit refused nothing there
(for the limit), where the lane's ceiling had no say in its floor (for the ceiling).
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
    """Mark what is selected; the others keep the bound that refused them at last, among all the rest."""
    left_tokens = limit_tokens
    rest: list[Artifact] = []
    by_lane: dict[str, list[Artifact]] = {}
    for one in ranked:
        if one.bound is None:
            if one.prepared.protected:
                left_tokens -= _take(one)
            else:
                rest.append(one)
                by_lane.setdefault(one.group, []).append(one)
    floors_limited = False
    open_lanes = [lane for lane in lanes if lane.floor and lane.name in by_lane]
    claims = sum([lane.claim() for lane in open_lanes])  # of what stands already, nothing is left to claim
    for lane in open_lanes:
        others = claims - lane.claim()
        left_tokens, limited = _fill_floor(lane, by_lane[lane.name], left_tokens, others)
        floors_limited |= limited
        claims = others + lane.claim()
    if floors_limited:
        for lane in open_lanes:
            left_tokens, _ = _fill_floor(lane, by_lane[lane.name], left_tokens, 0)
    for lane in lanes:
        lane.full = lane.used
        lane.tight |= lane.floor == lane.ceiling
    _take_all(rest, left_tokens, floors_limited=floors_limited)


def _take(one: Artifact) -> int:
    """Select an artifact, whether it fits or not; return its cost."""
    one.fidelity = _FULL
    one.lane.used += one.cost
    return one.cost


def _fill_floor(lane: Lane, candidates: list[Artifact], left_tokens: int, reserve: int) -> tuple[int, bool]:
    """Select what fits into the lane and the limit less the reserve, until the floor is met.

    Return what is left of the limit, and whether it or the reserve refused any.
    """
    floor, ceiling = lane.floor, lane.ceiling
    limited = False
    for one in candidates:
        if lane.used >= floor:
            break
        if one.fidelity is None:
            if one.cost > ceiling - lane.used:
                lane.tight = True
            elif one.cost > left_tokens - reserve:
                limited = True
            else:
                left_tokens -= _take(one)
    return left_tokens, limited


def _take_all(rest: list[Artifact], left_tokens: int, *, floors_limited: bool) -> None:
    """Select what fits into its lane and the limit, in canonical order.

    `past` is by how much all that stands so far without the limit passes it.
    """
    lane_bound, limit_bound = Bound.LANE, Bound.LIMIT
    past = -left_tokens
    for one in rest:
        if one.fidelity is None:
            cost, lane = one.cost, one.lane
            fits_without_limit = cost <= lane.ceiling - lane.full
            if fits_without_limit:
                lane.full += cost
                past += cost
            lane_left = lane.ceiling - lane.used
            if cost > lane_left:
                one.refuse(lane_bound, cost, lane_left)
                lane.refused += cost
                if cost > left_tokens:
                    one.limit_left = max(0, left_tokens)
                elif lane.refused <= left_tokens and not lane.tight:
                    one.more = lane.refused - lane_left
            elif cost > left_tokens:
                one.refuse(limit_bound, cost, left_tokens)
                if fits_without_limit and not floors_limited:
                    one.more = past
            else:
                left_tokens -= _take(one)
