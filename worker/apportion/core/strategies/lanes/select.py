"""Selection in lanes: protected ones, what is held, floors by priority, floors without reserve, the rest.

Decides by selection cost: the candidate's `token_estimate`, else its count. Never renders. A selection is
made on flat lists and marks nothing, for a rule may try several; `settle` marks the one that holds.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, count

from msgspec import Struct

from apportion.core.overlap.selection_order import Order
from apportion.core.results import Fidelity
from apportion.core.strategies.lanes.policy import Lane
from apportion.core.strategies.lanes.quota import QuotaTable, QuotaUse, quotas_of
from apportion.core.strategies.lanes.rank import Artifact
from apportion.core.strategy_api.verdict import Bound, mark_covered

# loops over candidates read these: Python 3.11 takes 0.05 to 0.2 µs to look up a member of an enum
_FULL, _LANE, _LIMIT = Fidelity.FULL, Bound.LANE, Bound.LIMIT


class Choosable(Struct, frozen=True):
    """The candidates that can be chosen, by place in canonical order, and what bounds them, by lane.

    `costs` and `scores` are those of `ones`, `lane_of` the places of their lanes; `available` is what each
    lane's candidates cost together. `floors` are the places of the lanes with a floor and a candidate, by
    priority, each with the candidates that are not `protected`; `rest` are those of all lanes. `quotas` are
    those of sources, None where there are none.
    """

    ones: Sequence[Artifact]
    costs: Sequence[int]
    scores: Sequence[int]
    lane_of: Sequence[int]
    lanes: Sequence[Lane]
    available: Sequence[int]
    protected: Sequence[int]
    floors: Sequence[tuple[int, Sequence[int]]]
    rest: Sequence[int]
    limit_tokens: int
    quotas: QuotaTable | None

    def quota_use(self) -> QuotaUse | None:
        """Return the use of quotas before anything is selected."""
        return None if self.quotas is None else QuotaUse(self.quotas, self.costs)

    def claim(self, lane: int) -> int:
        """Return what a lane's floor can ask for, at the start."""
        return min(self.lanes[lane].floor, self.available[lane])


class Rejection(Struct, frozen=True, gc=False):
    """What kept a candidate out when it was considered last, and what was left for it then."""

    place: int
    bound: Bound
    left: int
    limit_left: int
    """What was left of the limit, which is not always the bound."""


class Selection:
    """What is selected, by place, and what each lane has used of it; `value` is Σ score · cost.

    `tight` are the lanes whose ceiling refused what their floor would have taken. The others say who was out
    when considered last: `redundant` are those of which others said all. `over_quota` are those that the
    quota of their source refused. `refused` are the rest, if they are recorded.
    """

    __slots__ = (
        "_choosable",
        "_quota_use",
        "_rest",
        "left_tokens",
        "order",
        "over_quota",
        "redundant",
        "refused",
        "taken",
        "tight",
        "used",
        "value",
    )

    def __init__(self, choosable: Choosable, order: Order) -> None:
        self.taken = bytearray(len(choosable.ones))
        self.used = [0] * len(choosable.lanes)
        self.left_tokens = choosable.limit_tokens
        self.value = 0
        self.tight: set[int] = set()
        self.refused: list[Rejection] = []
        self.redundant: list[int] = []
        self.over_quota: list[int] = []
        self.order = order
        self._choosable = choosable
        self._quota_use = choosable.quota_use()
        self._rest: Iterator[int] = iter(())

    def take(self, place: int) -> None:
        """Select a candidate, whether it fits or not."""
        choosable = self._choosable
        cost = choosable.costs[place]
        self.taken[place] = 1
        self.used[choosable.lane_of[place]] += cost
        self.left_tokens -= cost
        if self._quota_use is not None:
            self._quota_use.take(place)
        self.value += self.order.taken(place) * cost

    def fill_holding_back(self) -> None:
        """Select for the floors in turn, of the limit holding back what those of other lanes can claim."""

        # of what stands already, nothing is left to claim: a lane without another candidate has no claim
        def unmet(lane: int) -> int:
            return max(0, self._choosable.claim(lane) - self.used[lane])

        floors = self._choosable.floors
        reserve = sum([unmet(lane) for lane, _ in floors])
        for lane, places in floors:
            reserve -= unmet(lane)
            self.fill_floor(lane, places, reserve)
            reserve += unmet(lane)

    def fill_floor(self, lane: int, places: Sequence[int], reserve: int) -> None:
        """Select what fits into the lane and the limit less the reserve, until the floor is met."""
        taken, used, costs, quota_use = self.taken, self.used, self._choosable.costs, self._quota_use
        floor, ceiling = self._choosable.lanes[lane].floor, self._choosable.lanes[lane].ceiling
        for place in self.order.arrange(places):
            if used[lane] >= floor:
                break
            cost = costs[place]
            if not taken[place] and (quota_use is None or not quota_use.refuses(place)):
                if cost > ceiling - used[lane]:
                    self.tight.add(lane)
                elif cost <= self.left_tokens - reserve:
                    self.take(place)

    def fill(self, places: Sequence[int], *, tells: bool) -> None:
        """Select what fits into its lane and the limit; where it `tells`, say what refused all others."""
        self._rest = iter(self.order.arrange(places))
        self._go_on(tells=tells)

    def tell(self) -> None:
        """Say what refused the others, where `fill` stopped because nothing could fit any more."""
        self._go_on(tells=True)

    def _go_on(self, *, tells: bool) -> None:
        taken, used, lanes = self.taken, self.used, self._choosable.lanes
        costs, lane_of = self._choosable.costs, self._choosable.lane_of
        least_tokens = 0 if tells else min(map(costs.__getitem__, self._choosable.rest), default=0)
        redundant, quota_use = self.order.redundant, self._quota_use
        for place in self._rest:
            if place in redundant:
                self.redundant.append(place)
            elif taken[place]:
                continue
            elif quota_use is not None and quota_use.refuses(place):
                self.over_quota.append(place)
            else:
                cost, lane = costs[place], lane_of[place]
                left = self.left_tokens
                lane_left = lanes[lane].ceiling - used[lane]
                if cost <= lane_left and cost <= left:
                    self.take(place)
                else:
                    refusal = (_LANE, lane_left) if cost > lane_left else (_LIMIT, left)
                    self.refused.append(Rejection(place, *refusal, left))
                    if left < least_tokens and not tells:
                        break


