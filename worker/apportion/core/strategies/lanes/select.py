"""Selection in lanes: protected ones, what is held, floors by priority, floors without reserve, the rest.

Decides by selection cost: the candidate's `token_estimate`, else its count. Never renders. A selection is
made on flat lists and marks nothing, for a rule may try several; `settle` marks the one that holds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import UNSET, Struct

from apportion.core.order import Order
from apportion.core.results import Fidelity
from apportion.core.strategies.lanes.rank import Artifact, Lane
from apportion.core.task import Prepared
from apportion.core.verdict import Bound, mark_covered

_FULL = Fidelity.FULL


class Choosable(Struct, frozen=True):
    """The candidates that can be chosen, by place in canonical order, and what bounds them, by lane.

    `costs` and `scores` are those of `ones`, `lane_of` the places of their lanes. `floors` are the places of
    the lanes with a floor and a candidate, by priority, each with the candidates that are not `protected`;
    `rest` are those of all lanes, and `least_tokens` is the lowest cost of them.
    """

    ones: Sequence[Artifact]
    costs: Sequence[int]
    scores: Sequence[int]
    lane_of: Sequence[int]
    lanes: Sequence[Lane]
    protected: Sequence[int]
    floors: Sequence[tuple[int, Sequence[int]]]
    rest: Sequence[int]
    least_tokens: int
    limit_tokens: int


class Refusal(Struct, frozen=True, gc=False):
    """What kept a candidate out when it was considered last, and what was left for it then."""

    place: int
    bound: Bound
    left: int
    limit_left: int
    """What was left of the limit, which is not always the bound."""


class Selection:
    """What is selected, by place, and what each lane has used of it; `value` is Σ score · cost.

    `tight` are the lanes whose ceiling refused what their floor would have taken. `redundant` are those of
    which others said all when they were considered last, and `refused` the others, if they are told.
    """

    def __init__(self, choosable: Choosable, order: Order) -> None:
        """Begin with nothing."""
        self.taken = bytearray(len(choosable.ones))
        self.used = [0] * len(choosable.lanes)
        self.left_tokens = choosable.limit_tokens
        self.value = 0
        self.tight: set[int] = set()
        self.refused: list[Refusal] = []
        self.redundant: list[int] = []
        self.order = order
        self._choosable = choosable
        self._rest: Iterator[int] = iter(())

    def take(self, place: int) -> None:
        """Select a candidate, whether it fits or not."""
        choosable = self._choosable
        cost = choosable.costs[place]
        self.taken[place] = 1
        self.used[choosable.lane_of[place]] += cost
        self.left_tokens -= cost
        self.value += self.order.taken(place) * cost

    def fill_floor(self, lane: int, places: Sequence[int], reserve: int) -> None:
        """Select what fits into the lane and the limit less the reserve, until the floor is met."""
        taken, used, costs = self.taken, self.used, self._choosable.costs
        floor, ceiling = self._choosable.lanes[lane].floor, self._choosable.lanes[lane].ceiling
        for place in self.order.over(places):
            if used[lane] >= floor:
                break
            cost = costs[place]
            if not taken[place]:
                if cost > ceiling - used[lane]:
                    self.tight.add(lane)
                elif cost <= self.left_tokens - reserve:
                    self.take(place)

    def fill(self, places: Sequence[int], *, tells: bool) -> None:
        """Select what fits into its lane and the limit; where it `tells`, say what refused all others."""
        self._rest = iter(self.order.over(places))
        self._go_on(tells=tells)

    def tell(self) -> None:
        """Say what refused the others, where `fill` stopped because nothing could fit any more."""
        self._go_on(tells=True)

    def _go_on(self, *, tells: bool) -> None:
        taken, used, least_tokens = self.taken, self.used, self._choosable.least_tokens
        costs, lane_of = self._choosable.costs, self._choosable.lane_of
        ceilings = [lane.ceiling for lane in self._choosable.lanes]
        lane_bound, limit_bound, redundant = Bound.LANE, Bound.LIMIT, self.order.redundant
        for place in self._rest:
            if place in redundant:
                self.redundant.append(place)
            elif not taken[place]:
                cost, lane = costs[place], lane_of[place]
                left = self.left_tokens
                lane_left = ceilings[lane] - used[lane]
                if cost <= lane_left and cost <= left:
                    self.take(place)
                else:
                    refusal = (lane_bound, lane_left) if cost > lane_left else (limit_bound, left)
                    self.refused.append(Refusal(place, *refusal, left))
                    if left < least_tokens and not tells:
                        break


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


def choosable_of(ranked: Iterable[Artifact], lanes: Sequence[Lane], limit_tokens: int) -> Choosable:
    """Return those of candidates in canonical order that nothing has refused, and their lanes by priority."""
    ones = [one for one in ranked if one.bound is None]
    place_of_lane = {lane.name: place for place, lane in enumerate(lanes)}
    lane_of = [place_of_lane[one.group] for one in ones]
    protected: list[int] = []
    rest: list[int] = []
    by_lane: list[list[int]] = [[] for _ in lanes]
    for place, one in enumerate(ones):
        if one.prepared.protected:
            protected.append(place)
        else:
            rest.append(place)
            by_lane[lane_of[place]].append(place)
    costs = [one.cost for one in ones]
    return Choosable(
        ones=ones,
        costs=costs,
        scores=[one.score or 0 for one in ones],
        lane_of=lane_of,
        lanes=lanes,
        protected=protected,
        floors=[(place, by_lane[place]) for place, lane in enumerate(lanes) if lane.floor and by_lane[place]],
        rest=rest,
        least_tokens=min([costs[place] for place in rest], default=0),
        limit_tokens=limit_tokens,
    )


def greedy(choosable: Choosable, order: Order, held: Iterable[int] = (), *, tells: bool = True) -> Selection:
    """Select the protected ones and what is held, whatever the bounds, then by floors, then all the rest.

    A floor's first round holds back what the floors of other lanes can still claim: the lesser of floor and
    available, less what the lane has used. A selection that is only weighed need not `tell` what it refused.
    """
    selection = Selection(choosable, order)
    for place in choosable.protected:
        selection.take(place)
    for place in held:
        if not selection.taken[place]:
            selection.take(place)
    claims = [lane.claim() for lane in choosable.lanes]
    used = selection.used

    def unmet(lane: int) -> int:
        return max(0, claims[lane] - used[lane])

    # of what stands already, nothing is left to claim: a lane without another candidate has no claim
    reserve = sum([unmet(lane) for lane, _ in choosable.floors])
    for lane, places in choosable.floors:
        reserve -= unmet(lane)
        selection.fill_floor(lane, places, reserve)
        reserve += unmet(lane)
    for lane, places in choosable.floors:
        selection.fill_floor(lane, places, 0)
    selection.fill(choosable.rest, tells=tells)
    return selection


def output_order(choosable: Choosable, selection: Selection, first: Iterable[int] = ()) -> Sequence[int]:
    """Return the places of what is selected: these first, then by lane priority, then canonical order."""
    order = dict.fromkeys(first)
    rest = [place for place, taken in enumerate(selection.taken) if taken and place not in order]
    return [*order, *sorted(rest, key=choosable.lane_of.__getitem__)]


def settle(choosable: Choosable, selection: Selection, displaced: Iterable[int] = ()) -> None:
    """Mark what is selected, and for the others the bound that refused them at last.

    What was `displaced` by what is held, of that bound.
    """
    for one, taken in zip(choosable.ones, selection.taken, strict=True):
        if taken:
            one.fidelity = _FULL
    for lane, used in zip(choosable.lanes, selection.used, strict=True):
        lane.used = used
    for refusal in selection.refused:
        one = choosable.ones[refusal.place]
        one.refuse(refusal.bound, one.cost, refusal.left)
    for place in selection.redundant:
        choosable.ones[place].bound = Bound.REDUNDANCY
    mark_covered(choosable.ones, selection.order.covered)
    for place in displaced:
        choosable.ones[place].bound = Bound.PREFIX
