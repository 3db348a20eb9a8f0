"""A real worker tells how it is, and what it did."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import ClientSession
from containers import free_port
from prometheus_client.parser import text_string_to_metric_families
from running import Stage, ids, own_settings, requests, staged, worker_running

from apportion import ENGINE_VERSION
from apportion.operations.metrics import METRICS

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def stage(bootstrap_servers: str) -> AsyncIterator[Stage]:
    async with staged(own_settings(bootstrap_servers, health_port=free_port())) as made:
        yield made


async def told(http: ClientSession, path: str) -> tuple[int, str]:
    async with http.get(path) as response:
        return response.status, await response.text()


async def ready(http: ClientSession) -> None:
    async with asyncio.timeout(20):
        while (await told(http, "/readyz"))[0] != 200:  # noqa: ASYNC110 - it is asked over HTTP
            await asyncio.sleep(0.1)


async def test_a_worker_tells_its_health_and_its_metrics(stage: Stage) -> None:
    settings, sent = stage.settings, requests("r", 40)
    async with (
        worker_running(settings) as worker,
        ClientSession(f"http://{settings.health_host}:{settings.health_port}") as http,
    ):
        await stage.send(*sent)
        await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
        await ready(http)
        assert await told(http, "/livez") == (200, "ok\n")
        _, text = await told(http, "/metrics")
        assert await worker.stop() == 0
    families = list(text_string_to_metric_families(text))
    values = {
        (one.name, *sorted(one.labels.values())): one.value for each in families for one in each.samples
    }
    ours = {one.name for one in families if one.name.startswith("apportion_")}
    assert ours == {one.name.removesuffix("_total") for one in METRICS}
    assert values["apportion_decisions_total", "composed", "lanes"] == len(sent)
    assert values["apportion_build_info", ENGINE_VERSION] == 1
    assert values["apportion_end_to_end_seconds_count",] == len(sent)
    used = sum(decision["tokens"]["used"] for decision in stage.outputs.decisions)
    assert values["apportion_tokens_used_total",] == used