def choosable_of(ranked: Iterable[Artifact], lanes: Iterable[Lane], limit_tokens: int) -> Choosable:
    """Return those of candidates in canonical order that nothing has refused, and their lanes by priority."""
    artifacts = [artifact for artifact in ranked if artifact.bound is None]
    by_priority = list(lanes)
    costs: list[int] = []
    scores: list[int] = []
    lane_of: list[int] = []
    protected: list[int] = []
    rest: list[int] = []
    available = [0] * len(by_priority)
    to_floors: dict[int, list[int]] = {}
    for place, artifact in enumerate(artifacts):
        cost, lane = artifact.cost, artifact.lane
        costs.append(cost)
        scores.append(artifact.score or 0)  # type: ignore[arg-type] # a score of lanes is 1,000 at most
        lane_of.append(lane.place)
        available[lane.place] += cost
        if artifact.prepared.protected:
            protected.append(place)
        else:
            rest.append(place)
            if lane.floor:
                to_floors.setdefault(lane.place, []).append(place)
    return Choosable(
        ones=artifacts,
        costs=costs,
        scores=scores,
        lane_of=lane_of,
        lanes=by_priority,
        available=available,
        protected=protected,
        floors=sorted(to_floors.items()),
        rest=rest,
        limit_tokens=limit_tokens,
        quotas=quotas_of(artifacts) if any(lane.quota is not None for lane in by_priority) else None,
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
    if len(choosable.floors) > 1:
        selection.fill_holding_back()
    for lane, places in choosable.floors:
        selection.fill_floor(lane, places, 0)
    selection.fill(choosable.rest, tells=tells)
    return selection


def output_order(choosable: Choosable, selection: Selection, first: Iterable[int] = ()) -> Sequence[int]:
    """Return the places of what is selected: these first, then by lane priority, then canonical order."""
    order = dict.fromkeys(first)
    rest = [place for place in compress(count(), selection.taken) if place not in order]
    rest.sort(key=choosable.lane_of.__getitem__)
    return [*order, *rest] if order else rest


def settle(choosable: Choosable, selection: Selection, displaced: Iterable[int] = ()) -> None:
    """Mark what is selected, and for the others the bound that refused them at last.

    What was `displaced` by what is held, of that bound.
    """
    for artifact in compress(choosable.ones, selection.taken):
        artifact.fidelity = _FULL
    for refusal in selection.refused:
        artifact = choosable.ones[refusal.place]
        artifact.refuse(refusal.bound, artifact.cost, refusal.left)
    for place in selection.over_quota:
        choosable.ones[place].bound = Bound.SOURCE
    for place in selection.redundant:
        choosable.ones[place].bound = Bound.REDUNDANCY
    if selection.order.covered:
        mark_covered(choosable.ones, selection.order.covered)
    for place in displaced:
        choosable.ones[place].bound = Bound.PREFIX
