"""Selection in lanes, by selection cost. `settle` writes the final one of several into the verdicts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, count
from typing import TypeVar

from msgspec import UNSET, Struct

from apportion.core.events import Opt
from apportion.core.overlap.selection_order import Order
from apportion.core.results import Fidelity
from apportion.core.strategies.lanes.policy import Lane
from apportion.core.strategies.lanes.rank import Artifact
from apportion.core.strategy_api.verdict import Bound, mark_covered


def has_quota(artifact: Artifact) -> bool:
    """Return whether a candidate has a source, and its lane a quota."""
    return artifact.lane.quota is not None and artifact.prepared.facts.source is not UNSET


class QuotaUse:
    """The items and tokens that a selection has used of each quota; protected candidates use it, too."""

    def __init__(self, artifacts: Sequence[Artifact]) -> None:
        self._artifacts = artifacts
        self._items: Counter[tuple[str, Opt[str]]] = Counter()
        self._tokens: Counter[tuple[str, Opt[str]]] = Counter()

    def take(self, index: int) -> None:
        """Count a selected candidate, whether it fits or not."""
        artifact = self._artifacts[index]
        key = artifact.group, artifact.prepared.facts.source
        self._items[key] += 1
        self._tokens[key] += artifact.cost

    def refuses(self, index: int) -> bool:
        """Return whether the candidate does not fit into the rest of its quota."""
        artifact = self._artifacts[index]
        quota, key = artifact.lane.quota, (artifact.group, artifact.prepared.facts.source)
        if quota is None or not has_quota(artifact):
            return False
        if quota.items is not None and self._items[key] >= quota.items:
            return True
        return quota.tokens is not None and self._tokens[key] + artifact.cost > quota.tokens


_S = TypeVar("_S", bound="Selection")


class Choosable(Struct, frozen=True):
    """The candidates that no bound has rejected yet, in canonical order, and the lanes by priority.

    Candidates and lanes are given by their indices in `artifacts` and `lanes`.
    """

    artifacts: Sequence[Artifact]
    costs: Sequence[int]
    scores: Sequence[int]
    """In thousandths."""
    lane_of: Sequence[int]
    """The lane of each candidate."""
    lanes: Sequence[Lane]
    available: Sequence[int]
    """The cost of all candidates of each lane."""
    protected: Sequence[int]
    floors: Sequence[tuple[int, Sequence[int]]]
    """The lanes with a floor above 0 and with unprotected candidates, and these candidates."""
    rest: Sequence[int]
    """The unprotected candidates of all lanes."""
    limit_tokens: int
    has_quotas: bool
    """True if a candidate has a quota of its source."""

    def claim(self, lane: int) -> int:
        """Return the tokens that a lane's floor can use at most."""
        return min(self.lanes[lane].floor, self.available[lane])


class Rejection(Struct, frozen=True, gc=False):
    """The bound that rejected a candidate when it was considered last, and the tokens that it had left."""

    index: int
    bound: Bound
    left: int
    limit_left: int
    """The tokens left of the limit, which may not be the bound."""


class Selection:
    """A selection in progress. Candidates and lanes are indices into its `Choosable`."""

    def __init__(self, choosable: Choosable, order: Order) -> None:
        self.taken = bytearray(len(choosable.artifacts))
        """1 for each selected candidate."""
        self.used = [0] * len(choosable.lanes)
        """The tokens used of each lane."""
        self.left_tokens = choosable.limit_tokens
        self.value = 0
        """Σ score · cost of the selected candidates, by their discounted scores if the order discounts."""
        self.tight: set[int] = set()
        """The lanes whose ceiling rejected a candidate for their floor."""
        self.rejections: list[Rejection] = []
        """The candidates that limit or ceiling rejected."""
        self.redundant: list[int] = []
        """The candidates that selected ones cover completely."""
        self.over_quota: list[int] = []
        """The candidates that the quota of their source rejected."""
        self.order = order
        self.reserve = 0
        """The tokens of the limit that are kept for other lanes at present."""
        self.choosable = choosable
        self.quota_use = QuotaUse(choosable.artifacts) if choosable.has_quotas else None
        self._rest: Iterator[int] = iter(())

    def take(self, index: int) -> None:
        """Select a candidate, whether it fits or not."""
        choosable = self.choosable
        cost = choosable.costs[index]
        self.taken[index] = 1
        self.used[choosable.lane_of[index]] += cost
        self.left_tokens -= cost
        if self.quota_use is not None:
            self.quota_use.take(index)
        self.value += self.order.taken(index) * cost

    def fill_with_reserve(self) -> None:
        """Fill the floors in turn, with a reserve of the limit for the unmet claims of other lanes."""

        # Selected candidates reduce the claim. A lane without further candidates has no unmet claim.
        def unmet(lane: int) -> int:
            return max(0, self.choosable.claim(lane) - self.used[lane])

        floors = self.choosable.floors
        self.reserve = sum([unmet(lane) for lane, _ in floors])
        for lane, indices in floors:
            self.reserve -= unmet(lane)
            self.fill_floor(lane, indices)
            self.reserve += unmet(lane)
        self.reserve = 0

    def fill_floor(self, lane: int, indices: Sequence[int]) -> None:
        """Select candidates that fit into the lane and into the limit minus the reserve, up to the floor."""
        taken, used, costs, quota_use = self.taken, self.used, self.choosable.costs, self.quota_use
        floor, ceiling = self.choosable.lanes[lane].floor, self.choosable.lanes[lane].ceiling
        for index in self.order.arrange(indices):
            if used[lane] >= floor:
                break
            cost = costs[index]
            if not taken[index] and (quota_use is None or not quota_use.refuses(index)):
                if cost > ceiling - used[lane]:
                    self.tight.add(lane)
                elif cost <= self.left_tokens - self.reserve:
                    self.take(index)

    def fill(self, indices: Sequence[int], *, records_all: bool) -> None:
        """Select the candidates that fit into their lane, their source's quota and the limit.

        Without `records_all`, stop when nothing can fit any more. `record_rest` then records the others.
        """
        self._rest = iter(self.order.arrange(indices))
        self._continue(records_all=records_all)

    def record_rest(self) -> None:
        """Record the rejections of the candidates that `fill` has not considered."""
        self._continue(records_all=True)

    def _continue(self, *, records_all: bool) -> None:
        taken, used, lanes = self.taken, self.used, self.choosable.lanes
        costs, lane_of = self.choosable.costs, self.choosable.lane_of
        least_tokens = 0 if records_all else min(map(costs.__getitem__, self.choosable.rest), default=0)
        redundant, quota_use = self.order.redundant, self.quota_use
        for index in self._rest:
            if index in redundant:
                self.redundant.append(index)
            elif taken[index]:
                continue
            elif quota_use is not None and quota_use.refuses(index):
                self.over_quota.append(index)
            else:
                cost, lane = costs[index], lane_of[index]
                left = self.left_tokens
                lane_left = lanes[lane].ceiling - used[lane]
                if cost <= lane_left and cost <= left:
                    self.take(index)
                else:
                    bound = (Bound.LANE, lane_left) if cost > lane_left else (Bound.LIMIT, left)
                    self.rejections.append(Rejection(index, *bound, left))
                    if left < least_tokens and not records_all:
                        break


