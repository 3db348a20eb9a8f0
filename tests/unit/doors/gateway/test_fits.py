"""`POST /v1/fit`: a provider's body in, the body that fits out."""

import asyncio
import json
import threading
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.fitted_chats import chat
from support.gateways import gateway, local, problem

from apportion import ContextRequest, FitOptions, LocalSessions, fit, fit_request
from apportion.doors.gateway import fits
from apportion.doors.gateway.backend import GatewayAnswer, SubmittedEvent

pytestmark = pytest.mark.asyncio

MESSAGES = chat(20)
ANTHROPIC = {
    "model": "claude",
    "max_tokens": 100,
    "system": "Be brief.",
    "messages": MESSAGES[1:],
    "tools": [{"name": "read", "input_schema": {"type": "object"}}],
}


class Counted:
    """The backend of `--local`, which keeps the session and the policy of each request."""

    def __init__(self) -> None:
        self.backend = local()
        self.composed: list[tuple[str, Any]] = []

    async def compose(self, request: SubmittedEvent, *, with_decision: bool) -> GatewayAnswer:
        assert isinstance(request.event, ContextRequest)
        self.composed.append((request.event.session_id, request.event.policy))
        return await self.backend.compose(request, with_decision=with_decision)

    async def publish(self, event: SubmittedEvent) -> None:
        await self.backend.publish(event)

    async def why_not_ready(self) -> tuple[str, ...]:
        return ()


def call(**changes: Any) -> dict[str, Any]:
    return {"body": MESSAGES, "limit_tokens": 300, "session_id": "s"} | changes


@pytest.mark.parametrize("body", [MESSAGES, ANTHROPIC], ids=["list", "anthropic"])
async def test_a_body_is_fitted_as_in_this_process(body: Any) -> None:
    async with gateway() as client:
        response = await client.post("/v1/fit", json=call(body=body))
        assert response.status == 200, await response.text()
        answer = await response.json()
    own = fit(body, 300, client=LocalSessions(), session_id="s")
    assert answer["body"] == own.body
    assert (answer["used_tokens"], answer["limit_tokens"]) == (own.used_tokens, 300)
    assert tuple(answer["sources"]) == own.sources
    assert answer["decision"]["session_id"] == "s"
    assert "artifacts_decision" not in answer
    assert 1 < len(own.messages) < len(MESSAGES)
    if isinstance(body, dict):
        assert {**answer["body"], "messages": body["messages"]} == body


@pytest.mark.parametrize("policy", [None, "fit-artifacts"])
async def test_artifacts_of_a_policy_of_their_own_are_a_second_event_of_the_session(policy: Any) -> None:
    options = {"artifacts_policy": policy}
    artifacts = [{"content": "a.py prints a line."}]
    backend = Counted()
    async with gateway(backend) as client:
        first = await (await client.post("/v1/fit", json=call(artifacts=artifacts, options=options))).json()
    decision = first["artifacts_decision"]
    assert (decision == first["decision"]) == (policy is None)
    assert [entry["group"] for entry in decision["candidates"]].count("retrieved") == 1
    assert any(message["content"].startswith("a.py prints a line.\n\n") for message in first["body"])

    assert {session for session, _ in backend.composed} == {"s"}
    assert [policy for _, policy in backend.composed] == ["fit", policy][: 1 + bool(policy)]


async def test_a_whole_body_is_fitted_with_its_tools() -> None:
    tools = [
        {"name": f"{name}_{at}", "description": f"Finds a {name}. " * 9} for at in range(9) for name in "ab"
    ]
    body = {"max_tokens": 50, "system": "Be brief.", "messages": MESSAGES[1:], "tools": tools}
    options = {"covers": "request", "choose_tools": True}
    async with gateway() as client:
        answer = await (await client.post("/v1/fit", json=call(body=body, options=options))).json()
        refused = await client.post("/v1/fit", json=call(body=body, options={"covers": "request"}))
        assert await problem(refused) == (422, "infeasible", "$.limit_tokens")
    own = fit_request(
        body, 300, client=LocalSessions(), session_id="s", options=FitOptions(choose_tools=True)
    )
    assert answer["body"] == own.body
    assert 0 < len(own.body["tools"]) < len(tools)
    assert own.used_tokens <= 250


