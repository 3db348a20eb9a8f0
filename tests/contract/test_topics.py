"""The commands `topics create` and `check` on every broker, embedded or real."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewTopic
from support.commands import process

from apportion.settings import Settings
from apportion.shell.kafka import topics
from apportion.shell.kafka.admin import admin_client
from apportion.shell.kafka.topics import (
    MESSAGE_MAX_BYTES,
    Topic,
    TopicDifference,
    TopicReport,
    TopicsNotReadyError,
    TopicStatus,
    check_topics,
    create_topics,
    of_worker,
    plan_topics,
    require_ready,
)

pytestmark = pytest.mark.asyncio


@dataclass(frozen=True, slots=True)
class Named:
    """A factory of settings with topics of this test only."""

    bootstrap_servers: str
    prefix: str

    def __call__(self, **values: Any) -> Settings:
        kinds = ("requests", "policies", "composed", "decisions", "dead_letters", "usage")
        names = {f"{kind}_topic": f"{self.prefix}-{kind}" for kind in kinds}
        given: dict[str, Any] = {"partitions": 4, "replication_factor": 1}
        return Settings(
            brokers=tuple(self.bootstrap_servers.split(",")), app_id=self.prefix, **given | names | values
        )


@pytest.fixture
def named(bootstrap_servers: str) -> Named:
    return Named(bootstrap_servers, f"test-{uuid.uuid4()}")


async def create(settings: Settings, topic: Topic) -> None:
    new = NewTopic(topic.name, topic.partitions, topic.replication_factor, topic_configs=dict(topic.configs))
    async with admin_client(settings) as admin:
        await admin.create_topics([new])


async def names_of(settings: Settings) -> set[str]:
    async with admin_client(settings) as admin:
        return {name for name in await admin.list_topics() if name.startswith(settings.app_id)}


async def test_creating_makes_every_topic_of_the_plan(named: Named) -> None:
    settings = named(partitions=3)
    reports = await create_topics(settings)
    assert [report.topic for report in reports] == [topic.name for topic in plan_topics(settings)]
    assert {report.status for report in reports} == {TopicStatus.CREATED}
    assert await names_of(settings) == {topic.name for topic in plan_topics(settings)}


async def test_three_replicas_on_one_broker_are_a_one_line_error(named: Named) -> None:
    settings = named()
    given = (
        "--brokers",
        ",".join(settings.brokers),
        "--app-id",
        settings.app_id,
        "--topic-prefix",
        settings.app_id,
    )
    done = await asyncio.to_thread(process, "topics", "create", *given, "--production")
    assert (done.exit_code, done.out) == (1, b"")
    assert done.err == (
        "apportion: too_few_brokers: 3 copies need 3 brokers, and the cluster has 1; "
        "leave out --production, or lower --replication-factor\n"
    )
    assert await names_of(settings) == set()


async def test_created_topics_match_their_plan(named: Named) -> None:
    settings = named(partitions=3)
    await create_topics(settings)
    reports = await check_topics(settings)
    assert {report.status for report in reports} == {TopicStatus.EXISTS}
    require_ready(reports)


async def test_creating_again_finds_everything_there(named: Named) -> None:
    settings = named()
    await create_topics(settings)
    assert {report.status for report in await create_topics(settings)} == {TopicStatus.EXISTS}


async def test_concurrent_creation_succeeds_for_every_client(named: Named) -> None:
    settings = named()
    reports = await asyncio.gather(*(create_topics(settings) for _ in range(3)))
    by_topic = [[report.status for report in of_topic] for of_topic in zip(*reports, strict=True)]
    assert all(sorted(statuses) == ["created", "exists", "exists"] for statuses in by_topic)


async def test_checking_names_missing_topics_and_creates_none(named: Named) -> None:
    settings = named()
    for _ in range(2):
        reports = await check_topics(settings)
        assert {report.status for report in reports} == {TopicStatus.MISSING}
    assert await names_of(settings) == set()
    with pytest.raises(TopicsNotReadyError, match=r"-requests \(missing\).*topics create"):
        require_ready(reports)


async def test_creation_adds_only_missing_topics(named: Named) -> None:
    settings = named()
    await create(settings, plan_topics(settings)[0])
    statuses = [report.status for report in await create_topics(settings)]
    assert statuses == [TopicStatus.EXISTS] + [TopicStatus.CREATED] * (len(plan_topics(settings)) - 1)


async def test_a_worker_needs_no_topic_of_usage(named: Named) -> None:
    settings = named()
    for topic in plan_topics(settings):
        if topic.name != settings.usage_topic:
            await create(settings, topic)
    reports = await check_topics(settings)
    require_ready(of_worker(reports, settings))
    with pytest.raises(TopicsNotReadyError, match=settings.usage_topic):
        require_ready(reports)


@pytest.mark.parametrize("report_topics", [create_topics, check_topics])
async def test_another_partition_count_is_reported_and_kept(
    named: Named, report_topics: Callable[[Settings], Awaitable[tuple[TopicReport, ...]]]
) -> None:
    await create_topics(named(partitions=2))
    settings = named(partitions=3)
    reports = await report_topics(settings)
    differing = [report for report in reports if report.status is TopicStatus.DIFFERS]
    assert {report.differences for report in differing} == {(TopicDifference("partitions", "3", "2"),)}
    assert [report.topic for report in reports if report.is_ready] == [settings.policies_topic]
    with pytest.raises(TopicsNotReadyError):
        require_ready(reports)


async def test_another_config_is_reported(named: Named) -> None:
    settings = named()
    requests = plan_topics(settings)[0]
    configs = (("cleanup.policy", "compact"), *requests.configs[1:])
    await create(settings, Topic(requests.name, requests.partitions, requests.replication_factor, configs))
    [report, *_] = await check_topics(settings)
    assert report.status is TopicStatus.DIFFERS
    assert report.differences == (TopicDifference("cleanup.policy", "delete", "compact"),)


async def test_another_replication_factor_is_reported(named: Named) -> None:
    await create_topics(named())
    [report, *_] = await check_topics(named(replication_factor=2))
    assert report.status is TopicStatus.DIFFERS
    assert report.differences == (TopicDifference("replication_factor", "2", "1"),)


async def test_more_copies_than_planned_are_fine_and_fewer_in_sync_are_not(
    named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = named()
    await create_topics(settings)
    plan = plan_topics(settings)
    for planned, told in (("0", []), ("2", ["min.insync.replicas is 1, planned 2"])):
        configs = (("min.insync.replicas", planned),)
        changed = Topic(plan[0].name, plan[0].partitions, plan[0].replication_factor, configs)
        monkeypatch.setattr(topics, "plan_topics", lambda _, changed=changed: (changed,))
        [report] = await check_topics(settings)
        assert [str(difference) for difference in report.differences] == told


async def test_a_topic_may_allow_more_than_planned_but_not_less(
    named: Named,
) -> None:
    """Longer times, larger records, and any compression: a client reads them all."""
    settings = named()
    requests = plan_topics(settings)[0]
    larger = {"max.message.bytes": "10485760", "retention.ms": "-1", "compression.type": "lz4"}
    configs = tuple((dict(requests.configs) | larger).items())
    await create(settings, Topic(requests.name, requests.partitions, requests.replication_factor, configs))
    await create_topics(settings)
    for shorter in (settings, named(retention_s=60, audit_retention_s=90)):
        require_ready(await check_topics(shorter))
    reports = await check_topics(named(retention_s=700_000, audit_retention_s=3_000_000))
    told = {report.topic.rpartition("-")[2]: [str(each) for each in report.differences] for report in reports}
    kept, audited = (
        "retention.ms is 604800000, planned 700000000",
        "retention.ms is 2592000000, planned 3000000000",
    )
    told_of_audited = [audited]
    assert told == {
        "requests": [],
        "policies": ["min.compaction.lag.ms is 691200000, planned 786400000"],
        "composed": [kept],
        "changelog": [],
        **dict.fromkeys(("decisions", "dead_letters", "usage"), told_of_audited),
    }
    with pytest.raises(TopicsNotReadyError, match=r"-composed \(differs: retention.ms is 604800000, planned"):
        require_ready(reports)


async def test_a_config_that_the_broker_rejects_does_not_prevent_a_topic(
    named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = named()
    requests = plan_topics(settings)[0]
    configs = (*requests.configs, ("no.such.config", "1"))
    plan = (Topic(requests.name, requests.partitions, requests.replication_factor, configs),)
    monkeypatch.setattr(topics, "plan_topics", lambda _: plan)
    [created] = await create_topics(settings)
    assert created.status is TopicStatus.CREATED
    [checked] = await check_topics(settings)
    assert checked.is_ready
    assert {difference.name for difference in checked.differences} <= {"no.such.config"}


async def test_a_decision_of_almost_four_megabytes_fits(named: Named) -> None:
    settings = named(partitions=1)
    await create_topics(settings)
    producer = AIOKafkaProducer(
        bootstrap_servers=list(settings.brokers), max_request_size=MESSAGE_MAX_BYTES, acks="all"
    )
    async with producer:
        value = b"0" * (MESSAGE_MAX_BYTES - 1000)
        written = await producer.send_and_wait(settings.decisions_topic, value)
    assert written.offset == 0
