"""Topics deleted, recreated or replaced while processes use them."""

import asyncio

import pytest
from reliability.proxy import network
from support.running import DEADLINE_S, ids, own_settings, requests, staged, worker_running

from apportion.doors.gateway.kafka_backend import open_kafka_backend
from apportion.settings import Settings
from apportion.shell.kafka import topic_watch
from apportion.shell.kafka.admin import admin_client
from apportion.shell.kafka.faults import AnotherClusterError, TopicGoneError, TopicRecreatedError
from apportion.shell.kafka.topic_watch import TopicsView, TopicsWatch
from apportion.shell.kafka.topics import create_topics

pytestmark = pytest.mark.asyncio


async def delete(settings: Settings, topic: str) -> None:
    async with admin_client(settings) as admin:
        await admin.delete_topics([topic])


async def exists(settings: Settings, topic: str) -> bool:
    async with admin_client(settings) as admin:
        return topic in await admin.list_topics()


async def serve(settings: Settings) -> None:
    async with asyncio.timeout(DEADLINE_S), open_kafka_backend(settings):
        await asyncio.Event().wait()


async def test_a_deleted_topic_ends_worker_and_gateway_and_no_client_makes_it(bootstrap_servers: str) -> None:
    settings = own_settings(bootstrap_servers)
    topic, sent = settings.requests_topic, requests("before", 8)
    async with staged(settings) as stage, worker_running(settings) as worker:
        await stage.send(*sent)
        await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
        serving = asyncio.create_task(serve(settings))
        await asyncio.sleep(1)
        await delete(settings, topic)
        assert await worker.ended() == 1
        with pytest.raises(TopicGoneError, match=topic):
            await serving
    assert f"apportion: topic_gone: the topic {topic} is gone" in worker.log
    assert not await exists(settings, topic)


async def test_a_recreated_topic_has_another_id(kafka: str) -> None:
    settings = own_settings(kafka)
    await create_topics(settings)
    watch = TopicsWatch(settings, [settings.usage_topic])
    assert await watch.change() is None
    await delete(settings, settings.usage_topic)
    async with asyncio.timeout(DEADLINE_S):
        while await exists(settings, settings.usage_topic):  # noqa: ASYNC110 - the broker sends no event
            await asyncio.sleep(0.05)
    assert isinstance(await watch.change(), TopicGoneError)
    await create_topics(settings)
    assert isinstance(await watch.cause_of(OSError()), TopicRecreatedError)


async def test_a_cluster_in_the_place_of_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    views = [TopicsView("one", {"t": "1"}), TopicsView("", {"t": ""}), TopicsView("two", {})]

    async def view(*_: object) -> TopicsView:
        return views.pop(0)

    monkeypatch.setattr(topic_watch, "view_topics", view)
    watch, failure = TopicsWatch(Settings(), ["t"]), OSError()
    assert await watch.cause_of(failure) is failure
    assert [await watch.change(), await watch.change()] == [None, None]
    assert isinstance(await watch.cause_of(failure), AnotherClusterError)


async def test_a_worker_and_a_gateway_end_when_another_cluster_takes_the_address(
    embedded: str, kafka: str
) -> None:
    ports = [int(servers.rpartition(":")[2]) for servers in (embedded, kafka)]
    async with network(ports[0]) as address:
        settings = own_settings(f"127.0.0.1:{address.port}")
        await create_topics(settings)
        async with worker_running(settings) as worker:
            serving = asyncio.create_task(serve(settings))
            await asyncio.sleep(1)
            address.broker_port = ports[1]
            assert await worker.ended() == 1
            with pytest.raises(
                AnotherClusterError, match=f"another cluster answers at 127.0.0.1:{address.port}"
            ):
                await serving
    assert "apportion: another_cluster: another cluster answers at" in worker.log