def choosable_of(ranked: Iterable[Artifact], lanes: Iterable[Lane], limit_tokens: int) -> Choosable:
    """Return the candidates without a bound; candidates are in canonical order, lanes by priority."""
    artifacts = [artifact for artifact in ranked if artifact.bound is None]
    by_priority = list(lanes)
    protected: list[int] = []
    rest: list[int] = []
    available = [0] * len(by_priority)
    to_floors: dict[int, list[int]] = {}
    for index, artifact in enumerate(artifacts):
        lane = artifact.lane
        available[lane.index] += artifact.cost
        (protected if artifact.prepared.protected else rest).append(index)
        if lane.floor and not artifact.prepared.protected:
            to_floors.setdefault(lane.index, []).append(index)
    return Choosable(
        artifacts=artifacts,
        costs=[artifact.cost for artifact in artifacts],
        scores=[artifact.score or 0 for artifact in artifacts],  # type: ignore[misc] # at most 1,000, no text
        lane_of=[artifact.lane.index for artifact in artifacts],
        lanes=by_priority,
        available=available,
        protected=protected,
        floors=sorted(to_floors.items()),
        rest=rest,
        limit_tokens=limit_tokens,
        has_quotas=any(lane.quota for lane in by_priority) and any(map(has_quota, artifacts)),
    )


def greedy(selection: _S, held: Iterable[int] = (), *, records_all: bool = True) -> _S:
    """Fill a selection: protected and held candidates without bounds, then floors, then the others.

    The first round of floors keeps a reserve for the unmet claims of other lanes. An unmet claim is
    the lesser of floor and available tokens, minus the used tokens. `records_all` is as in `Selection.fill`.
    """
    choosable = selection.choosable
    for index in choosable.protected:
        selection.take(index)
    for index in held:
        if not selection.taken[index]:
            selection.take(index)
    if len(choosable.floors) > 1:
        selection.fill_with_reserve()
    for lane, indices in choosable.floors:
        selection.fill_floor(lane, indices)
    selection.fill(choosable.rest, records_all=records_all)
    return selection


def output_order(choosable: Choosable, selection: Selection, first: Iterable[int] = ()) -> Sequence[int]:
    """Return the selected candidates: `first`, then the others by lane priority, then canonical order."""
    order = dict.fromkeys(first)
    rest = [index for index in compress(count(), selection.taken) if index not in order]
    rest.sort(key=choosable.lane_of.__getitem__)
    return [*order, *rest] if order else rest


def settle(choosable: Choosable, selection: Selection, displaced: Iterable[int] = ()) -> None:
    """Set the fidelity of the selected candidates, and the bound, margin and overlap of the others.

    `displaced` candidates get `Bound.PREFIX`.
    """
    artifacts = choosable.artifacts
    for artifact in compress(artifacts, selection.taken):
        artifact.fidelity = Fidelity.FULL
    for rejection in selection.rejections:
        artifact = artifacts[rejection.index]
        artifact.refuse(rejection.bound, artifact.cost, rejection.left)
    for index in selection.over_quota:
        artifacts[index].bound = Bound.SOURCE
    for index in selection.redundant:
        artifacts[index].bound = Bound.REDUNDANCY
    if selection.order.covered:
        mark_covered(artifacts, selection.order.covered)
    for index in displaced:
        artifacts[index].bound = Bound.PREFIX
