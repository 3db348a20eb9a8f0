"""A consumer waits where its broker does not, and never longer than its fetch named."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.metadata import MetadataRequest

from apportion.shell.kafka import record_consumer
from apportion.shell.kafka.record_consumer import pace_fetches

pytestmark = pytest.mark.asyncio


class Broker:
    """A broker with a clock that advances by its own waits and by the pauses of its client."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, waits_s: float = 0) -> None:
        self.now_s, self.waits_s, self.data = 0.0, waits_s, b""
        self.pauses_ms: list[int] = []
        client = SimpleNamespace(send=self._send)
        pace_fetches(SimpleNamespace(_client=client))
        self._sender: Any = client
        monkeypatch.setattr(record_consumer, "perf_counter", lambda: self.now_s)
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    async def fetch(self, data: bytes = b"", wait_ms: int = 100) -> None:
        self.data = data
        await self._sender.send(0, FetchRequest(wait_ms, 1, 1, 1, [("t", [(0, 0, 1)])]))

    async def ask(self) -> None:
        await self._sender.send(0, MetadataRequest([]), group=1)

    async def _send(self, _node: int, _request: Any, **_options: Any) -> Any:
        self.now_s += self.waits_s
        return SimpleNamespace(topics=[("t", [(0, 0, 9, b""), (1, 0, 9, self.data)])])

    async def _sleep(self, pause_s: float) -> None:
        self.pauses_ms.append(round(pause_s * 1000))


async def test_pauses_grow_up_to_a_bound_and_reset_after_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(monkeypatch)
    for data in (b"", b"", b"", b"", b"", b"", b"records", b""):
        await broker.fetch(data)
    assert broker.pauses_ms == [1, 2, 4, 8, 15, 15, 1]


async def test_a_broker_that_waited_is_asked_again_at_once_and_other_requests_are_not_held_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(monkeypatch, waits_s=0.1)
    await broker.fetch()
    await broker.ask()
    assert broker.pauses_ms == [0]


async def test_a_pause_ends_with_the_time_that_the_fetch_named(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch)
    for _ in range(5):
        await broker.fetch(wait_ms=3)
    assert broker.pauses_ms == [1, 2, 3, 3, 3]
