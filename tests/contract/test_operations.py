"""A real worker tells how it is, and what it did."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio
from aiohttp import ClientConnectorError, ClientSession
from containers import free_port
from prometheus_client.parser import text_string_to_metric_families
from running import DEADLINE_S, Stage, ids, own_settings, requests, staged, worker_running

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


async def until(http: ClientSession, path: str, status: int) -> None:
    """Ask until the worker answers so; before it listens, nobody does."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            with suppress(ClientConnectorError):
                if (await told(http, path))[0] == status:
                    return
            await asyncio.sleep(0.05)


async def scraped(http: ClientSession) -> dict[tuple[str, ...], float]:
    """Return each sample of ours by its name and its labels' values."""
    _, text = await told(http, "/metrics")
    families = list(text_string_to_metric_families(text))
    ours = {one.name for one in families if one.name.startswith("apportion_")}
    assert ours == {one.name.removesuffix("_total") for one in METRICS}
    samples = [one for family in families for one in family.samples]
    return {(one.name, *sorted(one.labels.values())): one.value for one in samples}


async def test_a_worker_tells_its_health_and_its_metrics(stage: Stage) -> None:
    settings, sent = stage.settings, requests("r", 40)
    async with (
        worker_running(settings, until_ready=False) as worker,
        ClientSession(f"http://{settings.health_host}:{settings.health_port}") as http,
    ):
        await until(http, "/livez", 200)
        assert (await scraped(http))["apportion_live",] == 1
        await until(http, "/readyz", 200)
        await stage.send(*sent)
        await stage.outputs.wait_for(lambda out: out.answered(ids(sent)))
        async with asyncio.timeout(DEADLINE_S):
            while True:  # what is seen may not be durable yet
                values = await scraped(http)
                if values["apportion_events_total",] == len(sent):
                    break
        assert await told(http, "/livez") == (200, "ok\n")
        assert await worker.stop() == 0
    assert values["apportion_decisions_total", "composed", "lanes"] == len(sent)
    assert values["apportion_build_info", ENGINE_VERSION] == 1
    assert values["apportion_end_to_end_seconds_count",] == len(sent)
    used = sum(decision["tokens"]["used"] for decision in stage.outputs.decisions)
    assert values["apportion_tokens_used_total",] == used
