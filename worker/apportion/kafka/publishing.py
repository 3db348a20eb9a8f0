"""Publishing policies, and telling which are: the other side of the policies topic.

Decides what may be published. A version never changes: neither one that the topic holds, nor one of a file or
a built-in one, for a topic's version stands before those.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from apportion.assembly import create_timeline
from apportion.core.policies.timeline import PolicyRefusal, Timeline, policy_key, policy_value
from apportion.core.policy import Policy
from apportion.kafka.outbound import OutboundRecord
from apportion.kafka.policies_topic import PARTITION, PolicyReader, write
from apportion.kafka.topics import check_topics, require_ready
from apportion.settings import Settings


class PolicyChangedError(Exception):
    """Versions are there already, with other content; nothing was published."""

    code = "policy_changed"

    def __init__(self, problems: Iterable[str]) -> None:
        super().__init__("\n".join(problems))


class PublishStatus(StrEnum):
    """What became of a policy: the topic has it now, or had it already."""

    PUBLISHED = "published"
    UNCHANGED = "unchanged"


class PublishedPolicy(Struct, frozen=True):
    """A policy that the topic has, and the record time from which on it counts."""

    policy: Policy
    status: PublishStatus
    counts_from_ms: int


async def read_timeline(settings: Settings) -> Timeline:
    """Return what the policies topic says now.

    Raises:
        PolicyError, SettingsError: this machine's own policies are wrong.
        BrokerUnreachableError, TopicsNotReadyError, PoliciesUnreadError: it cannot be read.
    """
    timeline, _ = await _read(settings)
    return timeline


async def publish_policies(settings: Settings, policies: Mapping[str, Policy]) -> tuple[PublishedPolicy, ...]:
    """Publish policies, given by the file that each is from, and return them in their order: all or none.

    What the topic has already is left, unless a record that was refused stands behind it: compaction would
    keep that one alone, so the good one is published again.

    Raises:
        PolicyChangedError: a version is there with other content, or somebody else was faster with one.
        PolicyError, SettingsError: this machine's own policies are wrong.
        BrokerUnreachableError, TopicsNotReadyError, PoliciesUnreadError: the topic cannot be used.
    """
    timeline, refusals = await _read(settings)
    held = {each.key: each.policy for each in timeline.holding if each.policy is not None}
    _require_unchanged(policies, {policy_key(each): each for each in timeline.own}, "a file or built-in one")
    _require_unchanged(policies, held, "the topic")
    settled_ms = {each.key: each.counts_from_ms for each in timeline.published}
    settle_ms = round(settings.policy_settle_s * 1000)
    behind_ms = {each.record.key: each.record.timestamp_ms + settle_ms for each in refusals}
    new = [
        (key, policy)
        for policy in policies.values()
        if (key := policy_key(policy)) not in held or behind_ms.get(key.encode(), -1) >= settled_ms[key]
    ]
    topic = settings.policies_topic
    await write(
        settings, [OutboundRecord(topic, PARTITION, key.encode(), policy_value(each)) for key, each in new]
    )
    published = {each.key: each for each in (await read_timeline(settings)).holding}
    _require_unchanged(
        policies, {key: each.policy for key, each in published.items() if each.policy}, "somebody else"
    )
    written = {key for key, _ in new}
    return tuple(
        PublishedPolicy(
            policy,
            PublishStatus.PUBLISHED if key in written else PublishStatus.UNCHANGED,
            published[key].counts_from_ms,
        )
        for policy in policies.values()
        if (key := policy_key(policy)) in published  # somebody may have removed it at once
    )


def _require_unchanged(policies: Mapping[str, Policy], known: Mapping[str, Policy], whose: str) -> None:
    """Pass if no policy, given by file, is known with other content.

    Raises:
        PolicyChangedError: naming each that is.
    """
    if changed := [
        f"{file}: version: {whose} has {policy_key(policy)} with other content; give it a new version"
        for file, policy in policies.items()
        if known.get(policy_key(policy), policy).digest != policy.digest
    ]:
        raise PolicyChangedError(changed)


async def _read(settings: Settings) -> tuple[Timeline, tuple[PolicyRefusal, ...]]:
    """Return what the topic says, and what is refused in it. Checked before, for asking could make it."""
    reader = PolicyReader(settings, create_timeline(settings))
    reports = await check_topics(settings)
    require_ready(each for each in reports if each.topic == settings.policies_topic)
    async with reader.connected() as refusals:
        return reader.timeline, refusals
