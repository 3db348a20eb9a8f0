"""One run: topics of its own, a load, workers, and at the end the audit of all that is in the topics."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

from aiokafka import AIOKafkaProducer
from reliability.fleet import Fleet
from reliability.load import Sent
from reliability.topics import audit_topics, committed_offsets, end_offsets
from support.audit import Audited
from support.batches import produce, stamped
from support.running import NEVER_TOO_MANY, own_settings

from apportion.core.wire.record import Record
from apportion.settings import Settings
from apportion.settings.value_types import Guarantee
from apportion.shell.kafka.admin import BrokerUnreachableError
from apportion.shell.kafka.connection import connection_arguments
from apportion.shell.kafka.topics import create_topics

CAUGHT_UP_DEADLINE_S = 240.0
_POLL_S = 0.3


@dataclass(slots=True)
class Run:
    """Topics, a producer and workers."""

    settings: Settings
    producer: AIOKafkaProducer
    fleet: Fleet
    sent: int = 0
    records: int = 0
    """The number of sent records; a batch may have several."""
    is_compacted: bool = False
    kept: dict[str, dict[int, list[Record]]] = field(default_factory=dict)
    """By topic and partition, records of topics that are deleted later."""
    passed_over: dict[int, range] = field(default_factory=dict)
    """By partition, offsets that another client's commit has passed over: they are not answered."""

    async def send(
        self, load: Sequence[Sent], per_s: float | None = None, done: Callable[[], bool] = lambda: False
    ) -> None:
        """Send records in their order, at most so many a second, until all are sent or it is `done`."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for number, one in enumerate(load):
            if per_s is not None and (early_s := begun + number / per_s - loop.time()) > 0:
                await asyncio.sleep(early_s)
            if done():
                break
            self.sent, self.records = self.sent + 1, self.records + one.count
            topic = self.settings.requests_topic
            if one.batch is not None:
                batch = stamped(one.batch, int(time() * 1000))
                await produce(self.producer.client, topic, one.partition, batch)
                continue
            await self.producer.send(topic, one.value, key=one.key, partition=one.partition)
        await self.producer.flush()

    async def begun(self) -> None:
        """Wait until workers have committed something."""
        async with asyncio.timeout(CAUGHT_UP_DEADLINE_S):
            while not await self._is_committed({}):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(_POLL_S)

    async def caught_up(self, deadline_s: float = CAUGHT_UP_DEADLINE_S) -> None:
        """Wait until all that was sent is committed."""
        ends = await end_offsets(self.settings)
        async with asyncio.timeout(deadline_s):
            while not await self._is_committed(ends):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(_POLL_S)

    async def _is_committed(self, ends: dict[int, int]) -> bool:
        try:
            committed = await committed_offsets(self.settings)
        except BrokerUnreachableError:
            return False  # as some runs have it
        return bool(committed) and all(committed.get(partition, 0) >= end for partition, end in ends.items())

    async def audit(self) -> Audited:
        once = self.settings.guarantee is Guarantee.EXACTLY_ONCE
        return await audit_topics(
            self.settings,
            once=once,
            compacted=self.is_compacted,
            kept=self.kept,
            passed_over=self.passed_over,
        )


_COLD_S = 30.0
"""The time in which a broker that has just started must know its new topics."""


@asynccontextmanager
async def run_of(bootstrap_servers: str, folder: Path, **values: Any) -> AsyncIterator[Run]:
    """Make topics of one's own; at the end no worker lives."""
    settings = own_settings(bootstrap_servers, **{"partitions": 6, **NEVER_TOO_MANY, **values})
    await create_topics(settings.model_copy(update={"request_timeout_s": _COLD_S}))
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - once, before anything runs
    producer = AIOKafkaProducer(**connection_arguments(settings), acks="all", enable_idempotence=True)
    async with producer:
        producer._message_accumulator._batch_ttl = CAUGHT_UP_DEADLINE_S  # brokers are away in some runs
        run = Run(settings, producer, Fleet(settings, folder))
        try:
            yield run
        finally:
            await run.fleet.kill()
