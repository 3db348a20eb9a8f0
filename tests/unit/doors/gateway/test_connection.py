"""Connections: bounds on heads and on their number, and problems for heads that cannot be read."""

import asyncio
import json
from typing import Any, NoReturn

import pytest
from support.gateways import Caller, body, gateway

from apportion.doors.gateway import connection, serving
from apportion.doors.gateway.local_backend import LocalBackend
from apportion.settings import Settings

pytestmark = pytest.mark.asyncio

HALF_A_HEAD = b"POST /v1/compose HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
WITHOUT_BODY = (
    b"POST /v1/compose HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n"
)
CALL = b'{"session_id": "s",         "candidates": []}'
DEADLINE_S = 5.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Unanswering(LocalBackend):
    """A backend with calls that wait."""

    async def compose(self, *_: Any, **__: Any) -> NoReturn:
        """Wait until the caller goes away."""
        await asyncio.Event().wait()
        raise AssertionError


async def connected(client: Caller, sent: bytes) -> Streams:
    assert client._base_url is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", client._base_url.port)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def rest_of(streams: Streams) -> bytes:
    """Return the bytes that a gateway sends until it closes the connection."""
    async with asyncio.timeout(DEADLINE_S):
        try:
            return await streams[0].read()
        except ConnectionResetError:
            return b""
        finally:
            streams[1].close()


@pytest.mark.parametrize("before", [b"", LIVEZ])
async def test_a_head_that_is_not_complete_in_time_ends_its_connection(
    before: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_HEAD_S", 0.1)
    async with gateway() as client:
        streams = await connected(client, before)
        if before:
            await streams[0].readuntil(b"ok\n")
            await asyncio.sleep(0.2)  # a connection may be idle for longer
        streams[1].write(HALF_A_HEAD)
        assert await rest_of(streams) == b""


async def test_the_size_of_a_head_is_bounded() -> None:
    async with gateway() as client:
        head = HALF_A_HEAD + b"".join(b"x\r\nX-%d: %b" % (number, b"x" * 8000) for number in range(9))
        assert await rest_of(await connected(client, head)) == b""


async def test_a_slow_body_does_not_end_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_HEAD_S", 0.05)
    async with gateway() as client:
        streams = await connected(client, WITHOUT_BODY)
        await asyncio.sleep(0.2)
        streams[1].write(b'{"a": 1}\n')
        assert b"unknown_field" in await streams[0].readuntil(b"}")
        streams[1].close()


async def test_connections_over_the_limit_replace_idle_ones_without_a_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "connections_max", lambda _: 3)
    async with gateway() as client:
        slow = [await connected(client, HALF_A_HEAD) for _ in range(3)]
        assert (await client.get("/livez")).status == 200
        assert await rest_of(slow[0]) == b""
        assert not slow[1][0].at_eof()
        for _, writer in slow:
            writer.close()
            await writer.wait_closed()


async def test_stalled_bodies_block_no_other_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "connections_max", lambda _: 3)
    async with gateway() as client:
        slow = [await connected(client, WITHOUT_BODY) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert (await client.get("/livez")).status == 200
        assert await rest_of(slow[0]) == b""
        assert not slow[1][0].at_eof()
        for _, writer in slow:
            writer.close()
            await writer.wait_closed()


async def test_a_new_connection_is_closed_if_all_others_have_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "connections_max", lambda _: 2)
    async with gateway(Unanswering(Settings(), None, None)) as client:
        calling = [await connected(client, WITHOUT_BODY[:-5] + b"45\r\n\r\n" + CALL) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert await rest_of(await connected(client, LIVEZ)) == b""
        for _, writer in calling:
            writer.close()
            await writer.wait_closed()


async def test_half_of_the_descriptors_stay_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 256))
    assert (connection.connections_max(1024), connection.connections_max(100)) == (128, 100)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"POST /v1/compose HTTP/1.1\r\nHost: localhost\r\nExpect: x", (417, "expectation_failed")),
        (b"GET /none HTTP/1.1\r\nHost: localhost\r\nExpect: x", (417, "expectation_failed")),
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 8191, (431, "head_too_large")),
        (b"GET /" + b"x" * 8191 + b" HTTP/1.1\r\nHost: localhost", (431, "head_too_large")),
        (b"SECRET /livez HTTP/1.1\r\nHost: localhost", (400, "invalid_head")),
        (b"secret", (400, "invalid_head")),
        (WITHOUT_BODY.strip() + b"\r\nContent-Encoding: br", (415, "unsupported_media_type")),
        (WITHOUT_BODY.strip() + b"\r\nContent-Encoding: zstd", (415, "unsupported_media_type")),
    ],
)
async def test_a_head_that_cannot_be_read_is_a_problem_and_counted(
    head: bytes, expected: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway() as client:
        answer = await rest_of(await connected(client, head + b"\r\n\r\n"))
        first, _, content = answer.partition(b"\r\n\r\n")
        details: dict[str, Any] = json.loads(content)
        assert b"application/problem+json" in first
        assert (details["status"], details["code"]) == expected
        assert int(first.split()[1]) == expected[0]
        text = await (await client.get("/metrics")).text()
    assert f'apportion_gateway_calls_total{{path="other",status="{expected[0]}"}} 1.0' in text
    assert "secret" not in (answer.decode() + caplog.text).lower()


async def test_calls_follow_each_other_on_a_connection() -> None:
    async with gateway() as client:
        for _ in range(3):
            assert (await client.post("/v1/compose", json=body())).status == 200
