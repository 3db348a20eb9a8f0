"""Quotas of sources: the items and the selection cost that candidates of one source may take of a lane.

Every selected candidate counts, also held and protected ones. Protected candidates are never rejected.
"""

from collections.abc import Sequence

from msgspec import UNSET, Struct

from apportion.core.strategies.lanes.policy import SourceQuota
from apportion.core.strategies.lanes.rank import Artifact

_NONE = -1


class QuotaTable(Struct, frozen=True):
    """The quotas of all sources, and for each candidate the number of its quota, or -1 for none."""

    quota_of: Sequence[int]
    quotas: Sequence[SourceQuota]


def quotas_of(artifacts: Sequence[Artifact]) -> QuotaTable | None:
    """Return the quotas of candidates; None if no candidate has one."""
    numbers: dict[tuple[int, str], int] = {}
    quota_of, quotas = [_NONE] * len(artifacts), list[SourceQuota]()
    for index, artifact in enumerate(artifacts):
        source, quota = artifact.prepared.facts.source, artifact.lane.quota
        if quota is not None and source is not UNSET:
            number = quota_of[index] = numbers.setdefault((artifact.lane.index, source), len(quotas))
            if number == len(quotas):
                quotas.append(quota)
    return QuotaTable(quota_of, quotas) if quotas else None


class QuotaUse:
    """The items and tokens that one selection has used of each quota."""

    def __init__(self, table: QuotaTable, costs: Sequence[int]) -> None:
        self._table = table
        self._costs = costs
        self._items = [0] * len(table.quotas)
        self._tokens = [0] * len(table.quotas)

    def take(self, index: int) -> None:
        """Count a selected candidate, whether it fits or not."""
        number = self._table.quota_of[index]
        if number != _NONE:
            self._items[number] += 1
            self._tokens[number] += self._costs[index]

    def refuses(self, index: int) -> bool:
        """Return whether the candidate does not fit into the rest of its quota."""
        number = self._table.quota_of[index]
        if number == _NONE:
            return False
        quota = self._table.quotas[number]
        if quota.items is not None and self._items[number] >= quota.items:
            return True
        return quota.tokens is not None and self._tokens[number] + self._costs[index] > quota.tokens