async def test_a_repeated_call_gets_its_first_answer() -> None:
    headers = {"Idempotency-Key": "k1"}
    async with gateway() as client:
        first, again = [
            await client.post("/v1/fit", json=call(artifacts=[]), headers=headers) for _ in range(2)
        ]
        assert await first.read() == await again.read()
        assert "Idempotency-Replayed" not in first.headers
        assert again.headers["Idempotency-Replayed"] == "true"
        other = await client.post("/v1/fit", json=call(limit_tokens=400), headers=headers)
        assert await problem(other) == (422, "conflicting_request", "$.options.request_id")


LAST = {"role": "user", "content": "x"}
WRONG = [LAST, {"role": "wizard", "content": "x"}, LAST]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"limit_tokens": "5"}, (422, "wrong_type", "$.limit_tokens")),
        ({"limit_tokens": None}, (422, "missing_field", "$.limit_tokens")),
        ({"limit_tokens": 0}, (422, "invalid_value", "$.limit_tokens")),
        ({"limit_tokens": 5}, (422, "infeasible", "$.limit_tokens")),
        ({"body": "hello"}, (422, "wrong_type", "$.body")),
        ({"body": []}, (422, "missing_field", "$.body")),
        (
            {"body": WRONG},
            (422, "invalid_value", "$.body[1].role"),
        ),
        (
            {"body": {"messages": WRONG}},
            (422, "invalid_value", "$.body.messages[1].role"),
        ),
        ({"model": "gpt"}, (422, "unknown_model", "$.model")),
        ({"options": {"model": "gpt"}}, (422, "unknown_model", "$.model")),
        ({"modal": "gpt"}, (422, "unknown_field", "$.modal")),
        ({"options": {"pined": [1]}}, (422, "unknown_field", "$.options.pined")),
        ({"options": {"pinned": [99]}}, (422, "invalid_value", "$.options.pinned[0]")),
        ({"options": {"policy": "mine"}}, (422, "unknown_policy", "$.options.policy")),
        ({"options": {"request_id": "other"}}, (400, "conflicting_key", "$.options.request_id")),
        ({"options": {"tenant": "a"}, "tenant": "b"}, (422, "invalid_value", "$.options.tenant")),
        ({"tenant": "a/b"}, (422, "invalid_value", "$.tenant")),
        ({"session_id": "s" * 999}, (422, "invalid_value", "$.session_id")),
        ({"artifacts": [{"kind": "x"}]}, (422, "missing_field", "$.artifacts[0].id")),
    ],
)
async def test_a_refused_call_names_its_place(changes: Any, expected: tuple[int, str, str]) -> None:
    async with gateway() as client:
        response = await client.post("/v1/fit", json=call(**changes), headers={"Idempotency-Key": "k"})
        assert await problem(response) == expected
        details = await response.json(content_type=None)
        assert details.get("request_id") in (None, "k")


@pytest.mark.parametrize(
    ("changes", "meant"),
    [
        ({"options": {"pined": [1]}}, "pinned"),
        ({"sesion_id": "s"}, "session_id"),
        ({"artifacts": [{"content": "x", "relevence": 1}]}, "relevance"),
    ],
)
async def test_an_unknown_field_comes_with_a_similar_name(changes: Any, meant: str) -> None:
    async with gateway() as client:
        response = await client.post("/v1/fit", json=call(**changes))
        details = await response.json(content_type=None)
    assert details["detail"] == f"there is no such field; did you mean {meant}?"


