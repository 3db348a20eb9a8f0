"""Publication of policies in the policies topic, and the state of that topic.

A version never changes, neither in the topic nor in a policy file or a built-in policy.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from apportion.core.policies.timeline import PolicyRefusal, Timeline, policy_key, policy_value
from apportion.core.strategy_api.policy import Policy
from apportion.engine.assembly import create_timeline
from apportion.settings import Settings
from apportion.shell.kafka.policies_topic import PARTITION, PolicyReader, write
from apportion.shell.kafka.producer import OutboundRecord
from apportion.shell.kafka.topics import check_topics, require_ready


class PolicyChangedError(Exception):
    """Versions of policies exist with other content."""

    code = "policy_changed"

    def __init__(self, problems: Iterable[str]) -> None:
        super().__init__("\n".join(problems))


class PublishStatus(StrEnum):
    """The outcome for a policy: it was published now, or the topic had it already."""

    PUBLISHED = "published"
    UNCHANGED = "unchanged"


class PublishedPolicy(Struct, frozen=True):
    """A policy in the topic, and the record time from which it counts, in milliseconds since 1970."""

    policy: Policy
    status: PublishStatus
    counts_from_ms: int


async def read_timeline(settings: Settings) -> Timeline:
    """Return the current timeline of the policies topic.

    Raises PolicyError or SettingsError for this machine's own policies, and as `check_topics`,
    `require_ready` and `PolicyReader.connected` for the topic.
    """
    timeline, _ = await _read(settings)
    return timeline


async def publish_policies(settings: Settings, policies: Mapping[str, Policy]) -> tuple[PublishedPolicy, ...]:
    """Publish policies, given by their files; return them in order, without those removed meanwhile.

    A policy in the topic is published again only if a refused record with its key follows: compaction would
    keep only that record.

    Raises:
        PolicyChangedError: a version exists with other content. Nothing was published, unless somebody else
            published that version at the same time.
        Exception: errors of `read_timeline` and `write`; after an error of `write`, some may be published.
    """
    timeline, refusals = await _read(settings)
    current = {change.key: change.policy for change in timeline.holding if change.policy is not None}
    own = {policy_key(policy): policy for policy in timeline.own}
    _require_unchanged(policies, own, "a file or built-in one")
    _require_unchanged(policies, current, "the topic")
    hidden = _hidden(timeline, refusals, round(settings.policy_settle_s * 1000))
    new = {
        key: policy
        for policy in policies.values()
        if (key := policy_key(policy)) not in current or key in hidden
    }
    topic = settings.policies_topic
    await write(
        settings,
        [OutboundRecord(topic, PARTITION, key.encode(), policy_value(policy)) for key, policy in new.items()],
    )
    published = {change.key: change for change in (await read_timeline(settings)).holding}
    _require_unchanged(
        policies, {key: change.policy for key, change in published.items() if change.policy}, "somebody else"
    )
    return tuple(
        PublishedPolicy(
            policy,
            PublishStatus.PUBLISHED if key in new else PublishStatus.UNCHANGED,
            published[key].counts_from_ms,
        )
        for policy in policies.values()
        if (key := policy_key(policy)) in published  # somebody may have removed it at once
    )


def _hidden(timeline: Timeline, refusals: Iterable[PolicyRefusal], settle_ms: int) -> set[str]:
    """Return the keys of published policies that a refused record with the same key follows."""
    settled_ms = {change.key: change.counts_from_ms for change in timeline.published}
    refused_ms = {refusal.record.key: refusal.record.timestamp_ms + settle_ms for refusal in refusals}
    return {key for key, ms in settled_ms.items() if refused_ms.get(key.encode(), -1) >= ms}


def _require_unchanged(policies: Mapping[str, Policy], known: Mapping[str, Policy], whose: str) -> None:
    if changed := [
        f"{file}: version: {whose} has {policy_key(policy)} with other content; give it a new version"
        for file, policy in policies.items()
        if known.get(policy_key(policy), policy).digest != policy.digest
    ]:
        raise PolicyChangedError(changed)


async def _read(settings: Settings) -> tuple[Timeline, tuple[PolicyRefusal, ...]]:
    """Check that the topic exists as planned, and return its timeline and refused records."""
    reader = PolicyReader(settings, create_timeline(settings))
    reports = await check_topics(settings)
    require_ready(report for report in reports if report.topic == settings.policies_topic)
    async with reader.connected() as refusals:
        return reader.timeline, refusals
