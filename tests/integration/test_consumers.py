"""The consumers of docs/consuming.md, run: each composed event is handled once, despite duplicates."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from support.commands import answers
from support.deployed import DEPLOY
from support.requiring import NODE

from apportion.demo.broker import embedded_broker

pytestmark = pytest.mark.asyncio

DEADLINE_S = 60
PYTHON = {"aiokafka": "consume_aiokafka.py", "confluent-kafka": "consume_confluent.py"}


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with embedded_broker() as running:
        yield running.bootstrap_servers


@pytest.fixture(scope="module")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The type-checked consumer in TypeScript, compiled to JavaScript, with its library."""
    NODE.require()
    folder = tmp_path_factory.mktemp("node")
    for file in (DEPLOY / "consumers/node").iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    if not answers("npm", "ci", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund"):
        NODE.end_test("cannot install kafkajs")
    assert answers(str(folder / "node_modules/.bin/tsc"), "--project", str(folder))
    return folder / "consume.js"


@pytest.fixture(params=[*PYTHON, "kafkajs"])
def command(request: pytest.FixtureRequest) -> Sequence[str]:
    """The command line of each consumer."""
    if request.param == "kafkajs":
        return "node", str(request.getfixturevalue("typescript"))
    return sys.executable, str(DEPLOY / "consumers" / PYTHON[request.param])


@asynccontextmanager
async def consuming(*command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *command, env={"PATH": os.environ["PATH"]}, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def lines(process: asyncio.subprocess.Process, count: int) -> list[str]:
    """Return the next lines that a consumer prints."""
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        return [(await process.stdout.readline()).decode().split()[0] for _ in range(count)]


async def stop(process: asyncio.subprocess.Process) -> list[bytes]:
    """Ask a consumer to stop, as a supervisor does, and return its remaining output."""
    assert process.stdout is not None
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(DEADLINE_S):
        return (await process.stdout.read()).splitlines()


def composed(decision: str) -> bytes:
    """Return as much of a composed event as consumers read here."""
    return json.dumps({"decision_id": decision, "status": "composed", "tokens": {"used": 7}}).encode()


async def test_each_event_is_handled_once_even_after_a_restart(
    broker: str, command: Sequence[str], request: pytest.FixtureRequest
) -> None:
    topic = f"composed-{request.node.callspec.id}"
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    await admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
    await admin.close()

    async def send(*decisions: str) -> None:
        for decision in decisions:
            await producer.send_and_wait(topic, composed(decision), partition=decision.startswith("b"))

    async with AIOKafkaProducer(bootstrap_servers=broker) as producer:
        await send("a1", "a2", "b1", "a1", "b1", "b2", "a2", "a3")
        async with consuming(*command, broker, topic, f"group-{topic}") as process:
            assert sorted(await lines(process, 5)) == ["a1", "a2", "a3", "b1", "b2"]
            await send("b2", "a3", "b3")
            assert await lines(process, 1) == ["b3"]
            await send("a4")
            assert await lines(process, 1) == ["a4"]
            assert await stop(process) == []
        await send("a5")
        async with consuming(*command, broker, topic, f"group-{topic}") as process:
            [first] = await lines(process, 1)
            assert first in {"a4", "a5"}  # the last handled records may or may not be committed
            if first != "a5":
                assert "a5" in await lines(process, 1)
            await stop(process)
