"""What there is to tell of a group's policies: which they are, and where two sets of them differ.

Decides how policies are told, and reads neither a file nor a topic: a machine without Kafka's libraries can
list its own.
"""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from apportion.core.policies.timeline import Timeline, policy_key
from apportion.core.policy import Policy


class PolicySource(StrEnum):
    """Where a policy comes from."""

    BUILT_IN = "built-in"
    FILE = "file"
    TOPIC = "topic"


class ListedPolicy(Struct, frozen=True):
    """A policy, where it comes from, and the record time from which on it counts; None: always."""

    policy: Policy
    source: PolicySource
    counts_from_ms: int | None


def listed(timeline: Timeline, builtin: Iterable[Policy]) -> tuple[ListedPolicy, ...]:
    """Return the policies that the group goes by when all has settled: those of files, then the topic's.

    A version of the topic stands before one of a file, which is then left out.
    """
    shipped = {each.digest for each in builtin}
    holding = timeline.holding
    keys = {each.key for each in holding}
    files = tuple(
        ListedPolicy(
            policy, PolicySource.BUILT_IN if policy.digest in shipped else PolicySource.FILE, counts_from_ms
        )
        for policy, counts_from_ms in timeline.holding_files
        if policy_key(policy) not in keys
    )
    topic = tuple(
        ListedPolicy(each.policy, PolicySource.TOPIC, each.counts_from_ms)
        for each in holding
        if each.policy is not None
    )
    return files + topic


def different(some: Iterable[Policy], others: Iterable[Policy]) -> tuple[str, ...]:
    """Return the versions, `name@version` in order, that are not the same in both."""
    left, right = ({policy_key(each): each.digest for each in these} for these in (some, others))
    return tuple(sorted(key for key in left.keys() | right.keys() if left.get(key) != right.get(key)))
