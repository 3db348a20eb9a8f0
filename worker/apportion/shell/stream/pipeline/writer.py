"""Writer of batches: outputs first, then the rows; only then are a batch's events answered.

Decides that order, and how long each step may take. A batch's outputs leave while those before it are still
under way; its rows never leave before its own outputs stand, nor before the rows of the batch before. Never
knows what is in a batch. `exactly_once` is the other way.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from apportion.shell.kafka.outbound import OutboundRecord
from apportion.shell.kafka.producer import Entry, RecordProducer, Sent
from apportion.shell.stream.pipeline.batch import Batch
from apportion.shell.stream.pipeline.membership import Membership
from apportion.shell.stream.state.rows import PartitionRows

CommitAfter: TypeAlias = Callable[[Sequence[Batch]], tuple[int, str]]


class Writing(Struct):
    """A batch that is being written, and what of it has been sent.

    `commit_after` tells which offset and metadata are right when the partition's next batches, up to this
    one, are durable; `is_committed` that they stand.
    """

    batch: Batch
    rows: PartitionRows
    commit_after: CommitAfter
    is_committed: bool = False
    outputs: list[Sent] = []
    states: list[Sent] = []


class Writer(Protocol):
    """Makes batches of a partition durable, in their order.

    Where it `moves_offsets` a batch is committed with what it gives: one that was given up may yet be.
    """

    moves_offsets: bool

    async def start(self, topics: Sequence[str]) -> None:
        """Connect; these are the topics to write to.

        Raises:
            KafkaError: no broker answered.
        """

    async def stop(self) -> None:
        """Close; what is not durable by then is given up."""

    async def assign(self, partitions: Collection[int]) -> None:
        """Write for these partitions from now on; called before anything is read of them.

        Raises:
            StreamError: it cannot be.
        """

    def begin(self, writing: Writing) -> None:
        """Send what may leave at once; called right after the batch was composed, in the batches' order."""

    async def finish(self, writing: Writing) -> None:
        """Return when all of the batch is durable; called when all batches before it are.

        Raises:
            KafkaError, TimeoutError: it was not acknowledged in time; it may be yet.
        """

    def abandon(self, writing: Writing) -> None:
        """Take back what has not left yet; nothing more of the batch is written."""


class EffectivelyOnceWriter:
    """Without transactions: what is sent again is the same, and a row says what it has seen."""

    moves_offsets = False

    def __init__(
        self, producer: RecordProducer, membership: Membership, changelog: str, delivery_timeout_s: float
    ) -> None:
        """`delivery_timeout_s` is for each of the two steps."""
        self._producer = producer
        self._membership = membership
        self._changelog = changelog
        self._delivery_timeout_s = delivery_timeout_s

    async def start(self, topics: Sequence[str]) -> None:
        """Connect, and learn who leads the topics' partitions."""
        await self._producer.start(topics)

    async def stop(self) -> None:
        """Close the connection."""
        await self._producer.stop()

    async def assign(self, partitions: Collection[int]) -> None:
        """Do nothing: one client writes for all partitions."""

    def begin(self, writing: Writing) -> None:
        """Send the outputs."""
        self.send_outputs(writing)

    async def finish(self, writing: Writing) -> None:
        """Wait for the outputs, send the rows, and wait for them."""
        async with asyncio.timeout(self._delivery_timeout_s):
            await self.outputs_acknowledged(writing)
        if writing.batch.states:
            async with asyncio.timeout(self._delivery_timeout_s):
                await self._membership.held()
                self.send_rows(writing)
                await self.rows_acknowledged(writing)

    def abandon(self, writing: Writing) -> None:
        """Take back what the client has not begun to send."""
        self._producer.withdraw(writing.outputs)
        self._producer.withdraw(writing.states)

    def send_outputs(self, writing: Writing) -> None:
        """Send composed events, decisions and dead letters; what else is in flight is not waited for."""
        batch = writing.batch
        for topic, messages in batch.messages.items():
            writing.outputs += self._producer.send(topic, batch.partition, entries(messages))

    async def outputs_acknowledged(self, writing: Writing) -> None:
        """Return when all outputs are durable."""
        await acknowledged(writing.outputs)

    def send_rows(self, writing: Writing) -> None:
        """Send the last row of each session in the batch; the records of one session stand together."""
        batch = writing.batch
        writing.states = self._producer.send(self._changelog, batch.partition, batch.states)

    async def rows_acknowledged(self, writing: Writing) -> None:
        """Return when all rows are durable."""
        await acknowledged(writing.states)
        count_rows(writing.rows, writing.states)


def entries(messages: Iterable[OutboundRecord]) -> list[tuple[Entry]]:
    """Return messages as they are sent, each for itself."""
    return [((message.key, message.value, message.headers),) for message in messages]


async def acknowledged(sent: Sequence[Sent]) -> None:
    """Return when all record batches are durable, or one is not.

    Raises:
        KafkaError: it is not.
    """
    if waiting := [part.acknowledged for part in sent if not part.acknowledged.done()]:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
    for part in sent:
        if part.acknowledged.done():  # where one has failed, others may not be
            part.acknowledged.result()


def count_rows(rows: PartitionRows, sent: Iterable[Sent], *, alone: bool = False) -> None:
    """Count what was sent to the changelog as contained; `alone`: nobody else writes there."""
    for part in sent:
        if (offset := part.offset) >= 0:  # the broker may have forgotten where a record stands
            rows.written(offset, offset + part.records - 1, alone=alone)
