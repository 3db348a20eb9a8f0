"""The gateway in front of a worker: two of them side by side, on topics that they share."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import pytest
from aiohttp import ClientSession
from support.commands import command, environment
from support.drawn_chats import PNG
from support.fitted_chats import chat
from support.gateways import Caller, artifact_body, body, gateway, problem
from support.running import (
    DEADLINE_S,
    STOP_DEADLINE_S,
    Stage,
    own_settings,
    staged,
    variables_of,
    without_run,
    worker_running,
)

from apportion.doors.gateway.kafka_backend import open_kafka_backend
from apportion.settings import Settings
from apportion.shell.kafka.event_search import EventSearch
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES

pytestmark = pytest.mark.asyncio

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


@asynccontextmanager
async def gateway_over(settings: Settings, **values: Any) -> AsyncIterator[Caller]:
    async with open_kafka_backend(settings) as backend, gateway(backend, **values) as client:
        yield client


@pytest.mark.parametrize("guarantee", ["effectively_once", "exactly_once"])
async def test_two_gateways_get_their_own_answers_from_the_topics(
    bootstrap_servers: str, guarantee: str
) -> None:
    settings = own_settings(bootstrap_servers, guarantee=guarantee)
    async with staged(settings, "read_committed") as stage:
        async with gateway_over(settings, gateway_wait_s=1) as impatient:
            late = await impatient.post("/v1/compose", json=body(request_id="r1"))
            assert await problem(late) == (504, "no_answer", None)
        async with (
            worker_running(settings),
            gateway_over(settings) as first,
            gateway_over(settings) as second,
        ):
            assert (await first.get("/readyz")).status == 200
            await assert_answered_once(stage, first, second)
            await assert_fitted_in_one_session(stage, first, second)
            assert (await first.post("/v1/artifacts", json=artifact_body("src/c"))).status == 202
            path = "/v1/artifacts/src%2Fc?session_id=s&source=tests"
            selected = await (await second.post("/v1/compose", json=body(candidates=[]))).json()
            assert [item["id"] for item in selected["items"]] == ["src/c"]
            assert (await second.delete(path)).status == 202
            refused = await first.post("/v1/compose", json=body(policy="nobody's", request_id="r4"))
            assert await problem(refused) == (422, "unknown_policy", "$.policy")


async def assert_answered_once(stage: Stage, first: Caller, second: Caller) -> None:
    """Require that a request with a cancelled call gets its first answer from any gateway, charged once."""
    answers = []
    for client in (second, first):
        again = await client.post("/v1/compose?decision=true", json=body(request_id="r1"))
        assert (again.status, again.headers["Idempotency-Replayed"]) == (200, "true")
        answers.append(await again.json())
    new = await (
        await first.post("/v1/compose?decision=true", json=body(request_id="r2"), headers=TRACE)
    ).json()
    assert answers[0] == answers[1]
    composed = answers[0]["composed"]
    assert (composed["request_id"], composed["status"], new["composed"]["request_id"]) == (
        "r1",
        "composed",
        "r2",
    )
    spent = composed["tokens"]["used"] + new["composed"]["tokens"]["used"]
    assert new["composed"]["session"] == {"prompts": 2, "spent_tokens": spent, "max_tokens": 0}
    outputs = await stage.outputs.wait_for(lambda out: out.answered(["r1", "r2"]))
    assert composed in outputs.composed
    assert new["composed"] in outputs.composed
    [traced] = [record for record in outputs.of(stage.settings.composed_topic) if b'"r2"' in record.value]
    assert dict(traced.headers)["traceparent"].decode() == TRACE["traceparent"]
    assert without_run(new["decision"]) in [without_run(decision) for decision in outputs.decisions]


async def assert_fitted_in_one_session(stage: Stage, first: Caller, second: Caller) -> None:
    """Require that a chat keeps its beginning, and that its image comes back, but is not in Kafka."""
    url = f"data:image/png;base64,{PNG}{'A' * MESSAGE_MAX_BYTES}"
    image = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    first_turn = [*chat(20), {"role": "user", "content": [image, {"type": "text", "text": "And here?"}]}]
    next_turn = [*first_turn, {"role": "assistant", "content": "A dot."}, {"role": "user", "content": "Why?"}]
    answers = []
    for client, messages in [(first, first_turn), (second, next_turn)]:
        call = {"body": {"messages": messages}, "limit_tokens": 500, "session_id": "chat"}
        sent, headers = BytesIO(json.dumps(call).encode()), {"Content-Type": "application/json"}
        response = await client.post("/v1/fit", data=sent, headers=headers)
        assert response.status == 200, await response.text()
        answers.append(await response.json())
    before, now = [answer["body"]["messages"] for answer in answers]
    assert len(before) < len(first_turn)
    assert before[-1] == first_turn[-1]
    assert now == [*before, *next_turn[-2:]]
    requests = [answer["decision"]["request_id"] for answer in answers]
    outputs = await stage.outputs.wait_for(lambda out: out.answered(requests))
    [composed] = [event for event in outputs.composed if event["request_id"] == requests[1]]
    assert composed["session"]["prompts"] == 2
    [stub, _] = composed["messages"][-3]["content"]
    assert stub.items() >= {"type": "media", "media": "image", "width": 1, "height": 1}.items()


async def test_an_answer_is_found_at_any_offset_of_its_partition(bootstrap_servers: str) -> None:
    settings = own_settings(bootstrap_servers)
    async with staged(settings) as stage:
        topic = settings.composed_topic
        sent = [
            await stage.producer.send(topic, b"%d" % number, partition=1, headers=[("ce_id", b"%d" % number)])
            for number in range(1_500)
        ]
        for message in sent:
            await message
        search = EventSearch(settings)
        running = asyncio.create_task(search.run())
        numbers = (0, 700, 1_243, 1_244, 1_499)
        found = await asyncio.gather(*[search.find(topic, 1, str(number)) for number in numbers])
        assert found == [b"%d" % number for number in numbers]
        assert await search.find(topic, 1, "1500") is None
        assert await search.find(topic, 0, "0") is None
        running.cancel()


async def test_the_command_serves_the_topics_until_sigterm(bootstrap_servers: str) -> None:
    settings = own_settings(bootstrap_servers)
    line = command("gateway", "--gateway-port", "0", "--log-format", "json")
    async with staged(settings), worker_running(settings):
        started = await asyncio.create_subprocess_exec(
            *line, env=environment(**variables_of(settings)), stderr=asyncio.subprocess.PIPE
        )
        try:
            assert started.stderr is not None
            ready = json.loads(await asyncio.wait_for(started.stderr.readline(), DEADLINE_S))
            assert ready["message"] == "ready"
            url = f"http://127.0.0.1:{ready['port']}/v1/compose"
            async with ClientSession() as client, client.post(url, json=body(request_id="r1")) as answer:
                assert (await answer.json())["request_id"] == "r1"
            started.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(started.wait(), STOP_DEADLINE_S) == 0
        finally:
            if started.returncode is None:
                started.kill()
                await started.wait()
