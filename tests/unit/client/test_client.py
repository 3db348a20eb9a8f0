"""Clients of a gateway: their requests, retries and errors."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import product
from typing import Any, cast

import httpx2
import pytest
from msgspec import convert
from msgspec.structs import replace
from support.commands import environment
from support.composing import candidate
from support.fitted_chats import chat
from support.gateways import gateway, url_of
from support.scripted_server import Scripted, ScriptedServer, scripted_server

from apportion import Candidate, ContextArtifact, ContextRequest, FitOptions, LocalSessions, fit, fit_async
from apportion.client import (
    AsyncGatewayClient,
    ComposedAnswer,
    FittedAnswer,
    GatewayClient,
    GatewayError,
    RefusedError,
    UnansweredError,
)
from apportion.core.wire.codec import encode
from apportion.doors.fitting import AsyncFitClient, FitClient

WHEN = datetime(2026, 3, 1, 12, tzinfo=UTC)
REQUEST = ContextRequest(
    request_id="r1",
    session_id="s1",
    requested_at=WHEN,
    policy="lanes",
    candidates=(convert(candidate("a", 20), Candidate),),
)
ARTIFACT = ContextArtifact(
    session_id="s1", published_at=WHEN, source="tests", artifact=convert(candidate("b", 5), Candidate)
)
COMPOSED = encode(LocalSessions().compose(REQUEST).composed)
ANSWERED = Scripted(200, COMPOSED)
BUSY = b'{"title":"Busy","status":503,"code":"not_delivered","detail":"repeat the call","request_id":"r1"}'
Call = Callable[..., ComposedAnswer | None]


class Blocking:
    """The asynchronous client with the interface of the other."""

    def __init__(self, url: str, **values: Any) -> None:
        self._url, self._values = url, values

    def __getattr__(self, method: str) -> Call:
        async def run(*args: Any, **kwargs: Any) -> ComposedAnswer | None:
            async with AsyncGatewayClient(self._url, **self._values) as client:
                return cast("ComposedAnswer | None", await getattr(client, method)(*args, **kwargs))

        return lambda *args, **kwargs: asyncio.run(run(*args, **kwargs))


@contextmanager
def blocking(url: str, **values: Any) -> Iterator[Blocking]:
    yield Blocking(url, **values)


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Any:
    """The class of each client."""
    return GatewayClient if request.param == "sync" else blocking


def composed_by(
    connect: Any, *responses: Scripted, with_decision: bool = False, **values: Any
) -> tuple[ComposedAnswer, ScriptedServer]:
    values = {"backoff_s": 0.0, "deadline_s": 20.0} | values
    with scripted_server(*responses) as server, connect(server.url, **values) as client:
        return client.compose(REQUEST, with_decision=with_decision), server


def failed(connect: Any, *responses: Scripted, **values: Any) -> tuple[GatewayError, ScriptedServer]:
    values = {"backoff_s": 0.0, "deadline_s": 20.0} | values
    with scripted_server(*responses) as server, connect(server.url, **values) as client:
        with pytest.raises(GatewayError) as caught:
            client.compose(REQUEST)
        return caught.value, server


def test_a_request_is_sent_as_the_event_that_it_is(connect: Any) -> None:
    answer, server = composed_by(connect, ANSWERED, token="t" * 16)
    [received] = server.received
    assert (received.method, received.path, received.body) == ("POST", "/v1/compose", encode(REQUEST))
    assert received.headers["authorization"] == "Bearer " + "t" * 16
    assert received.headers["content-type"] == "application/json"
    assert 1 <= int(received.headers["prefer"].removeprefix("wait=")) <= 20
    assert encode(answer.composed) == COMPOSED
    assert (answer.decision, answer.is_repeated) == (None, False)


def test_a_decision_is_returned_with_its_answer(connect: Any) -> None:
    decision = LocalSessions().compose(REQUEST).decision
    body = b'{"composed":%b,"decision":%b}' % (COMPOSED, encode(decision))
    answer, server = composed_by(
        connect, Scripted(200, body, {"Idempotency-Replayed": "true"}), with_decision=True
    )
    assert server.received[0].path == "/v1/compose?decision=true"
    assert (answer.decision, answer.is_repeated) == (decision, True)


@pytest.mark.parametrize(
    "failures",
    [
        [Scripted(503, BUSY)],
        [Scripted(504, BUSY), Scripted(429, BUSY, {"Retry-After": "0"})],
        [Scripted(502, b"<html>")],
        [Scripted(None)],
        [Scripted(503, BUSY, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"})] * 4,
    ],
)
def test_a_call_without_an_answer_is_repeated_unchanged(connect: Any, failures: list[Scripted]) -> None:
    answer, server = composed_by(connect, *failures, ANSWERED)
    assert encode(answer.composed) == COMPOSED
    assert len(server.received) == len(failures) + 1
    assert {received.body for received in server.received} == {encode(REQUEST)}


def test_a_pause_that_would_end_after_the_deadline_ends_the_call(connect: Any) -> None:
    error, server = failed(connect, Scripted(429, BUSY, {"Retry-After": "3600"}))
    assert isinstance(error, UnansweredError)
    assert (error.status, error.code, error.request_id, error.retry_after_s) == (
        429,
        "not_delivered",
        "r1",
        3600,
    )
    assert len(server.received) == 1


def test_an_unreachable_gateway_is_reported_with_the_request(connect: Any) -> None:
    with scripted_server() as server:
        url = server.url
    with connect(url, deadline_s=0.05, backoff_s=0.0) as client, pytest.raises(UnansweredError) as caught:
        client.compose(REQUEST)
    assert (caught.value.code, caught.value.status, caught.value.request_id) == ("no_response", None, "r1")
    assert "ConnectError" in caught.value.message or "Timeout" in caught.value.message


@pytest.mark.parametrize(
    ("status", "kind"),
    [(422, RefusedError), (413, RefusedError), (401, GatewayError), (410, GatewayError), (500, GatewayError)],
)
def test_a_problem_is_an_error_and_not_repeated(connect: Any, status: int, kind: type[GatewayError]) -> None:
    problem = b'{"title":"x","status":1,"code":"wrong_type","detail":"correct it","pointer":"$.policy"}'
    error, server = failed(connect, Scripted(status, problem))
    assert type(error) is kind
    assert (error.status, error.code, error.pointer, error.request_id) == (
        status,
        "wrong_type",
        "$.policy",
        "r1",
    )
    assert str(error) == "wrong_type: correct it (at $.policy)"
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("status", "body"), [*product([200, 302, 404], [b"<html>", b"{}", b"\xff", b'{"code":5}'])]
)
def test_a_response_that_no_gateway_gives_is_an_error(connect: Any, status: int, body: bytes) -> None:
    error, _ = failed(connect, Scripted(status, body))
    assert (error.code, error.status) == ("unexpected_response", status)


@pytest.mark.parametrize("url", ["", "localhost:8080", "ftp://host", "http://", "http://[x"])
def test_a_url_that_is_none_is_refused_at_once(url: str) -> None:
    for kind in (GatewayClient, AsyncGatewayClient):
        with pytest.raises(GatewayError, match="invalid_url: give the URL of a gateway"):
            kind(url)


def test_artifacts_are_published_and_retracted(connect: Any) -> None:
    accepted = Scripted(202)
    responses = (accepted, Scripted(503, BUSY), accepted, accepted)
    with scripted_server(*responses) as server, connect(server.url, backoff_s=0.0) as client:
        client.publish(ARTIFACT)
        client.retract("a.b", session_id="s 1", source="tests", tenant="acme")
        client.retract("../b c", session_id="s 1", source="tests", tenant="acme")
    published, *retracted = server.received
    assert (published.method, published.path, published.body) == ("POST", "/v1/artifacts", encode(ARTIFACT))
    assert [(received.method, received.path, received.body) for received in retracted] == [
        *[("DELETE", "/v1/artifacts/a.b?session_id=s+1&source=tests&tenant=acme", b"")] * 2,
        ("DELETE", "/v1/artifacts?id=..%2Fb+c&session_id=s+1&source=tests&tenant=acme", b""),
    ]


def test_a_given_http_client_is_used_and_left_open() -> None:
    with scripted_server(ANSWERED) as server, httpx2.Client(headers={"X-Own": "1"}) as http:
        with GatewayClient(server.url + "/", http=http) as client:
            client.compose(REQUEST)
        assert not http.is_closed
    assert (server.received[0].headers["x-own"], server.received[0].path) == ("1", "/v1/compose")

    async def check() -> None:
        with scripted_server(ANSWERED) as server:
            async with httpx2.AsyncClient(headers={"X-Own": "1"}) as http:
                async with AsyncGatewayClient(server.url, http=http) as client:
                    await client.compose(REQUEST)
                assert not http.is_closed
        assert server.received[0].headers["x-own"] == "1"

    asyncio.run(check())


@pytest.mark.asyncio
async def test_both_clients_speak_with_a_gateway() -> None:
    async with gateway() as caller:
        url = url_of(caller)
        async with AsyncGatewayClient(url) as client:
            await client.publish(ARTIFACT)
            first = await client.compose(REQUEST, with_decision=True)
            assert first.decision is not None
            assert {entry.id for entry in first.decision.candidates} == {"a", "b"}
            for artifact_id in ("b", ".", "..", "a/../b", "a\nb", "//"):
                await client.retract(artifact_id, session_id="s1", source="tests")

        def repeat() -> ComposedAnswer:
            with GatewayClient(url) as client:
                with pytest.raises(RefusedError, match=r"unknown_policy: .* \(at \$\.policy\)"):
                    client.compose(replace(REQUEST, request_id="r2", policy="nope"))
                return client.compose(REQUEST, with_decision=True)

        second = await asyncio.to_thread(repeat)
        assert (second.composed, second.decision) == (first.composed, first.decision)
        assert (first.is_repeated, second.is_repeated) == (False, True)


@pytest.mark.asyncio
async def test_fit_gives_the_same_through_a_gateway_as_in_this_process() -> None:
    options = FitOptions(request_id="r1", requested_at=WHEN)
    artifacts = [{"content": "a.py prints a line."}]

    def fitted(session_id: str, client: FitClient) -> Any:
        return fit(chat(30), 300, session_id=session_id, client=client, artifacts=artifacts, options=options)

    async with gateway() as caller:
        url = url_of(caller)
        async with AsyncGatewayClient(url) as client:
            typed: AsyncFitClient = client
            there = await fit_async(
                chat(30), 300, session_id="s1", client=typed, artifacts=artifacts, options=options
            )
        here = fitted("s1", LocalSessions())
        assert there == here
        with GatewayClient(url) as sync:
            again = await asyncio.to_thread(fitted, "s1", sync)
        assert again == here


@pytest.mark.asyncio
async def test_a_gateway_fits_a_body_as_this_process() -> None:
    body = {"model": "m", "messages": chat(30)[1:], "system": "Be brief."}
    options = FitOptions(request_id="r1", requested_at=WHEN, pinned=[1])
    artifacts = [convert(candidate("a", 20) | {"lane": "retrieved"}, Candidate)]

    async with gateway() as caller:
        url = url_of(caller)
        async with AsyncGatewayClient(url) as client:
            there = await client.fit(body, 300, session_id="s1", artifacts=artifacts, options=options)
            alone = await client.fit([{"role": "user", "content": "hello"}], 300, options={"tenant": "acme"})

        def repeat() -> FittedAnswer:
            with GatewayClient(url) as sync:
                with pytest.raises(RefusedError, match=r"invalid_value: .* \(at \$\.options\.pinned\[0\]\)"):
                    sync.fit(body, 300, options=FitOptions(pinned=[99]))
                return sync.fit(body, 300, session_id="s1", artifacts=artifacts, options=options)

        again = await asyncio.to_thread(repeat)
    here = fit(
        cast("Any", body),
        300,
        session_id="s1",
        client=LocalSessions(),
        artifacts=artifacts,
        options=options,
    )
    assert (there.body, there.used_tokens, there.sources) == (here.body, here.used_tokens, here.sources)
    assert (there.decision, there.artifacts_decision) == (here.decision, here.artifacts_decision)
    assert again == replace(there, is_repeated=True)
    assert (alone.decision.tenant, alone.artifacts_decision, alone.limit_tokens) == ("acme", None, 300)


def test_a_fitted_body_is_asked_for_with_the_same_id_in_each_attempt(connect: Any) -> None:
    responses = (Scripted(503, BUSY), Scripted(200, b"{}"))
    with (
        scripted_server(*responses) as server,
        connect(server.url, backoff_s=0.0) as client,
        pytest.raises(GatewayError) as caught,
    ):
        client.fit([], 9, options=FitOptions(pinned=[3]))
    [body] = {received.body for received in server.received}
    sent = json.loads(body)
    name = sent["options"].pop("request_id")
    assert sent == {"body": [], "limit_tokens": 9, "options": {"pinned": [3]}}
    assert (len(name), caught.value.code, caught.value.request_id) == (36, "unexpected_response", name)
    assert [received.path for received in server.received] == ["/v1/fit"] * 2


@pytest.mark.parametrize("data", [b"x", bytearray(b"x"), memoryview(b"x")])
def test_a_body_with_bytes_is_refused_before_it_is_sent(connect: Any, data: Any) -> None:
    body = {"messages": [{"content": [{"image": {"source": {"bytes": data}}}]}]}
    with scripted_server() as server, connect(server.url) as client:
        with pytest.raises(GatewayError) as caught:
            client.fit(body, 300)
        assert (caught.value.code, caught.value.pointer, server.received) == ("not_json", "$.body", [])


def test_half_of_a_surrogate_pair_is_sent_as_an_escape(connect: Any) -> None:
    with scripted_server(Scripted(200, b"{}")) as server, connect(server.url) as client:
        with pytest.raises(GatewayError):
            client.fit([{"role": "user", "content": "\ud83d \u20ac"}], 300)
        assert b'"content": "\\ud83d \xe2\x82\xac"' in server.received[0].body


@pytest.mark.parametrize("missing", ["httpx2", "tenacity"])
def test_without_the_extra_it_names_the_install_command(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import apportion.client"
    ended = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    shown = f"ModuleNotFoundError: {missing} is not installed: run `pip install 'apportion[client]'`"
    assert ended.stderr.splitlines()[-1] == shown


def test_an_absent_id_is_made_once_for_all_attempts() -> None:
    without = replace(REQUEST, request_id=cast("str", None), requested_at=cast("datetime", None))
    with scripted_server(Scripted(503, BUSY), ANSWERED) as server:
        GatewayClient(server.url, backoff_s=0).compose(without)
    [body] = {received.body for received in server.received}
    assert b'"request_id":null' not in body
