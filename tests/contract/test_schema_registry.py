"""A worker with a schema registry: it waits for no event without its schemas, and names them in headers."""

import json
from collections.abc import Iterator

import pytest
from support.registries import Registry, serving
from support.running import own_settings, request, staged, worker_running

from apportion.contracts.registry.subjects import find_schema_headers, register_subjects
from apportion.shell.kafka.output_ownership import output_topics

pytestmark = pytest.mark.asyncio


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry(has_guids=True)) as registry:
        yield registry


@pytest.mark.parametrize("bootstrap_servers", ["embedded"], indirect=True)  # a broker makes no difference
async def test_a_worker_answers_once_its_schemas_are_registered_with_their_ids_as_headers(
    bootstrap_servers: str, registry: Registry
) -> None:
    settings = own_settings(bootstrap_servers, schema_registry=registry.url)
    async with staged(settings) as stage:
        await stage.send(request("1"), request("2", nobody_knows="this"))
        async with worker_running(settings, until_ready=False) as worker:
            assert await worker.ended() == 1
        assert f"apportion: subjects_not_ready: not as planned: {settings.composed_topic}-value" in worker.log
        assert "`apportion topics register`" in worker.log
        await register_subjects(settings)
        async with worker_running(settings) as worker:
            await stage.outputs.wait_for(lambda out: len(out.decisions) == len(out.dead_letters) == 1)
            assert await worker.stop() == 0
        headers = await find_schema_headers(settings, output_topics(settings))
        for topic, header in headers.items():
            [record] = stage.outputs.of(topic)
            assert header in record.headers
            assert record.value.startswith(b'{"type":"context-'), "values stay plain JSON"
            assert json.loads(record.value)