@pytest.mark.parametrize(
    ("body", "limit_tokens", "place"),
    [(MESSAGES, 5, "$.body[41]"), (ANTHROPIC, 35, "$.body.messages[40]")],
)
async def test_the_largest_messages_are_named_by_their_place_in_the_call(
    body: Any, limit_tokens: int, place: str
) -> None:
    async with gateway() as client:
        response = await client.post("/v1/fit", json=call(body=body, limit_tokens=limit_tokens))
        detail = (await response.json(content_type=None))["detail"]
    assert f"the largest: {place} (" in detail
    assert "$.messages" not in detail


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"{", (422, "not_json", "$")),
        (b'{"body":' + b"[" * 5000 + b"]" * 5000 + b',"limit_tokens":9}', (422, "too_deep", "$")),
        (b'{"body":{"a":' + b"[" * 300 + b"]" * 300 + b'},"limit_tokens":9}', (422, "too_deep", "$")),
    ],
)
async def test_a_body_that_is_no_json_is_refused(data: bytes, expected: tuple[int, str, str]) -> None:
    async with gateway() as client:
        response = await client.post("/v1/fit", data=data, headers={"Content-Type": "application/json"})
        assert await problem(response) == expected


async def test_half_a_pair_is_replaced_and_numbers_stay() -> None:
    message = rb'{"role":"user","content":"\ud83d"}'
    data = (
        b'{"body":{"seed":12345678901234567890123,"top_p":1.0,"messages":[%b]},"limit_tokens":99}' % message
    )
    async with gateway() as client:
        response = await client.post("/v1/fit", data=data, headers={"Content-Type": "application/json"})
        answer = msgspec.json.decode(await response.read(), type=dict[str, msgspec.Raw])
    assert bytes(answer["body"]) == (
        '{"seed":12345678901234567890123,"top_p":1.0,"messages":[{"role":"user","content":"\ufffd"}]}'.encode()
    )


async def test_a_body_may_be_larger_than_an_event_and_has_its_own_bound() -> None:
    tools = {**ANTHROPIC, "tools": [{"description": "x" * 20_000}]}
    bounds: dict[str, Any] = {"event_max_bytes": 10_000, "gateway_fit_max_bytes": 30_000}
    async with gateway(**bounds) as client:
        taken = await client.post("/v1/fit", json=call(body=tools))
        assert taken.status == 200
        await taken.read()
        refused = await client.post("/v1/fit", json=call(body={**tools, "user": "x" * 10_000}))
        assert await problem(refused) == (413, "too_large", None)
        assert "gateway_fit_max_bytes" in await refused.text()
        events = await client.post("/v1/fit", json=call(body=chat(100)))
        assert await problem(events) == (413, "too_large", "$.body")


@pytest.mark.parametrize("step", ["fit_request_of", "read_chat"])
async def test_other_calls_are_answered_while_a_large_body_is_read(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, answered, read = threading.Event(), threading.Event(), getattr(fits, step)

    def waiting(*arguments: Any) -> Any:
        began.set()
        assert answered.wait(5)
        return read(*arguments)

    monkeypatch.setattr(fits, step, waiting)
    data = json.dumps(call(body={**ANTHROPIC, "user": "x" * (1 << 20)})).encode()
    headers = {"Content-Type": "application/json"}
    async with gateway() as client:
        fitting = asyncio.create_task(client.post("/v1/fit", data=BytesIO(data), headers=headers))
        assert await asyncio.to_thread(began.wait, 5)
        async with client.get("/livez") as alive:
            assert alive.status == 200
        answered.set()
        async with await fitting as fitted:
            assert fitted.status == 200


async def test_a_token_must_cover_both_policies_before_anything_is_charged(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text('[a]\ntoken = "0123456789abcdef"\ntenants = ["acme"]\npolicies = ["fit"]\n')
    headers = {"Authorization": "Bearer 0123456789abcdef"}
    backend = Counted()
    async with gateway(backend, gateway_tokens_file=tokens) as client:
        body = call(tenant="acme", artifacts=[], options={"artifacts_policy": "fit-artifacts"})
        refused = await client.post("/v1/fit", json=body, headers=headers)
        assert await problem(refused) == (403, "forbidden", "$.options.artifacts_policy")
        taken = await client.post("/v1/fit", json=call(options={"tenant": "acme"}), headers=headers)
        assert taken.status == 200
        await taken.read()
        assert len(backend.composed) == 1
        other = await client.post("/v1/fit", json=call(), headers=headers)
        assert await problem(other) == (403, "forbidden", "$.tenant")
