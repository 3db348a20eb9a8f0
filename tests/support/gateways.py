"""A gateway within the test's process or in one of its own, and calls to it."""

import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from aiohttp import ClientResponse, ClientSession

from apportion.doors.gateway.access import create_access
from apportion.doors.gateway.application import GatewayApp
from apportion.doors.gateway.backend import Backend
from apportion.doors.gateway.local_backend import LocalBackend
from apportion.doors.gateway.openapi import openapi
from apportion.doors.gateway.serving import serving
from apportion.doors.gateway.tracing import CallSpans
from apportion.settings import Settings
from support.commands import command, environment, started
from support.composing import candidate

Caller = ClientSession


@asynccontextmanager
async def gateway(
    backend: Backend | None = None, spans: CallSpans | None = None, **values: Any
) -> AsyncIterator[Caller]:
    """Serve a gateway with these settings; the default backend is the backend of `--local`."""
    settings = Settings(**{"gateway_port": 0} | values)
    app = GatewayApp(settings, create_access(settings), backend or local(**values), openapi(), spans)
    async with serving(app, settings) as port, ClientSession(f"http://127.0.0.1:{port}") as client:
        yield client


@contextmanager
def running(*arguments: str | Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run a gateway as a process, and yield it and its address once it is ready."""
    line = command("gateway", "--local", "--gateway-port", "0", "--log-format", "json", *arguments)
    with started(line, env=environment(), stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        assert serving.stderr.readline() == "apportion: sessions are in memory and end with this process\n"
        ready = json.loads(serving.stderr.readline())
        assert ready["message"] == "ready"
        yield serving, f"http://127.0.0.1:{ready['port']}"


def local(events: BinaryIO | None = None, decisions: BinaryIO | None = None, **values: Any) -> LocalBackend:
    """Return a backend without Kafka."""
    return LocalBackend(Settings(**values), events, decisions)


def url_of(client: Caller) -> str:
    """Return the URL of a served gateway."""
    return str(client._base_url)


def body(**changes: Any) -> dict[str, Any]:
    """Return the body of a request, without the fields filled in by the gateway."""
    fields = {"session_id": "s", "candidates": [candidate("a", 20), candidate("b", 30)]} | changes
    return {name: value for name, value in fields.items() if value is not None}


def artifact_body(name: str = "c") -> dict[str, Any]:
    """Return an artifact as a call has it."""
    return {"session_id": "s", "source": "tests", "artifact": candidate(name, 5)}


async def problem(response: ClientResponse) -> tuple[int, str, str | None]:
    """Return the status, code and pointer of a problem, and check its form."""
    assert response.content_type == "application/problem+json"
    details = await response.json(content_type=None)
    assert details["status"] == response.status
    assert details["title"]
    assert details["detail"]
    return response.status, details["code"], details.get("pointer")
