"""A pipeline with one partition and its rows, without Kafka, for the tests of every writer."""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from aiokafka.structs import ConsumerRecord

from apportion.engine.assembly import create_engine, create_timeline
from apportion.settings import Settings
from apportion.shell.kafka.commit_metadata import CommitMetadata, decode_metadata
from apportion.shell.kafka.policies_topic import PoliciesUnreadError
from apportion.shell.stream.pipeline.answers import Answers
from apportion.shell.stream.pipeline.batch import Batch, BatchBounds, BatchComposer
from apportion.shell.stream.pipeline.breaker import DeadLetterShare
from apportion.shell.stream.pipeline.membership import Membership
from apportion.shell.stream.pipeline.pipeline import Pipeline
from apportion.shell.stream.pipeline.queues import FifoQueue
from apportion.shell.stream.pipeline.writer import Writer
from apportion.shell.stream.state.rows import PartitionRows
from support.running import request

DEADLINE_S = 5
KEY = b"default/s"
_NOW_MS = 1_772_366_400_000


def read(offset: int, event: dict[str, Any] | None = None) -> Any:
    """Return a record of the requests topic, under the key of session `s`; by default a request."""
    value = json.dumps(event or request(f"r{offset}")).encode()
    topic = Settings().requests_topic
    return ConsumerRecord(topic, 0, offset, _NOW_MS, 0, KEY, value, None, 0, 0, ())


class Requests:
    """A fake reader: each read returns the records put into `records`, or waits for them."""

    def __init__(self) -> None:
        self.records: dict[int, list[Any]] = {}
        self.reads: list[set[int]] = []
        self.timeouts_s: list[float] = []
        self._grown = asyncio.Event()

    def put(self, partition: int, *records: Any) -> None:
        """Let the next read of a partition bring these."""
        self.records.setdefault(partition, []).extend(records)
        self._grown.set()

    async def read(self, partitions: Collection[int], within_s: float) -> Mapping[int, Sequence[Any]]:
        """Bring what there is of the partitions, or nothing after so long."""
        self.reads.append(set(partitions))
        self.timeouts_s.append(within_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not self.records.keys() & set(partitions):
                    self._grown.clear()
                    await self._grown.wait()
        return {number: self.records.pop(number) for number in partitions if number in self.records}


class PipelineStage(ABC):
    """A running pipeline: tests put records into `requests`; `failures` has the errors of writes.

    The clock is `now_s`.
    """

    def __init__(
        self,
        settings: Settings,
        bounds: BatchBounds,
        share: DeadLetterShare | None = None,
        committed: tuple[int | None, str] = (None, ""),
        linger_s: float = 0.0,
    ) -> None:
        answers = Answers(settings, create_engine(settings), create_timeline(settings), "w")
        composer = BatchComposer(answers, share or DeadLetterShare(2, 1.0), bounds)
        self.now_s = 0.0
        self.membership = Membership(30.0, lambda: self.now_s)
        self.membership.confirm(0.0)
        self.policies_unread = False
        policies: Any = self
        self.commits: list[tuple[int, CommitMetadata]] = []
        self.failures: list[Exception] = []
        self.durable_batches: list[Batch] = []
        self.requests = Requests()
        reader: Any = self.requests
        self.pipeline = Pipeline(
            topic=settings.requests_topic,
            reader=reader,
            composer=composer,
            writer=self.new_writer(),
            membership=self.membership,
            policies=policies,
            commit=self.commit,
            durable=self.durable_batches.append,
            failed=self.failures.append,
            new_queue=lambda _rows, _wake: FifoQueue(),
            linger_s=linger_s,
        )
        self.running: asyncio.Task[None] | None = None
        self.rows = PartitionRows("changelog 0")
        self.pipeline.begin(0, self.rows, *committed)

    @abstractmethod
    def new_writer(self) -> Writer:
        """Return the pipeline's writer, with clients that only record their calls."""

    async def current(self) -> None:
        """Fake the reader of policies."""
        if self.policies_unread:
            raise PoliciesUnreadError("context-policies", "a test")

    async def commit(self) -> bool:
        """Commit the offsets of the pipeline, and keep them in `commits`."""
        offsets = self.pipeline.committable()
        self.commits += [(offset, decode_metadata(metadata)) for offset, metadata in offsets.values()]
        self.pipeline.record_commits({partition: offset for partition, (offset, _) in offsets.items()})
        return bool(offsets)

    def run(self) -> asyncio.Task[None]:
        """Let the pipeline run, if it does not."""
        if self.running is None or self.running.done():
            self.running = asyncio.create_task(self.pipeline.run())
        return self.running

    async def stop(self) -> None:
        """Let the pipeline run no more."""
        if self.running is not None:
            self.running.cancel()
            await asyncio.wait({self.running})

    async def answer(self, *records: Any) -> None:
        """Let the pipeline read these at once, and compose them while there is room.

        Raises the error that ends the pipeline.
        """
        self.requests.put(0, *records)
        await self.composed()

    async def composed(self) -> None:
        """Let the pipeline compose read events while there is room; raise the error that ends it."""
        running, flow, records = self.run(), self.pipeline.flows[0], self.requests.records
        await self.until(
            lambda: (
                running.done() or flow.is_over or (0 not in records and (flow.is_full or not flow.waiting))
            )
        )
        if running.done():
            await running
        await asyncio.sleep(0)  # the writer begins

    async def until(self, condition: Any) -> None:
        """Let the pipeline's tasks go on until a condition holds."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - tasks tell nobody when they have gone on
                await asyncio.sleep(0)
