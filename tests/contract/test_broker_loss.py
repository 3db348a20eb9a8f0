"""The death of one of three brokers under load: no worker ends, and no event is lost or charged twice."""

import asyncio
from collections.abc import Iterator

import pytest
from support.containers import Cluster, cluster
from support.requiring import DOCKER
from support.running import (
    assert_answered_and_charged_once,
    ids,
    own_settings,
    requests,
    staged,
    worker_running,
)

from apportion.settings import Settings
from apportion.shell.kafka.admin import admin_client
from apportion.shell.kafka.topics import OneCopyError, TopicStatus, check_topics, create_topics

pytestmark = pytest.mark.asyncio

TIMEOUTS = (
    "request_timeout_s",
    "delivery_timeout_s",
    "session_timeout_s",
    "rebalance_timeout_s",
    "recovery_timeout_s",
)
DEFAULTS = {name: getattr(Settings(), name) for name in TIMEOUTS}
"""The default timeouts, tested here; other tests have shorter ones."""


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[Cluster]:
    DOCKER.require()
    with cluster() as running:
        yield running


async def test_when_the_groups_coordinator_dies_the_workers_wait_for_another(three_brokers: Cluster) -> None:
    settings = own_settings(
        three_brokers.bootstrap_servers, partitions=6, replication_factor=None, production=True, **DEFAULTS
    )
    before, after = requests("before", 400), requests("after", 400)
    async with staged(settings) as stage:
        await stage.send(*before[:200])
        async with worker_running(settings) as first, worker_running(settings) as second:
            await stage.outputs.wait_for(lambda out: len(out.decisions) >= 100)
            async with admin_client(settings) as admin:
                coordinator = await admin.find_coordinator(settings.app_id)
            sending = asyncio.create_task(stage.send(*before[200:], *after))
            three_brokers.kill(coordinator)
            await sending
            await stage.outputs.wait_for(lambda out: out.answered(ids([*before, *after])))
            assert [worker.process.returncode for worker in (first, second)] == [None, None]
            assert [await first.stop(), await second.stop()] == [0, 0]
        await assert_answered_and_charged_once(stage, [*before, *after])


async def test_a_cluster_gets_one_replica_only_if_set(three_brokers: Cluster) -> None:
    # the cluster may be choosing a controller for the broker that is gone: short timeouts would expire
    unsaid = own_settings(three_brokers.bootstrap_servers, replication_factor=None, **DEFAULTS)
    with pytest.raises(OneCopyError, match=r"\d brokers.*--production"):
        await create_topics(unsaid)
    assert {report.status for report in await check_topics(unsaid)} == {TopicStatus.MISSING}
    said = own_settings(three_brokers.bootstrap_servers, replication_factor=1, **DEFAULTS)
    assert {report.status for report in await create_topics(said)} == {TopicStatus.CREATED}
