"""Topics of the worker: their plan, their creation, and the comparison with existing topics.

An existing topic is never changed or deleted, and no query creates a topic.
"""

import asyncio
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidConfigurationError,
    PolicyViolationError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    for_code,
)
from msgspec import Struct

from apportion.settings import Settings
from apportion.shell.kafka.admin import admin_client

MESSAGE_MAX_BYTES = 4 << 20
"""Four times the default bound of an event, because a decision names every candidate of its request."""
_HISTORY_S = 24 * 60 * 60
"""Time that superseded policies stay beyond the retention of requests: repeated requests need them."""
_COMPACTION_LAG_S = 60 * 60
"""Time before compaction may remove a superseded row from the changelog."""
_TOMBSTONES_S = 24 * 60 * 60
"""Time that tombstones stay in a compacted topic; a read from its beginning must be faster."""
_MORE_IS_FINE = frozenset(
    (
        "replication_factor",
        "min.insync.replicas",
        "max.message.bytes",
        "retention.ms",
        "delete.retention.ms",
        "min.compaction.lag.ms",
    )
)
_FOR_EVER = "-1"
_POLL_S = 0.05

Configs = tuple[tuple[str, str], ...]
"""Configs by importance. If a broker rejects them, the last is dropped, then the next to last, and so on."""


class Topic(Struct, frozen=True):
    """A planned topic."""

    name: str
    partitions: int
    replication_factor: int
    configs: Configs


class TopicDifference(Struct, frozen=True):
    """A difference from the plan; `actual` is None for a config that the broker does not know."""

    name: str
    planned: str
    actual: str | None

    def __str__(self) -> str:
        if self.actual is None:
            return f"{self.name}={self.planned} is unknown to this broker"
        return f"{self.name} is {self.actual}, planned {self.planned}"


class TopicStatus(StrEnum):
    """The state of a topic compared with its plan; the last three are failures."""

    CREATED = "created"
    EXISTS = "exists"
    MISSING = "missing"
    DIFFERS = "differs"
    REFUSED = "refused"


class TopicReport(Struct, frozen=True):
    """The status of a topic, and the reasons."""

    topic: str
    status: TopicStatus
    differences: tuple[TopicDifference, ...] = ()
    refusal: str = ""

    def __str__(self) -> str:
        why = self.refusal or "; ".join(map(str, self.differences))
        return f"{self.topic} ({self.status}{why and f': {why}'})"

    @property
    def is_ready(self) -> bool:
        """Whether the worker can use the topic."""
        return self.status in (TopicStatus.CREATED, TopicStatus.EXISTS)


class TopicsNotReadyError(Exception):
    """Topics are missing, differ from the plan, or could not be created."""

    code = "topics_not_ready"

    def __init__(self, reports: Iterable[TopicReport]) -> None:
        self.reports = tuple(reports)
        named = ", ".join(map(str, self.reports))
        super().__init__(
            f"not as planned: {named}; `apportion topics create` makes missing topics, "
            "but one that exists is yours to change, or the settings are"
        )


class PartitionsChangedError(Exception):
    """A topic's number of partitions differs from the configured number."""

    code = "partitions_changed"

    def __init__(self, changes: str, partitions: int) -> None:
        super().__init__(
            f"{changes}, where the worker goes by {partitions}: a session's row lies where its key lay, so "
            "sessions would start afresh; docs/operations/repair.md says how to come to more partitions"
        )


class OneCopyError(Exception):
    """Topics would have one copy, although the cluster has several brokers."""

    code = "one_copy"

    def __init__(self, brokers: int) -> None:
        super().__init__(
            f"this cluster has {brokers} brokers, and topics of one copy would lose what one of them loses: "
            "--production makes three copies, --replication-factor 1 one all the same"
        )


class _Actual(Struct, frozen=True):
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


def changelog_topic(settings: Settings) -> str:
    """Return the name that Faust gives to the changelog of the table `sessions`."""
    return f"{settings.app_id}-sessions-changelog"


def plan_topics(settings: Settings) -> tuple[Topic, ...]:
    """Return every topic: the worker's inputs, outputs and changelog, then the sink's usage topic."""
    # The order of policies and requests must not depend on a producer's clock.
    stamped = ("message.timestamp.type", "LogAppendTime")
    history = _ms("min.compaction.lag.ms", settings.retention_s + _HISTORY_S)

    def topic(name: str, *configs: tuple[str, str], partitions: int = settings.partitions) -> Topic:
        common = (
            ("max.message.bytes", str(MESSAGE_MAX_BYTES)),
            ("min.insync.replicas", str(settings.copies_in_sync_min)),
            ("compression.type", "producer"),
        )
        return Topic(name, partitions, settings.copies, (configs[0], *common, *configs[1:]))

    kept = (("cleanup.policy", "delete"), _ms("retention.ms", settings.retention_s))
    audited = (("cleanup.policy", "delete"), _ms("retention.ms", settings.audit_retention_s))
    compacted = (("cleanup.policy", "compact"), _ms("delete.retention.ms", _TOMBSTONES_S))
    lagging = _ms("min.compaction.lag.ms", _COMPACTION_LAG_S)
    return (
        topic(settings.requests_topic, *kept, stamped),
        topic(settings.policies_topic, *compacted, stamped, history, partitions=1),
        topic(settings.composed_topic, *kept),
        topic(settings.decisions_topic, *audited),
        topic(settings.dead_letters_topic, *audited),
        topic(changelog_topic(settings), *compacted, lagging),
        topic(settings.usage_topic, *audited),
    )


