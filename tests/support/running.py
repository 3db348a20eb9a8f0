"""Shared parts of tests of the running worker: separate topics, events, outputs, and processes.

Every wait has a deadline, and is for a condition.
"""

import asyncio
import json
import signal
import sys
import uuid
from asyncio.subprocess import Process
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import ConsumerRecord
from msgspec import to_builtins

from apportion.core.events import session_key
from apportion.settings import PREFIX, Settings
from apportion.shell.kafka.connection import connection_arguments
from apportion.shell.kafka.partitioning import partition_of
from apportion.shell.kafka.record_consumer import pace_fetches
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES, changelog_topic, create_topics
from apportion.shell.stream.state.recovery import read_rows
from apportion.shell.stream.state.row_format import Row, encode_row
from support.commands import command, environment
from support.composing import NOW, candidate

DEADLINE_S = 40.0
STOP_DEADLINE_S = 10.0
TIMEOUTS_S = {
    "request_timeout_s": 4.0,
    "delivery_timeout_s": 4.0,
    "session_timeout_s": 6.0,
    "rebalance_timeout_s": 12.0,
    "recovery_timeout_s": 16.0,
}
"""Short timeouts, because every broker is local."""
DEFAULT_TIMEOUTS_S = {name: getattr(Settings(), name) for name in TIMEOUTS_S}
NEVER_TOO_MANY = {"dead_letter_share_max": 1.0}
_SESSIONS = tuple(f"s{number}" for number in range(8))
Headers = tuple[tuple[str, bytes], ...]


def own_settings(bootstrap_servers: str, **values: Any) -> Settings:
    """Return settings with topics of this test only; the worker reads the same from its environment."""
    prefix = f"test-{uuid.uuid4().hex[:12]}"
    kinds = ("requests", "policies", "composed", "decisions", "dead_letters", "usage")
    given: dict[str, Any] = {
        "brokers": tuple(bootstrap_servers.split(",")),
        "app_id": prefix,
        "partitions": 4,
        "replication_factor": 1,
        "health_port": 0,
        **TIMEOUTS_S,
        **{f"{kind}_topic": f"{prefix}-{kind}" for kind in kinds},
    }
    return Settings(**given | values)


def request(request_id: str, session_id: str = "s", **changes: Any) -> dict[str, Any]:
    """Return a small request as it travels."""
    return {
        "type": "context-request",
        "request_id": request_id,
        "session_id": session_id,
        "requested_at": NOW,
        "candidates": [candidate("a", 20), candidate("b", 30)],
    } | changes


@dataclass(slots=True)
class Outputs:
    """The output topics from their beginning; grows while somebody waits for more."""

    settings: Settings
    consumer: AIOKafkaConsumer
    records: list[ConsumerRecord] = field(default_factory=list)

    async def wait_for(self, condition: Callable[["Outputs"], bool]) -> "Outputs":
        """Read until the condition holds."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition(self):
                await self._read()
        return self

    async def wait_for_end(self) -> "Outputs":
        """Read all that is there now."""
        ends = await self.consumer.end_offsets(self.consumer.assignment())
        async with asyncio.timeout(DEADLINE_S):
            while any([await self.consumer.position(place) < end for place, end in ends.items()]):
                await self._read()
        return self

    async def _read(self) -> None:
        batches = await self.consumer.getmany(timeout_ms=200)
        self.records += (record for batch in batches.values() for record in batch)

    def of(self, topic: str) -> list[ConsumerRecord]:
        """Return a topic's records, in order within each partition."""
        return [record for record in self.records if record.topic == topic]

    def events(self, topic: str) -> list[dict[str, Any]]:
        """Return a topic's events."""
        return [json.loads(record.value) for record in self.of(topic)]

    @property
    def composed(self) -> list[dict[str, Any]]:
        return self.events(self.settings.composed_topic)

    @property
    def decisions(self) -> list[dict[str, Any]]:
        return self.events(self.settings.decisions_topic)

    @property
    def dead_letters(self) -> list[dict[str, Any]]:
        return self.events(self.settings.dead_letters_topic)

    def answered(self, request_ids: Iterable[str]) -> bool:
        """Return whether both events of each request have come."""
        wanted = set(request_ids)
        both = (self.composed, self.decisions)
        return all(wanted <= {event["request_id"] for event in events} for events in both)


@dataclass(frozen=True, slots=True)
class Stage:
    """Topics of one test, and a producer for them."""

    settings: Settings
    producer: AIOKafkaProducer
    outputs: Outputs

    async def send(self, *events: dict[str, Any], headers: Headers = ()) -> list[int]:
        """Publish events under their sessions' keys, in their order, and return their offsets."""
        sent = []
        for event in events:
            key = session_key(event.get("tenant", "default"), event["session_id"]).encode()
            sent.append(await self.send_raw(key, json.dumps(event).encode(), headers))
        return [(await message).offset for message in sent]

    async def send_raw(
        self, key: bytes | None, value: bytes | None, headers: Headers = (), partition: int | None = None
    ) -> "asyncio.Future[Any]":
        """Publish an unchanged record; the default partition is the one of its key."""
        if partition is None:
            partition = partition_of(key or b"", self.settings.partitioner, self.settings.partitions)
        sent: asyncio.Future[Any] = await self.producer.send(
            self.settings.requests_topic, value=value, key=key, headers=list(headers), partition=partition
        )
        return sent

    async def write_row(self, session_id: str, row: Row) -> None:
        """Put a row into the changelog, as if a worker had answered before."""
        key = session_key("default", session_id).encode()
        partition = partition_of(key, self.settings.partitioner, self.settings.partitions)
        await self.producer.send_and_wait(
            changelog_topic(self.settings), encode_row(row), key=key, partition=partition
        )

    async def last_row(self, session_id: str) -> dict[str, Any]:
        """Return a session's row as the changelog has it."""
        key = session_key("default", session_id).encode()
        partition = partition_of(key, self.settings.partitioner, self.settings.partitions)
        assert partition is not None
        row = (await read_rows(self.settings, [partition]))[partition].row(key)
        assert row is not None
        return {"seen_offset": row.seen_offset, "session": to_builtins(row.session)}


