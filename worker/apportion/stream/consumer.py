"""Faust's consumer, kept from passing events over.

Decides when the requests topic flows: not before the session table is read and every partition is back at
its committed offset, or at its beginning. Faust 0.15.3 lets it flow a moment earlier, and drops what came in
that moment, either from the stream's queue (`tables/recovery.py`, `on_recovery_completed`) or right after it
was read (`transport/consumer.py`, `getmany`); then it goes on behind it.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka.errors import OffsetOutOfRangeError as NotInTopicError
from faust.transport.drivers.aiokafka import Consumer, Transport
from faust.types import TP
from faust.types.tuples import Message

from apportion.stream.faults import OffsetOutOfRangeError
from apportion.stream.producer import IdempotentProducer
from apportion.stream.topics import PartitionsChangedError

_READ_TIMEOUT_S = 0.2
"""How long a read waits for records, and so a rebalance for a read."""


class GaplessConsumer(Consumer):  # type: ignore[misc] # faust is followed by no type checker here
    """Holds partitions that are resumed until the flow is, and never seeks while it reads."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Hold nothing, expect nothing."""
        self._held: set[TP] = set()
        self._reading = asyncio.Lock()
        self._expected: defaultdict[TP, deque[int]] = defaultdict(deque)
        super().__init__(*arguments, **options)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Take partitions over, paused: Faust would let them flow until it pauses them itself.

        One beyond those that there were at the start ends the worker: it has no changelog.
        """
        partitions = self.app.settings.partitions
        requests = {tp for tp in assigned if not self._is_changelog_tp(tp)}
        if added := sorted(tp for tp in requests if tp.partition >= partitions):
            changes = ", ".join(f"{tp.topic} has a partition {tp.partition}" for tp in added)
            await self.app.crash(PartitionsChangedError(changes, partitions))
            return
        self.pause_partitions(assigned)
        await super().on_partitions_assigned(assigned, generation_id)

    def pause_partitions(self, tps: Iterable[TP]) -> None:
        """Pause partitions, also those that wait for the flow or for room in their queue."""
        paused = set(tps)
        self._held -= paused
        self._buffered_partitions -= paused
        super().pause_partitions(paused)

    def resume_partitions(self, tps: Iterable[TP]) -> None:
        """Resume changelogs at once; the others wait for the flow, for they have to be sought first."""
        held = {tp for tp in tps if not self._is_changelog_tp(tp)}
        self._held |= held
        super().resume_partitions(set(tps) - held)

    def resume_flow(self) -> None:
        """Resume the flow, and with it the partitions that wait for it."""
        super().resume_flow()
        held, self._held = self._held, set()
        super().resume_partitions(held)

    async def perform_seek(self) -> None:
        """Go back to the committed offsets when no read is under way; what it brings would be dropped.

        Who waits for it may give up, as a recovery does when partitions move again. The client seeks on, so
        the next read waits all the same.
        """
        await asyncio.shield(self._seek_alone())

    async def _seek_alone(self) -> None:
        async with self._reading:
            await super().perform_seek()
            self._expected.clear()

    async def seek_to_committed(self) -> Mapping[TP, int | None]:
        """Seek to the committed offsets, and to the beginning where nothing is committed yet.

        The client leaves such partitions where they are: what was read of them and dropped would be lost.
        """
        committed: Mapping[TP, int | None] = await super().seek_to_committed()
        uncommitted = [tp for tp, offset in committed.items() if not (offset or self._is_changelog_tp(tp))]
        if uncommitted:
            await self._thread.seek_wait(await self.earliest_offsets(*uncommitted))
        return committed

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        """Seek changelogs when no read is under way; it may bring rows that nobody takes yet."""
        async with self._reading:
            await super().seek_wait(partitions)

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:  # noqa: ASYNC109 - Faust's
        """Read what is active when the read begins; the client takes a set that is empty for all.

        What comes when partitions have moved meanwhile is dropped, for all of them are sought again.

        Raises:
            OffsetOutOfRangeError: the offset to go on at is not in its topic (any more).
        """
        async with self._reading:
            if active_partitions is not None and not active_partitions:
                return {}
            asked = active_partitions and frozenset(active_partitions)
            generation_id = self.app.consumer_generation_id
            try:
                batches = await super()._getmany(asked, min(timeout, _READ_TIMEOUT_S))
            except NotInTopicError as error:
                raise await self._out_of_range(error.args[0]) from None
            if self.app.consumer_generation_id != generation_id:
                return {}
            for tp, records in batches.items():
                if not self._is_changelog_tp(tp):
                    self._expected[tp].extend(record.offset for record in records)
            return batches

    async def _out_of_range(self, offsets: Mapping[TP, int]) -> OffsetOutOfRangeError:
        """Return what is told of an offset that the broker does not have."""
        [(tp, offset)] = offsets.items()
        begins, ends = await self.earliest_offsets(tp), await self.highwaters(tp)
        return OffsetOutOfRangeError(f"{tp.topic} partition {tp.partition}", offset, begins[tp], ends[tp])

    def follows(self, message: Message) -> bool:
        """Return whether a message is the next that was read of its partition, and none before it was lost.

        Each message that comes to the agent is asked for once. Offsets that hold no event, such as markers of
        transactions, are never read.
        """
        expected = self._expected[message.tp]
        return bool(expected) and expected.popleft() == message.offset


class GaplessTransport(Transport):  # type: ignore[misc] # faust is followed by no type checker here
    """Faust's transport, with that consumer, and a producer that writes nothing twice."""

    Consumer = GaplessConsumer
    Producer = IdempotentProducer
