"""Health and metrics of a real worker."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientConnectorError, ClientSession
from prometheus_client.parser import text_string_to_metric_families
from support.commands import apportion, started
from support.composing import candidate
from support.containers import free_port
from support.prometheus_tools import ALERTS, expressions, program
from support.running import DEADLINE_S, Stage, ids, own_settings, request, requests, staged, worker_running

from apportion import ENGINE_VERSION
from apportion.shell.operations.metrics import METRICS

pytestmark = pytest.mark.asyncio

HANGING = """
import asyncio
from apportion.shell.operations.health import Patience
from apportion.shell.stream import probe as vitals
from apportion.shell.stream.pipeline.writer import EffectivelyOnceWriter

vitals._ASK_S = 0.2
vitals.patience_of = lambda _: Patience(stalled_s=1.0, recovery_s=60.0, flow_s=60.0, membership_s=60.0)

async def finish(*_):
    await asyncio.Event().wait()

EffectivelyOnceWriter.finish = finish
"""
"""Never acknowledge the outputs of a batch, and wait less for them."""


@pytest_asyncio.fixture
async def stage(bootstrap_servers: str) -> AsyncIterator[Stage]:
    async with staged(own_settings(bootstrap_servers, health_port=free_port())) as made:
        yield made


async def told(http: ClientSession, path: str) -> tuple[int, str]:
    async with http.get(path) as response:
        return response.status, await response.text()


async def until(http: ClientSession, path: str, status: int) -> None:
    """Ask until the worker answers with this status; it may not listen yet."""
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
    ours = {family.name for family in families if family.name.startswith("apportion_")}
    assert ours == {metric.name.removesuffix("_total") for metric in METRICS}
    samples = [sample for family in families for sample in family.samples]
    return {(sample.name, *sorted(sample.labels.values())): sample.value for sample in samples}


async def test_a_worker_serves_its_health_and_its_metrics(stage: Stage) -> None:
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
            while True:  # visible records may not be durable yet
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


async def test_a_hanging_worker_keeps_running_and_reports_itself_unhealthy(stage: Stage) -> None:
    settings = stage.settings
    async with (
        worker_running(settings, prelude=HANGING) as worker,
        ClientSession(f"http://{settings.health_host}:{settings.health_port}") as http,
    ):
        await until(http, "/livez", 200)
        await stage.send(*requests("r", 4))
        await until(http, "/livez", 503)
        assert "does not move" in (await told(http, "/livez"))[1]
        asked = await asyncio.to_thread(apportion, "health", "--health-port", str(settings.health_port))
        assert (asked.exit_code, worker.process.returncode) == (1, None), asked.err


@pytest.fixture
def scraping(stage: Stage, tmp_path: Path) -> Iterator[str]:
    """The address of a Prometheus that scrapes the worker each second, and judges our alerts."""
    port, worker = free_port(), f"{stage.settings.health_host}:{stage.settings.health_port}"
    job = {"job_name": "apportion", "static_configs": [{"targets": [worker]}]}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [job],
    }
    file = tmp_path / "prometheus.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    places = (f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address=127.0.0.1:{port}")
    command = [program("prometheus"), f"--config.file={file}", *places]
    with started(command, stderr=subprocess.DEVNULL):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("bootstrap_servers", ["embedded"], indirect=True)
async def test_a_prometheus_that_scrapes_a_worker_answers_every_expression_of_the_dashboard(
    stage: Stage, scraping: str
) -> None:
    number, unanswered = 0, expressions()
    settings = stage.settings.model_copy(update={"tenant_batch_share": 0.5})  # else no event waits for a turn
    async with worker_running(settings), ClientSession(scraping) as http, asyncio.timeout(DEADLINE_S):
        while unanswered:
            number += 1
            new = candidate(f"text-{number}", 20)  # otherwise no text is counted, and the share has no value
            await stage.send(request(f"r{number}", candidates=[new]))
            whole: dict[str, Any] = {"policy": "request", "conversation": {"new_message": "why?"}}
            whole |= {"model": "gpt-4o", "candidates": []}
            await stage.send(request(f"w{number}", **whole))  # for the parts of a request
            await asyncio.sleep(0.5)  # Prometheus sends no event after a scrape
            with suppress(ClientConnectorError):
                unanswered = [one for one in unanswered if not await answered(http, one)]


async def answered(http: ClientSession, expression: str) -> bool:
    """Return whether Prometheus has a number for an expression."""
    async with http.get("/api/v1/query", params={"query": expression}) as response:
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:  # it is starting
            return False
        said = await response.json()
    assert said["status"] == "success", expression
    values = [one["value"][1] for one in said["data"]["result"]]
    return any(value != "NaN" for value in values)
