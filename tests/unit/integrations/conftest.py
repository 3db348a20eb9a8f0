"""Frameworks without network: their settings, read when they are imported, and a guard over sockets."""

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

os.environ["LANGSMITH_TRACING"] = "false"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it is fetched when the module is imported
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

LOCAL = ("127.0.0.1", "::1", "localhost")


@pytest.fixture(autouse=True)
def _without_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that connects anywhere but to this machine, even if a framework catches the error."""
    asked: list[Any] = []
    connect = socket.socket.connect

    resolve = socket.getaddrinfo

    def require_local(host: Any) -> None:
        if host not in LOCAL:
            asked.append(host)
            raise OSError("no network in tests")

    def guarded_connect(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX:
            require_local(address[0])
        connect(self, address)

    def guarded_resolve(host: Any, *args: Any, **options: Any) -> Any:
        require_local(host)
        return resolve(host, *args, **options)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_resolve)
    yield
    assert asked == []
