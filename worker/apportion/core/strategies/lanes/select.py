"""Selection in lanes: protected ones, floors by lane priority, floors without reserve, the rest.

Decides by selection cost: the candidate's `token_estimate`, else its count. Never renders.

What is refused among the rest is told how many tokens more of that bound alone have it selected, all else as
it was (`more`). They are enough, not the fewest:

- of the limit, as many as all take that would be selected up to it if there were no limit, and while floors
  are filled, what other floors can still claim beside, so that no floor is filled otherwise;
- of its lane's ceiling, as many as it and those of its lane take that the ceiling refused before it, where
  the limit has that much left, so that nobody before it fares otherwise, and where the ceiling had no say in
  the floor.
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
                one.lane.full += one.cost
            else:
                rest.append(one)
                by_lane.setdefault(one.group, []).append(one)
    open_lanes = [lane for lane in lanes if lane.floor and lane.name in by_lane]
    protected_tokens = limit_tokens - left_tokens
    claims = sum([lane.claim() for lane in open_lanes])  # of what stands already, nothing is left to claim
    for lane in open_lanes:
        others = claims - lane.claim()
        left_tokens = _fill_floor(lane, by_lane[lane.name], left_tokens, others)
        claims = others + lane.claim()
    for lane in open_lanes:
        left_tokens = _fill_floor(lane, by_lane[lane.name], left_tokens, 0)
    if _take_all(rest, left_tokens):
        floors = [(lane, by_lane[lane.name]) for lane in open_lanes]
        _tell_more(rest, floors, protected_tokens - limit_tokens)


def _take(one: Artifact) -> int:
    """Select an artifact, whether it fits or not; return its cost."""
    one.fidelity = _FULL
    one.lane.used += one.cost
    return one.cost


def _fill_floor(lane: Lane, candidates: list[Artifact], left_tokens: int, reserve: int) -> int:
    """Select what fits into the lane and the limit less the reserve, until the floor is met.

    Return what is left of the limit.
    """
    floor, ceiling = lane.floor, lane.ceiling
    for one in candidates:
        if lane.used >= floor:
            break
        if one.fidelity is None:
            if one.cost > ceiling - lane.used:
                lane.tight = True
            elif one.cost <= left_tokens - reserve:
                left_tokens -= _take(one)
    return left_tokens


def _take_all(rest: list[Artifact], left_tokens: int) -> bool:
    """Select what fits into its lane and the limit, in canonical order; tell if the limit refused any."""
    lane_bound, limit_bound = Bound.LANE, Bound.LIMIT
    limited = False
    for one in rest:
        if one.fidelity is None:
            cost, lane = one.cost, one.lane
            lane_left = lane.ceiling - lane.used
            if cost > lane_left:
                one.refuse(lane_bound, cost, lane_left)
                lane.refused += cost
                if cost > left_tokens:
                    one.limit_left = max(0, left_tokens)
                elif lane.refused <= left_tokens and not lane.tight and lane.floor < lane.ceiling:
                    one.more = lane.refused - lane_left
            elif cost > left_tokens:
                one.refuse(limit_bound, cost, left_tokens)
                limited = True
            else:
                left_tokens -= _take(one)
    return limited


def _tell_more(rest: list[Artifact], floors: list[tuple[Lane, list[Artifact]]], past_tokens: int) -> None:
    """Tell those that the limit refused how many tokens more would do: select again as if there were none.

    `past_tokens` is by how much what is selected passes the limit, below 0 by how much it does not. `more` is
    what all steps so far ask for: in the floors they hold back what other lanes can claim.
    """
    more, filling = past_tokens, set[int]()
    claims = sum([lane.claim_without_limit() for lane, _ in floors])
    for lane, candidates in floors:
        others = claims - lane.claim_without_limit()
        for one in candidates:
            if lane.full >= lane.floor:
                break
            if one.cost <= lane.ceiling - lane.full:
                lane.full += one.cost
                past_tokens += one.cost
                more = max(more, past_tokens + others)
                filling.add(id(one))
                if one.bound is Bound.LIMIT:
                    one.more = more
        claims = others + lane.claim_without_limit()
    for one in rest:
        if id(one) not in filling and one.cost <= one.lane.ceiling - one.lane.full:
            one.lane.full += one.cost
            past_tokens += one.cost
            more = max(more, past_tokens)
            if one.bound is Bound.LIMIT:
                one.more = more
