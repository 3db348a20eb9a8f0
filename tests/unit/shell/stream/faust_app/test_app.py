"""The app is a function of its settings."""

import asyncio
import subprocess
import sys

import pytest
from support.commands import ROOT, environment
from support.composing import answer, candidate, lanes_policy, request

from apportion.core.memory import Memory
from apportion.settings import Settings, SettingsError, load_settings
from apportion.shell.kafka.producer import RecordProducer
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES, changelog_topic
from apportion.shell.stream.faust_app.app import age_compositions, create_app, worker_name
from apportion.shell.stream.pipeline.exactly_once import ExactlyOnceWriter
from apportion.shell.stream.pipeline.queues import FifoQueue, TurnQueue
from apportion.shell.stream.pipeline.writer import EffectivelyOnceWriter
from apportion.shell.stream.run import STOP_TIMEOUT_S
from apportion.shell.stream.state.rows import PartitionRows


def test_no_module_builds_an_app_on_import() -> None:
    listing = (
        "import gc, pkgutil, importlib, faust, apportion.shell.stream\n"
        "for module in pkgutil.iter_modules(apportion.shell.stream.__path__, 'apportion.shell.stream.'):\n"
        "    importlib.import_module(module.name)\n"
        "assert not [found for found in gc.get_objects() if isinstance(found, faust.App)]\n"
    )
    subprocess.run([sys.executable, "-c", listing], env=environment(), cwd=ROOT, check=True)  # noqa: S603 - likewise


@pytest.mark.asyncio
async def test_old_compositions_are_forgotten_though_nothing_comes() -> None:
    memory = Memory()
    answer(request([candidate("a")]), lanes_policy(cache={"ttl_s": 1}), memory=memory)
    aging = asyncio.create_task(age_compositions(memory, 0.01))
    async with asyncio.timeout(30):
        while len(memory.compositions):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.01)
    aging.cancel()


def test_the_bound_of_remembered_compositions_is_the_setting() -> None:
    app = create_app(Settings(compositions_max_bytes=0))
    answer(request([candidate("a")]), lanes_policy(), memory=app.answers.memory)
    assert len(app.answers.memory.compositions) == 0


def test_two_apps_of_one_process_share_no_state() -> None:
    first, second = create_app(Settings(app_id="a")), create_app(Settings(app_id="b", partitions=8))
    assert (first.conf.id, second.conf.id) == ("a", "b")
    assert first.sessions is not second.sessions
    assert list(first.tables) == list(second.tables) == ["sessions"]
    assert second.conf.topic_partitions == 8


def test_the_table_has_the_changelog_that_topics_create_makes() -> None:
    settings = Settings(app_id="mine")
    assert create_app(settings).sessions.changelog_topic_name == changelog_topic(settings)


def test_faust_creates_opens_and_commits_nothing_by_default() -> None:
    conf = create_app(Settings()).conf
    assert not conf.web_enabled
    assert not conf.topic_allow_declare
    assert conf.topic_disable_leader
    assert conf.processing_guarantee.value == "at_least_once"
    assert conf.producer_acks == -1
    assert conf.stream_wait_empty
    assert conf.table_standby_replicas == 0


def test_the_brokers_come_from_the_settings() -> None:
    app = create_app(Settings(brokers=("a:1", "[::1]:2")))
    assert [str(url) for url in app.conf.broker] == ["kafka://a:1", "kafka://[::1]:2"]


def test_fausts_own_variables_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BROKER_URL", "APP_BROKER", "NODE_CLIENT_ID", "APP_STORE", "PROCESSING_GUARANTEE"):
        monkeypatch.setenv(name, "exactly_once")
    conf = create_app(Settings()).conf
    assert str(conf.store) == "memory:"
    assert conf.processing_guarantee.value == "at_least_once"


def test_each_timeout_of_faust_is_one_of_the_settings() -> None:
    settings = Settings(
        request_timeout_s=2.0,
        delivery_timeout_s=7.0,
        session_timeout_s=11.0,
        rebalance_timeout_s=16.0,
        recovery_timeout_s=19.0,
    )
    conf = create_app(settings).conf
    assert conf.producer_request_timeout == 2.0
    assert conf.broker_session_timeout == 11.0
    assert conf.broker_rebalance_timeout == 16.0
    assert conf.broker_request_timeout == 19.0


def test_joining_a_group_outlasts_a_rebalance_and_faust_takes_any_session() -> None:
    conf = create_app(Settings(rebalance_timeout_s=100.0)).conf
    assert conf.broker_request_timeout == 108.0
    assert create_app(Settings(session_timeout_s=200.0)).conf.broker_request_timeout == 200.0


def test_default_timeouts_outlast_a_broker_death_and_records_in_flight() -> None:
    settings = Settings()
    broker_session_s, election_s = 9.0, 1.0
    noticed_s = broker_session_s + election_s
    assert settings.delivery_timeout_s > noticed_s + settings.request_timeout_s  # a try began just before
    assert settings.session_timeout_s > settings.delivery_timeout_s + STOP_TIMEOUT_S
    assert create_app(settings).conf.broker_heartbeat_interval * 3 <= settings.session_timeout_s


@pytest.mark.asyncio
async def test_a_record_is_written_once_and_tried_for_as_long_as_a_delivery_may_take() -> None:
    client = RecordProducer(Settings(request_timeout_s=2.0, delivery_timeout_s=7.0))._new_client()
    try:
        assert client._txn_manager is not None
        assert client._txn_manager.transactional_id is None
        assert client._request_timeout_ms == 2000
        assert client._message_accumulator._batch_ttl == 7.0
        assert client._message_accumulator._batch_size == MESSAGE_MAX_BYTES
    finally:
        await client.stop()


def test_silent_brokers_are_reported_within_ten_seconds_of_the_start() -> None:
    start_s = 2.0
    assert Settings().request_timeout_s + start_s <= 10.0


def test_an_unknown_default_policy_is_refused_before_the_start() -> None:
    with pytest.raises(SettingsError, match=r"default_policy .*known: .*lanes"):
        create_app(Settings(default_policy="nobody's"))


def test_a_worker_is_named_by_app_host_and_process() -> None:
    app_id, _, rest = worker_name(Settings(app_id="mine")).partition("@")
    host, _, process = rest.rpartition(":")
    assert app_id == "mine"
    assert host
    assert process.isdigit()


def test_a_worker_is_a_static_member_where_it_has_a_name() -> None:
    assert create_app(Settings(static_member="worker-0")).conf.consumer_group_instance_id == "worker-0"
    assert create_app(Settings()).conf.consumer_group_instance_id is None


@pytest.mark.parametrize(
    ("limits", "queue"),
    [
        ({}, FifoQueue),
        ({"tenant_batch_share": "0.5"}, TurnQueue),
        ({"tenant_events_per_s": "9"}, TurnQueue),
    ],
)
def test_tenants_take_turns_only_if_they_have_limits(limits: dict[str, str], queue: type) -> None:
    pipeline = create_app(load_settings(limits, environment={})).pipeline
    pipeline.begin(0, PartitionRows("changelog 0"), None)
    assert type(pipeline.flows[0].queue) is queue


@pytest.mark.parametrize(
    ("guarantee", "writer"),
    [("effectively_once", EffectivelyOnceWriter), ("exactly_once", ExactlyOnceWriter)],
)
def test_the_guarantee_chooses_the_writer(guarantee: str, writer: type) -> None:
    app = create_app(load_settings({"guarantee": guarantee}, environment={}))
    assert type(app.writer) is type(app.pipeline._writer) is writer