def _ms(name: str, seconds: int) -> tuple[str, str]:
    return name, str(seconds * 1000)


async def check_topics(settings: Settings) -> tuple[TopicReport, ...]:
    """Compare the topics with their plan; the reports are in its order; raises as `admin_client`."""
    plan = plan_topics(settings)
    async with admin_client(settings) as admin:
        actual = await _actual(admin, plan)
    return tuple(_report(topic, actual.get(topic.name)) for topic in plan)


async def create_topics(settings: Settings) -> tuple[TopicReport, ...]:
    """Create the missing topics, and compare all with their plan; the reports are in the plan's order.

    If a broker rejects a config, the topic is created without it, and the report says so. Raises
    OneCopyError if several brokers would keep one copy by default, and the errors of `admin_client`.
    """
    plan = plan_topics(settings)
    async with admin_client(settings) as admin:
        brokers = len((await admin.describe_cluster())["brokers"])
        if brokers > 1 and settings.copies == 1 and settings.replication_factor is None:
            raise OneCopyError(brokers)
        existing = await _actual(admin, plan)
        refusals = {topic.name: await _create(admin, topic) for topic in plan if topic.name not in existing}
        there = {name for name, refusal in refusals.items() if not refusal}
        async with asyncio.timeout(settings.request_timeout_s):
            while not there <= (actual := await _actual(admin, plan)).keys():  # noqa: ASYNC110 - the broker sends no event
                await asyncio.sleep(_POLL_S)
    return tuple(
        TopicReport(topic.name, TopicStatus.REFUSED, refusal=refusal)
        if (refusal := refusals.get(topic.name))
        else _report(topic, actual.get(topic.name), created=refusals.get(topic.name) == "")
        for topic in plan
    )


def worker_topics(settings: Settings) -> tuple[str, ...]:
    """Return the names of the topics that the worker needs."""
    return tuple(topic.name for topic in plan_topics(settings) if topic.name != settings.usage_topic)


def of_worker(reports: Iterable[TopicReport], settings: Settings) -> tuple[TopicReport, ...]:
    """Return the reports of the topics that the worker needs."""
    return tuple(report for report in reports if report.topic != settings.usage_topic)


def require_ready(reports: Iterable[TopicReport]) -> None:
    """Raise TopicsNotReadyError, which names each topic that cannot be used."""
    if failed := [report for report in reports if not report.is_ready]:
        raise TopicsNotReadyError(failed)


def require_same_partitions(settings: Settings, reports: Iterable[TopicReport]) -> None:
    """Raise PartitionsChangedError, which names each topic without the planned number of partitions."""
    changed = [
        f"{report.topic} has {difference.actual} partitions"
        for report in reports
        for difference in report.differences
        if difference.name == "partitions"
    ]
    if changed:
        raise PartitionsChangedError(", ".join(changed), settings.partitions)


async def _actual(admin: Any, plan: Iterable[Topic]) -> dict[str, _Actual]:
    # Query all topics and configs: many brokers create a missing topic that a query names, and the embedded
    # broker hangs up on a query that names configs.
    names = {topic.name for topic in plan}
    described = [topic for topic in await admin.describe_topics() if topic["topic"] in names]
    partitions = {topic["topic"]: topic["partitions"] for topic in described if not topic["error_code"]}
    responses = await admin.describe_configs(
        [ConfigResource(ConfigResourceType.TOPIC, name) for name in partitions]
    )
    configs = {}
    for code, _, _, name, entries in (resource for response in responses for resource in response.resources):
        if code == TopicAuthorizationFailedError.errno:
            raise TopicAuthorizationFailedError(name)
        configs[name] = {entry[0]: entry[1] for entry in entries}
    return {
        name: _Actual(len(of_topic), min(len(partition["replicas"]) for partition in of_topic), configs[name])
        for name, of_topic in partitions.items()
    }


async def _create(admin: Any, topic: Topic) -> str | None:
    """Create a topic, with as many configs as brokers accept; return "" or the error, None if it exists."""
    for taken in range(len(topic.configs), -1, -1):
        configs = dict(topic.configs[:taken])
        new = NewTopic(topic.name, topic.partitions, topic.replication_factor, topic_configs=configs)
        [(_, code, message)] = (await admin.create_topics([new])).topic_errors
        if code not in (InvalidConfigurationError.errno, PolicyViolationError.errno):
            break
    if code == TopicAlreadyExistsError.errno:
        return None
    return str(message or for_code(code).__name__) if code else ""


def _report(topic: Topic, actual: _Actual | None, *, created: bool = False) -> TopicReport:
    if actual is None:
        return TopicReport(topic.name, TopicStatus.MISSING)
    rows = (
        ("partitions", str(topic.partitions), str(actual.partitions)),
        ("replication_factor", str(topic.replication_factor), str(actual.replication_factor)),
        *((name, planned, actual.configs.get(name)) for name, planned in topic.configs),
    )
    differences = tuple(TopicDifference(*row) for row in rows if not _is_met(*row))
    if created:
        status = TopicStatus.CREATED
    elif any(difference.actual is not None for difference in differences):
        status = TopicStatus.DIFFERS
    else:
        status = TopicStatus.EXISTS
    return TopicReport(topic.name, status, differences)


def _is_met(name: str, planned: str, actual: str | None) -> bool:
    if name == "compression.type" and actual is not None:
        return True  # any compression can be read
    if name in _MORE_IS_FINE and actual is not None:
        return int(actual) >= int(planned) or (name, actual) == ("retention.ms", _FOR_EVER)
    return actual == planned
