"""Writer protocol, and the writer without transactions: first a batch's outputs, then its rows.

Outputs are sent while earlier batches are still in flight. Rows are sent after the batch's own outputs and
all rows of earlier batches are durable. `exactly_once.py` has the transactional writer.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from apportion.shell.kafka.producer import Entry, OutboundRecord, RecordProducer, Sent
from apportion.shell.stream.pipeline.batch import Batch
from apportion.shell.stream.pipeline.membership import Membership
from apportion.shell.stream.state.rows import PartitionRows

CommitAfter: TypeAlias = Callable[[Sequence[Batch]], tuple[int, str]]


class Writing(Struct):
    """A batch in flight, and its sent records.

    `commit_after` takes the partition's next batches, and returns the offset and encoded metadata to commit
    together with them. `is_committed` is true once a transaction has committed the batch.
    """

    batch: Batch
    rows: PartitionRows
    commit_after: CommitAfter
    is_committed: bool = False
    outputs: list[Sent] = []
    states: list[Sent] = []


class Writer(Protocol):
    """Makes batches of partitions durable, in order.

    Calls: `start` once, `assign` after each rebalance; then for each batch of a partition `begin`, and
    `finish` or `abandon`; at the end `stop`. `begin` and `finish` follow the order of the batches, `abandon`
    goes from the last batch to the first.
    """

    moves_offsets: bool
    """True if a batch's offset is committed with its records. An abandoned batch may then still commit."""

    async def start(self, topics: Sequence[str]) -> None:
        """Connect, to write to these topics; raise KafkaError if no broker answered."""

    async def stop(self) -> None:
        """Close; records that are not durable when the caller stops waiting are given up."""

    async def assign(self, partitions: Collection[int]) -> None:
        """Write for these partitions from now on, before their rows are recovered; raise StreamError."""

    def begin(self, writing: Writing) -> None:
        """Send the records that may be sent at once; called right after the composition."""

    async def finish(self, writing: Writing) -> None:
        """Wait until the whole batch is durable; called when all earlier batches are.

        Raises:
            StreamError: the partition belongs to another worker.
            KafkaError, TimeoutError: it was not acknowledged in time, but may be later.
        """

    def abandon(self, writing: Writing) -> None:
        """Withdraw unsent records; records that are being sent may still become durable."""


class EffectivelyOnceWriter:
    """Writes without transactions. Outputs may repeat, with the same bytes except for a decision's `run`."""

    moves_offsets = False

    def __init__(
        self, producer: RecordProducer, membership: Membership, changelog: str, delivery_timeout_s: float
    ) -> None:
        """`delivery_timeout_s` applies to outputs and rows separately."""
        self._producer = producer
        self._membership = membership
        self._changelog = changelog
        self._delivery_timeout_s = delivery_timeout_s

    async def start(self, topics: Sequence[str]) -> None:
        """Connect, and load the topics' metadata."""
        await self._producer.start(topics)

    async def stop(self) -> None:
        """Close the connection."""
        await self._producer.stop()

    async def assign(self, partitions: Collection[int]) -> None:
        """Do nothing: one producer writes for all partitions."""

    def begin(self, writing: Writing) -> None:
        """Send the outputs."""
        self.send_outputs(writing)

    async def finish(self, writing: Writing) -> None:
        """Wait for the outputs, then send the rows and wait for them."""
        async with asyncio.timeout(self._delivery_timeout_s):
            await self.outputs_acknowledged(writing)
        if writing.batch.states:
            async with asyncio.timeout(self._delivery_timeout_s):
                await self._membership.held()
                self.send_rows(writing)
                await self.rows_acknowledged(writing)

    def abandon(self, writing: Writing) -> None:
        """Withdraw the records that the producer has not begun to send."""
        self._producer.withdraw(writing.outputs)
        self._producer.withdraw(writing.states)

    def send_outputs(self, writing: Writing) -> None:
        """Send composed events, decisions and dead letters, without waiting for earlier batches."""
        batch = writing.batch
        for topic, messages in batch.messages.items():
            writing.outputs += self._producer.send(topic, batch.partition, entries(messages))

    async def outputs_acknowledged(self, writing: Writing) -> None:
        """Wait until all outputs are durable."""
        await acknowledged(writing.outputs)

    def send_rows(self, writing: Writing) -> None:
        """Send the changelog records, grouped by session."""
        batch = writing.batch
        writing.states = self._producer.send(self._changelog, batch.partition, batch.states)

    async def rows_acknowledged(self, writing: Writing) -> None:
        """Wait until all rows are durable, and record their offsets."""
        await acknowledged(writing.states)
        count_rows(writing.rows, writing.states)


def entries(messages: Iterable[OutboundRecord]) -> list[tuple[Entry]]:
    """Return each message as a group of its own."""
    return [((message.key, message.value, message.headers),) for message in messages]


async def acknowledged(sent: Sequence[Sent]) -> None:
    """Wait until all record batches are durable, or raise the KafkaError of one that failed meanwhile."""
    if waiting := [part.acknowledged for part in sent if not part.acknowledged.done()]:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
    for part in sent:
        if part.acknowledged.done():  # after a failure, others may still wait
            part.acknowledged.result()


def count_rows(rows: PartitionRows, sent: Iterable[Sent], *, alone: bool = False) -> None:
    """Record the offsets of acknowledged rows; arguments and errors as for `PartitionRows.written`."""
    for part in sent:
        if (offset := part.offset) >= 0:  # -1: a broker may have forgotten the offset of a repeated record
            rows.written(offset, offset + part.records - 1, alone=alone)
