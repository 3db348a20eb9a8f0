"""Frameworks without network: their settings, read when they are imported, and a guard over sockets."""

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

os.environ["LANGSMITH_TRACING"] = "false"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it is fetched when the module is imported
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"


@pytest.fixture(autouse=True)
def _without_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that connects anywhere but to this machine, even if a framework catches the error."""
    asked: list[Any] = []
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            asked.append(address)
            raise OSError("no network in tests")
        connect(self, address)

    def resolve(host: Any, *_: object, **__: object) -> Any:
        asked.append(host)
        raise OSError("no network in tests")

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    yield
    assert asked == []