@asynccontextmanager
async def staged(settings: Settings, isolation_level: str = "read_uncommitted") -> AsyncIterator[Stage]:
    """Create the topics and connect; the outputs are read at this level."""
    await create_topics(settings.model_copy(update=DEFAULT_TIMEOUTS_S))  # the machine may be busy
    common = connection_arguments(settings)
    topics = (settings.composed_topic, settings.decisions_topic, settings.dead_letters_topic)
    async with (
        AIOKafkaProducer(
            **common, max_request_size=MESSAGE_MAX_BYTES, acks="all", enable_idempotence=True
        ) as producer,
        AIOKafkaConsumer(
            **common, max_partition_fetch_bytes=MESSAGE_MAX_BYTES, isolation_level=isolation_level
        ) as consumer,
    ):
        pace_fetches(consumer)
        consumer.assign([TopicPartition(topic, n) for topic in topics for n in range(settings.partitions)])
        await consumer.seek_to_beginning()
        yield Stage(settings, producer, Outputs(settings, consumer))


@dataclass(slots=True)
class Worker:
    """A worker process and its log."""

    process: Process
    lines: list[str] = field(default_factory=list)
    _grown: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    @property
    def resident_max_mib(self) -> int:
        """The most memory that it has had in use; 0 if it has ended."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except FileNotFoundError:
            return 0
        return next((int(line.split()[1]) >> 10 for line in status.splitlines() if "VmHWM" in line), 0)

    async def read_log(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode().rstrip())
            self._grown.set()
        self.lines.append("(the worker has ended)")
        self._grown.set()

    async def wait_for_line(self, text: str, count: int = 1) -> None:
        """Return when so many lines hold the text."""
        async with asyncio.timeout(DEADLINE_S):
            while sum(text in line for line in self.lines) < count:
                assert self.process.returncode is None, self.log
                await self._grown.wait()
                self._grown.clear()

    def kill(self) -> None:
        """End it as kill -9 does."""
        self.process.send_signal(signal.SIGKILL)

    async def stop(self) -> int:
        """Ask it to stop, as a supervisor does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return await self.ended(STOP_DEADLINE_S)

    async def ended(self, within_s: float = DEADLINE_S) -> int:
        """Return its exit code after its own end."""
        async with asyncio.timeout(within_s):
            return await self.process.wait()


def variables_of(settings: Settings) -> dict[str, str]:
    """Return the variables by which a process gets the same settings."""
    return {
        f"{PREFIX}{name.upper()}": ",".join(value) if isinstance(value, tuple) else str(value)
        for name, value in settings.model_dump(exclude_none=True, exclude_defaults=True).items()
    }


@asynccontextmanager
async def worker_running(
    settings: Settings, *, until_ready: bool = True, prelude: str = ""
) -> AsyncIterator[Worker]:
    """Run `apportion run` with these settings; a prelude is code that runs before it."""
    process = await asyncio.create_subprocess_exec(
        *(
            [sys.executable, "-c", f"{prelude}\nfrom apportion.cli import main\nmain()", "run"]
            if prelude
            else command("run")
        ),
        env=environment(**variables_of(settings)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    worker = Worker(process)
    reading = asyncio.create_task(worker.read_log())
    try:
        if until_ready:
            await worker.wait_for_line("message=ready")
        yield worker
    finally:
        if process.returncode is None:
            process.kill()
        async with asyncio.timeout(STOP_DEADLINE_S):
            await process.wait()
            await reading
        sys.stderr.write(worker.log)  # pytest shows it where a test fails


def requests(name: str, count: int) -> list[dict[str, Any]]:
    """Return requests of all sessions in turn."""
    return [request(f"{name}-{number}", _SESSIONS[number % len(_SESSIONS)]) for number in range(count)]


def ids(events: list[dict[str, Any]]) -> set[str]:
    """Return the requests' ids."""
    return {event["request_id"] for event in events}


def without_run(decision: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an output that is equal for every worker and every repetition."""
    return {name: value for name, value in decision.items() if name != "run"}


async def assert_answered_and_charged_once(stage: Stage, sent: list[dict[str, Any]]) -> None:
    """Each request has one answer, sent again only as the same, and each session has paid for it once."""
    outputs = await stage.outputs.wait_for_end()
    for events in (outputs.composed, [without_run(decision) for decision in outputs.decisions]):
        by_id = {event["decision_id"]: event for event in events}
        assert all(by_id[event["decision_id"]] == event for event in events)
        assert sorted(event["request_id"] for event in by_id.values()) == sorted(ids(sent))
    spent: dict[str, int] = defaultdict(int)
    for decision in {decision["decision_id"]: decision for decision in outputs.decisions}.values():
        spent[decision["session_id"]] += decision["tokens"]["used"]
    for session in _SESSIONS:
        row = await stage.last_row(session)
        assert row["session"]["spent_tokens"] == spent[session] > 0
        assert row["session"]["prompts"] == sum(event["session_id"] == session for event in sent)
