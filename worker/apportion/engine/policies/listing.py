"""Lists of a group's policies, and the differences between two sets, without reading files or topics."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from apportion.core.policies.timeline import Timeline, policy_key
from apportion.core.strategy_api.policy import Policy


class ListedPolicy(Struct, frozen=True):
    """A policy, its source, and the record time from which it applies; None: always."""

    policy: Policy
    source: Literal["built-in", "file", "topic"]
    counts_from_ms: int | None


def listed(timeline: Timeline, builtin: Iterable[Policy]) -> tuple[ListedPolicy, ...]:
    """Return a group's policies once all apply: of files, then of the topic, which replace equal ones."""
    shipped = {policy.digest for policy in builtin}
    published = timeline.holding
    keys = {publication.key for publication in published}
    files = tuple(
        ListedPolicy(policy, "built-in" if policy.digest in shipped else "file", counts_from_ms)
        for policy, counts_from_ms in timeline.holding_files
        if policy_key(policy) not in keys
    )
    topic = tuple(
        ListedPolicy(publication.policy, "topic", publication.counts_from_ms)
        for publication in published
        if publication.policy is not None
    )
    return files + topic


def different(some: Iterable[Policy], others: Iterable[Policy]) -> tuple[str, ...]:
    """Return the versions that differ between two sets or are only in one, sorted, as `name@version`."""
    left, right = ({policy_key(policy): policy.digest for policy in policies} for policies in (some, others))
    return tuple(sorted(key for key in left.keys() | right.keys() if left.get(key) != right.get(key)))
