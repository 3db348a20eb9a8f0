"""The HTTP application: answers, problems, limits and deadlines of calls."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPMethod
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientResponse, ClientSession
from support.gateways import Caller, artifact_body, body, gateway, problem

from apportion.core.errors import ErrorCode, EventError
from apportion.core.results import ContextComposed, ContextDecision
from apportion.doors.formats import BODIES, Shaped, shaped
from apportion.doors.gateway.access import Access
from apportion.doors.gateway.application import GatewayApp
from apportion.doors.gateway.backend import (
    AnswerGoneError,
    BackendAwayError,
    GatewayAnswer,
    SubmittedEvent,
)
from apportion.doors.gateway.serving import serving
from apportion.settings import Settings

pytestmark = pytest.mark.asyncio


class Scripted:
    """A backend with scripted failures, which can hold its answers back."""

    def __init__(self, error: Exception | None = None, reasons: tuple[str, ...] = ()) -> None:
        self.error, self.reasons = error, reasons
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def compose(self, request: SubmittedEvent, *, with_decision: bool) -> GatewayAnswer:
        await self.publish(SubmittedEvent(request.event, request.value))
        return GatewayAnswer(b"{}", b"{}" if with_decision else b"", is_repeated=False)

    async def publish(self, event: SubmittedEvent) -> None:  # noqa: ARG002 - as in `Backend`
        self.asked.set()
        if self.error is not None:
            raise self.error
        await self.may_answer.wait()

    async def why_not_ready(self) -> tuple[str, ...]:
        return self.reasons


async def test_a_request_gets_its_composed_event() -> None:
    async with gateway() as client:
        response = await client.post("/v1/compose", json=body(), headers={"Idempotency-Key": "k1"})
        assert (response.status, response.content_type) == (200, "application/json")
        composed = msgspec.json.decode(await response.read(), type=ContextComposed)
    assert (composed.request_id, composed.status) == ("k1", "composed")
    assert "Idempotency-Replayed" not in response.headers


async def test_a_repeated_request_gets_its_first_answer_and_is_charged_once() -> None:
    async with gateway() as client:
        first, again = [
            await client.post("/v1/compose?decision=true", json=body(), headers={"Idempotency-Key": "k1"})
            for _ in range(2)
        ]
        assert await first.read() == await again.read()
        assert again.headers["Idempotency-Replayed"] == "true"
        other = await (await client.post("/v1/compose", json=body())).json()
        earlier = (await first.json())["composed"]
        assert other["session"]["spent_tokens"] == earlier["tokens"]["used"] + other["tokens"]["used"]
        assert other["session"]["prompts"] == 2


async def test_another_request_with_the_same_key_is_refused() -> None:
    async with gateway() as client:
        await client.post("/v1/compose", json=body(), headers={"Idempotency-Key": "k1"})
        changed = await client.post(
            "/v1/compose", json=body(budget_tokens=7), headers={"Idempotency-Key": "k1"}
        )
        assert await problem(changed) == (422, "conflicting_request", "$.request_id")


@pytest.mark.parametrize("form", BODIES)
async def test_an_answer_can_be_shaped_for_a_provider_and_have_its_decision(form: str) -> None:
    async with gateway() as client:
        for headers in ({"Idempotency-Key": "k1"},) * 2:
            plain = await (await client.post("/v1/compose", json=body(), headers=headers)).read()
            both = await client.post(f"/v1/compose?format={form}&decision=true", json=body(), headers=headers)
            parts = msgspec.json.decode(await both.read(), type=dict[str, msgspec.Raw])
            composed = msgspec.json.decode(plain, type=ContextComposed)
            assert bytes(parts["composed"]) == msgspec.json.encode(shaped(composed, BODIES[form]))
            decision = msgspec.json.decode(parts["decision"], type=ContextDecision)
            assert decision.decision_id == composed.decision_id


async def test_a_format_that_cannot_express_the_answer_is_a_problem() -> None:
    chat = {"session_id": "s", "policy": "conversation", "conversation": {"new_message": "hello"}}
    async with gateway() as client:
        response = await client.post("/v1/compose?format=text", json=chat)
        assert await problem(response) == (422, "no_such_form", "$.messages")
        shown = msgspec.json.decode(
            await (await client.post("/v1/compose?format=openai", json=chat)).read(), type=Shaped
        )
        assert shown.body == {"messages": [{"role": "user", "content": "hello"}]}


async def test_a_published_artifact_is_used_until_it_is_retracted() -> None:
    async def selected(client: Caller) -> set[str]:
        answer = await (await client.post("/v1/compose", json=body(candidates=[]))).json()
        return {item["id"] for item in answer["items"]}

    async with gateway() as client:
        published = await client.post("/v1/artifacts", json=artifact_body("src/c"))
        assert (published.status, await published.read()) == (202, b"")
        assert await selected(client) == {"src/c"}
        retracted = await client.delete("/v1/artifacts/src%2Fc?session_id=s&source=tests")
        assert retracted.status == 202
        assert await selected(client) == set()


async def test_a_refused_event_is_a_problem_with_its_code_and_place() -> None:
    wrong = body()
    wrong["candidates"][1]["relevance"] = 2
    async with gateway() as client:
        response = await client.post("/v1/compose", json=wrong)
        assert await problem(response) == (422, "invalid_value", "$.candidates[1].relevance")
        unknown = await client.post("/v1/compose", json=body(policy="nobody's"))
        assert await problem(unknown) == (422, "unknown_policy", "$.policy")
        named = await client.post("/v1/compose", json=body(policy="nobody's", request_id="r9"))
        assert (await named.json(content_type=None))["request_id"] == "r9"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        (HTTPMethod.GET, "/v2/compose", (404, "not_found", None)),
        (HTTPMethod.GET, "/v1/compose", (405, "method_not_allowed", None)),
        (HTTPMethod.PUT, "/v1/compose", (405, "method_not_allowed", None)),
        (HTTPMethod.DELETE, "/v1/artifacts?session_id=s&source=x", (422, "missing_field", "$.id")),
        (HTTPMethod.DELETE, "/v1/artifacts/a?session_id=s&id=b", (400, "invalid_query", None)),
        (HTTPMethod.DELETE, "/v1/artifacts/a?session_id=s", (422, "missing_field", "$.source")),
        (HTTPMethod.POST, "/v1/compose", (415, "unsupported_media_type", None)),
        (HTTPMethod.POST, "/v1/compose?format=xml", (400, "invalid_query", None)),
    ],
)
async def test_a_call_that_is_none_is_a_problem(
    method: HTTPMethod, path: str, expected: tuple[int, str, str | None]
) -> None:
    async with gateway() as client:
        response = await client.request(method, path, data=b"{}", headers={"Content-Type": "text/plain"})
        assert await problem(response) == expected
        if response.status == 405:
            assert response.headers["Allow"] == "POST"


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_that_is_too_large_is_refused(*, chunked: bool) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"x" * 101

    data = pieces() if chunked else b"x" * 101
    async with gateway(event_max_bytes=100) as client:
        response = await client.post("/v1/compose", data=data, headers={"Content-Type": "application/json"})
        assert await problem(response) == (413, "too_large", None)


async def test_a_body_that_is_not_encoded_as_named_is_refused() -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    async with gateway() as client:
        response = await client.post("/v1/compose", data=b"{}", headers=headers)
        assert await problem(response) == (400, "invalid_body", None)


async def test_a_body_that_does_not_arrive_is_given_up() -> None:
    stalled = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"{"
        await stalled.wait()

    async with gateway(gateway_wait_s=0.05) as client:
        calling = asyncio.create_task(
            client.post("/v1/compose", data=pieces(), headers={"Content-Type": "application/json"})
        )
        assert await problem(await calling) == (408, "request_timeout", None)
        stalled.set()


async def test_more_calls_than_allowed_at_once_are_sent_away() -> None:
    backend = Scripted()
    async with gateway(backend, gateway_in_flight_max=1) as client:
        waiting = asyncio.create_task(client.post("/v1/compose?decision=true", json=body()))
        await backend.asked.wait()
        refused = await client.post("/v1/artifacts", json=artifact_body())
        assert await problem(refused) == (429, "too_many_calls", None)
        assert refused.headers["Retry-After"] == "1"
        assert (await client.get("/livez")).status == 200
        assert "apportion_gateway_in_flight 1.0" in await (await client.get("/metrics")).text()
        backend.may_answer.set()
        assert (await waiting).status == 200
        assert (await client.post("/v1/artifacts", json=artifact_body())).status == 202


@pytest.mark.parametrize(("path", "sent"), [("/v1/compose", body()), ("/v1/artifacts", artifact_body())])
async def test_a_call_can_wait_for_less_than_the_gateway(path: str, sent: dict[str, Any]) -> None:
    async with gateway(Scripted(), gateway_wait_s=30) as client, asyncio.timeout(10):
        late = await client.post(path, json=sent, headers={"Prefer": "wait=1"})
        assert await problem(late) == (504, "no_answer", None)


@pytest.mark.parametrize(("path", "sent"), [("/v1/compose", body()), ("/v1/artifacts", artifact_body())])
async def test_an_event_too_large_with_filled_in_fields_is_refused(path: str, sent: dict[str, Any]) -> None:
    data, headers = msgspec.json.encode(sent), {"Content-Type": "application/json"}
    async with gateway(event_max_bytes=len(data)) as client:
        refused = await client.post(path, data=data, headers=headers)
        assert await problem(refused) == (413, "too_large", "$")


async def test_an_answer_that_does_not_come_in_time_names_the_request() -> None:
    async with gateway(Scripted(), gateway_wait_s=0.05) as client:
        late = await client.post("/v1/compose", json=body(request_id="r1"))
        assert await problem(late) == (504, "no_answer", None)
        details = await late.json(content_type=None)
        assert details["request_id"] == "r1"
        assert "Idempotency-Key" in details["detail"]
        assert await problem(await client.post("/v1/artifacts", json=artifact_body())) == (
            504,
            "no_answer",
            None,
        )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AnswerGoneError(), (410, "answer_gone", None)),
        (BackendAwayError(), (503, "not_delivered", None)),
        (EventError(ErrorCode.TOO_LATE, "too late", "$.requested_at"), (422, "too_late", "$.requested_at")),
        (RuntimeError("src/secret.py"), (500, "internal_error", None)),
    ],
)
async def test_an_error_of_the_backend_is_a_problem(
    error: Exception, expected: tuple[int, str, str | None], caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway(Scripted(error)) as client:
        response = await client.post("/v1/compose", json=body(request_id="r1"))
        assert await problem(response) == expected
        assert "secret" not in await response.text()
    assert "secret" not in caplog.text


async def test_at_the_end_calls_in_flight_get_a_last_deadline() -> None:
    backend, sending, stalled = Scripted(), asyncio.Event(), asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"{"
        sending.set()
        await stalled.wait()

    settings = Settings(gateway_port=0)
    app = GatewayApp(settings, Access(None, "lanes"), backend, b"{}")
    async with serving(app, settings) as port, ClientSession(f"http://127.0.0.1:{port}") as client:
        headers = {"Content-Type": "application/json"}
        slow = asyncio.create_task(client.post("/v1/compose", data=pieces(), headers=headers))
        await sending.wait()
        waiting = asyncio.create_task(client.post("/v1/compose", json=body()))
        await backend.asked.wait()
        app.end_within(0)
        await asyncio.sleep(0)
        app.end_within(0)  # the deadlines have passed, and the calls are not over yet
        assert await problem(await waiting) == (504, "no_answer", None)
        assert await problem(await slow) == (408, "request_timeout", None)
        stalled.set()


async def test_a_gateway_is_ready_when_its_backend_is() -> None:
    async with gateway() as client:
        assert (await client.get("/readyz")).status == 200
    async with gateway(Scripted(reasons=("no broker",))) as client:
        assert await problem(await client.get("/readyz")) == (503, "not_ready", None)
        assert (await client.get("/livez")).status == 200


async def test_calls_are_counted_by_path_and_status() -> None:
    async with gateway() as client:
        await client.delete("/v1/artifacts/my-secret-id?session_id=s&source=tests")
        await client.get("/my-secret-path")
        text = await (await client.get("/metrics")).text()
    assert 'apportion_gateway_calls_total{path="/v1/artifacts/{id}",status="202"} 1.0' in text
    assert 'apportion_gateway_calls_total{path="other",status="404"} 1.0' in text
    assert "my-secret" not in text


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens.toml"
    file.write_text("".join(f'[{name}]\ntoken="{name * 16}"\ntenants=["{name}"]\n' for name in "ab"))
    return file


async def test_a_token_takes_half_of_the_places_and_bodies_without_end_take_none(tokens: Path) -> None:
    backend = Scripted()

    def call(client: Caller, tenant: str, data: Any) -> asyncio.Task[ClientResponse]:
        headers = {"Authorization": f"Bearer {tenant * 16}", "Content-Type": "application/json"}
        return asyncio.create_task(client.post("/v1/compose", data=data, headers=headers))

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await backend.may_answer.wait()

    values: dict[str, Any] = {"gateway_tokens_file": tokens, "gateway_in_flight_max": 4}
    async with gateway(backend, **values) as client:
        stalled = [call(client, "a", endless()) for _ in range(8)]
        waiting = [call(client, "a", msgspec.json.encode(body(tenant="a"))) for _ in range(2)]
        await backend.asked.wait()
        await asyncio.sleep(0.05)
        refused = await call(client, "a", msgspec.json.encode(body(tenant="a")))
        assert await problem(refused) == (429, "too_many_calls", None)
        waiting.append(call(client, "b", msgspec.json.encode(body(tenant="b"))))
        await asyncio.sleep(0.05)
        backend.may_answer.set()
        assert [(await answer).status for answer in waiting] == [200] * 3
        await asyncio.gather(*stalled)


async def body_bytes(client: Caller) -> float:
    text = await (await client.get("/metrics")).text()
    (line,) = [line for line in text.splitlines() if line.startswith("apportion_gateway_body_bytes ")]
    return float(line.split()[1])


async def test_body_bytes_are_bounded_and_a_token_gets_half_of_the_bound(tokens: Path) -> None:
    backend, mebibyte = Scripted(), 1 << 20
    values: dict[str, Any] = {"gateway_tokens_file": tokens, "gateway_bodies_max_bytes": 8 * mebibyte}

    async def part(sent: int) -> AsyncIterator[bytes]:
        yield b"x" * sent
        await backend.may_answer.wait()

    async with gateway(backend, event_max_bytes=4 * mebibyte, **values) as client:

        def call(tenant: str, size: int, sent: int) -> asyncio.Task[ClientResponse]:
            headers = {"Authorization": f"Bearer {tenant * 16}", "Content-Type": "application/json"}
            headers |= {"Content-Length": str(size)} if size else {}
            return asyncio.create_task(client.post("/v1/compose", data=part(sent), headers=headers))

        held = [call("a", 2 * mebibyte, 1) for _ in range(2)]
        await asyncio.sleep(0.1)
        for size, sent in ((mebibyte, 1), (0, mebibyte)):
            refused = await call("a", size, sent)
            assert await problem(refused) == (429, "too_many_bytes", None)
            assert refused.headers["Retry-After"] == "1"
        other = call("b", mebibyte, 1)
        await asyncio.sleep(0.1)
        assert await body_bytes(client) == 5 * mebibyte
        for calling in (*held, other):
            calling.cancel()
        await asyncio.gather(*held, other, return_exceptions=True)
        await asyncio.sleep(0.1)
        assert await body_bytes(client) == 0
