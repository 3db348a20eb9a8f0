"""Quotas of sources: the part of a lane that candidates of one source may take.

A quota bounds items and selection costs. Every selected candidate counts, held and protected ones included.
It never refuses protected ones.
"""

from collections.abc import Sequence

from msgspec import UNSET, Struct

from apportion.core.strategies.lanes.policy import SourceQuota
from apportion.core.strategies.lanes.rank import Artifact

_NONE = -1


class QuotaTable(Struct, frozen=True):
    """The quotas of all sources, and for each place its quota's index, or -1 for none."""

    index_of: Sequence[int]
    quotas: Sequence[SourceQuota]


def quotas_of(artifacts: Sequence[Artifact]) -> QuotaTable | None:
    """Return the quotas of candidates, given by place; None if no candidate has one."""
    indices: dict[tuple[int, str], int] = {}
    index_of, quotas = [_NONE] * len(artifacts), list[SourceQuota]()
    for place, artifact in enumerate(artifacts):
        source, quota = artifact.prepared.facts.source, artifact.lane.quota
        if quota is not None and source is not UNSET:
            index = index_of[place] = indices.setdefault((artifact.lane.place, source), len(quotas))
            if index == len(quotas):
                quotas.append(quota)
    return QuotaTable(index_of, quotas) if quotas else None


class QuotaUse:
    """The items and tokens that one selection has used of each quota."""

    __slots__ = ("_costs", "_items", "_table", "_tokens")

    def __init__(self, table: QuotaTable, costs: Sequence[int]) -> None:
        """Begin with nothing; `costs` are those of all places."""
        self._table = table
        self._costs = costs
        self._items = [0] * len(table.quotas)
        self._tokens = [0] * len(table.quotas)

    def take(self, place: int) -> None:
        """Count a selected candidate, whether it fits or not."""
        index = self._table.index_of[place]
        if index != _NONE:
            self._items[index] += 1
            self._tokens[index] += self._costs[place]

    def refuses(self, place: int) -> bool:
        """Return whether the candidate does not fit into the rest of its quota."""
        index = self._table.index_of[place]
        if index == _NONE:
            return False
        quota = self._table.quotas[index]
        if quota.items is not None and self._items[index] >= quota.items:
            return True
        return quota.tokens is not None and self._tokens[index] + self._costs[place] > quota.tokens
