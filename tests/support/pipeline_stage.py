"""A pipeline with one partition and its rows, without Kafka: what the tests of each way to write begin
with."""

import asyncio
import json
from abc import ABC, abstractmethod
from typing import Any

from aiokafka.structs import ConsumerRecord

from apportion.assembly import create_engine, create_timeline
from apportion.kafka.commit_metadata import CommitMetadata, decode_metadata
from apportion.kafka.policies_topic import PoliciesUnreadError
from apportion.settings import Settings
from apportion.stream.pipeline.answers import Answers
from apportion.stream.pipeline.batch import BatchBounds, BatchComposer
from apportion.stream.pipeline.breaker import DeadLetterShare
from apportion.stream.pipeline.flow import Fetched
from apportion.stream.pipeline.membership import Membership
from apportion.stream.pipeline.pipeline import Pipeline
from apportion.stream.pipeline.writer import Writer
from apportion.stream.state.rows import PartitionRows
from support.running import request

DEADLINE_S = 5
KEY = b"default/s"
_NOW_MS = 1_772_366_400_000


def read(offset: int, event: dict[str, Any] | None = None) -> Any:
    """Return a record of the requests topic, under the key of session `s`; by default a request."""
    value = json.dumps(event or request(f"r{offset}")).encode()
    topic = Settings().requests_topic
    return ConsumerRecord(topic, 0, offset, _NOW_MS, 0, KEY, value, None, 0, 0, ())


class PipelineStage(ABC):
    """What is fetched waits in `fetched`, why the pipeline ended stands in `failures`; the clock is
    `now_s`."""

    def __init__(
        self,
        settings: Settings,
        bounds: BatchBounds,
        share: DeadLetterShare | None = None,
        committed: tuple[int | None, str] = (None, ""),
    ) -> None:
        answers = Answers(settings, create_engine(settings), create_timeline(settings), "w")
        composer = BatchComposer(answers, share or DeadLetterShare(2, 1.0), bounds)
        self.now_s = 0.0
        self.membership = Membership(30.0, lambda: self.now_s)
        self.membership.confirm(0.0)
        self.policies_unread = False
        policies: Any = self
        self.pipeline = Pipeline(
            settings.requests_topic,
            composer,
            self.new_writer(),
            self.membership,
            policies,
            commit=self.commit,
        )
        self.commits: list[tuple[int, CommitMetadata]] = []
        self.fetched: list[Fetched] = []
        self.failures: list[Exception] = []
        self.pipeline.deliver = self.fetched.append
        self.pipeline.failed = self.failures.append
        self.rows = PartitionRows("changelog 0")
        self.pipeline.begin(0, self.rows, *committed)

    @abstractmethod
    def new_writer(self) -> Writer:
        """Return what the pipeline writes by, over clients that only note what they are told."""

    async def current(self) -> None:
        """Stand for the reader of policies."""
        if self.policies_unread:
            raise PoliciesUnreadError("context-policies", "a test")

    async def commit(self) -> bool:
        """Commit what the pipeline says, and keep it in `commits`."""
        offsets = self.pipeline.committable()
        self.commits += [(offset, decode_metadata(metadata)) for offset, metadata in offsets.values()]
        self.pipeline.committed({partition: offset for partition, (offset, _) in offsets.items()})
        return bool(offsets)

    async def answer(self, *records: Any) -> None:
        """Let the pipeline have what one fetch brought, and answer it."""
        self.pipeline.fetched(0, records)
        await self.pipeline.answer(self.fetched.pop())

    async def until(self, condition: Any) -> None:
        """Let the pipeline's tasks go on until a condition holds."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - tasks tell nobody when they have gone on
                await asyncio.sleep(0)
