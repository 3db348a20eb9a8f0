"""Quotas of sources: the items and the selection cost that candidates of one source may take of a lane.

Every selected candidate counts, even if it is held or protected. Protected candidates are never rejected.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import UNSET

from apportion.core.events import Opt
from apportion.core.strategies.lanes.rank import Artifact


def has_quota(artifact: Artifact) -> bool:
    """Return whether a candidate has a source and its lane has a quota."""
    return artifact.lane.quota is not None and artifact.prepared.facts.source is not UNSET


class QuotaUse:
    """The items and tokens that one selection has used of each lane's and source's quota."""

    def __init__(self, artifacts: Sequence[Artifact]) -> None:
        self._artifacts = artifacts
        self._items: Counter[tuple[str, Opt[str]]] = Counter()
        self._tokens: Counter[tuple[str, Opt[str]]] = Counter()

    def take(self, index: int) -> None:
        """Count a selected candidate, even if it exceeds the quota."""
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
