"""Faust's consumer: the worker's group member, which starts and stops partitions and commits offsets.

A partition begins to flow when its rows are recovered and its position is the committed offset, or the
beginning without a commit. The pipeline reads the requests.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from time import monotonic
from typing import Any

from faust.transport.drivers.aiokafka import Consumer, Transport
from faust.types import TP
from mode import Service

from apportion.shell.kafka.topics import PartitionsChangedError
from apportion.shell.operations.metrics import REBALANCES
from apportion.shell.stream.faults import GroupFailedError, NotFlowingError
from apportion.shell.stream.faust_app.hooks import MemberThread

_FINISH_S = 6.0
"""Time for the batches in flight to be written when the worker stops."""


class PipelineConsumer(Consumer):  # type: ignore[misc] # no type checker follows faust here
    """Begins partitions in the pipeline, and commits the offsets that the pipeline returns."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._committing = asyncio.Lock()
        self._moved_s = monotonic()
        self.is_recovering = False
        self._assigned: object | None = None
        """A new object for each assignment; None after a revocation."""
        self.is_assigned = False
        super().__init__(*arguments, **options)

    def _new_consumer_thread(self) -> MemberThread:
        return MemberThread(self, loop=self.loop, beacon=self.beacon)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Accept partitions, paused until their recovery ends; one that was added since ends the worker."""
        self._moved_s = monotonic()
        self._assigned = object()
        partitions = self.app.settings.partitions
        requests = {tp for tp in assigned if not self._is_changelog_tp(tp)}
        if added := sorted(tp for tp in requests if tp.partition >= partitions):
            changes = ", ".join(f"{tp.topic} has a partition {tp.partition}" for tp in added)
            await self.app.crash(PartitionsChangedError(changes, partitions))
            return
        self.pause_partitions(assigned)
        await super().on_partitions_assigned(assigned, generation_id)
        self.is_assigned = True
        self.app.numbers.add(REBALANCES, 1)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Abandon the work on all partitions, commit their durable offsets, and remove them."""
        self._assigned = None
        self.app.pipeline.abandon()
        await super().on_partitions_revoked(revoked)
        self.app.pipeline.end()

    async def wait_empty(self) -> None:
        """Commit the durable offsets. If the worker stops, first wait for the batches in flight."""
        if self.app.should_stop:
            await self.app.pipeline.finish(_FINISH_S)
        try:
            async with asyncio.timeout(self.app.settings.request_timeout_s):
                await self.commit()
        except TimeoutError:
            pass  # the events are read again and skipped

    async def commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:  # noqa: ARG002, FBT001, FBT002 - Faust's
        """Commit the pipeline's committable offsets; return False if none or refused."""
        async with self._committing:
            pipeline, topic = self.app.pipeline, self.app.settings.requests_topic
            offsets = pipeline.committable()
            taken = bool(offsets) and await self._thread.commit_with_metadata(
                {TP(topic, partition): what for partition, what in offsets.items()}
            )
            if taken:
                pipeline.record_commits({partition: offset for partition, (offset, _) in offsets.items()})
            return taken

    @Service.task  # type: ignore[untyped-decorator] # as above
    async def _commit_livelock_detector(self) -> None:
        """Do nothing: Faust counts its own events, and would report a livelock."""

    async def perform_seek(self) -> None:
        """Begin the partitions at their committed offsets, or at their beginning.

        It waits for the read in progress, whose records would be taken for records at the new position. If
        partitions move again, the recovery cancels its wait. The seek still completes before the next read,
        but begins no partition.
        """
        await asyncio.shield(self._seek_alone(self._assigned))

    async def _seek_alone(self, assigned: object | None) -> None:
        async with self.app.pipeline.position_lock:
            requests = {tp for tp in self.assignment() if not self._is_changelog_tp(tp)}
            offsets = await self._thread.committed_with_metadata(requests)
            uncommitted = [tp for tp in requests if tp not in offsets]
            begins = await self.earliest_offsets(*uncommitted) if uncommitted else {}
            if assigned is None or assigned is not self._assigned:
                return
            starts = begins | {tp: offset for tp, (offset, _) in offsets.items()}
            self.app.reader.flow_from({tp.partition: offset for tp, offset in starts.items()})
            for tp in sorted(requests):
                rows = self.app.sessions.rows_of(tp.partition)
                self.app.pipeline.begin(tp.partition, rows, *offsets.get(tp, (None, "")))
            self._moved_s = monotonic()

    async def _drain_messages(self, fetcher: Any) -> None:
        """Fetch nothing until stopped: the pipeline reads requests, and recovery reads changelogs."""
        await fetcher.wait_until_stopped()

    def requests_assigned(self) -> set[int]:
        """Return the partitions of the requests topic that are assigned."""
        return {tp.partition for tp in self.assignment() if not self._is_changelog_tp(tp)}

    def call_in_thread(self, callback: Callable[[], None]) -> None:
        """Call a function in the thread of the member's client."""
        self._thread.thread_loop.call_soon_threadsafe(callback)

    async def ends(self, partitions: Collection[int]) -> Mapping[int, int]:
        """Return the high watermarks of partitions of the requests topic; raises as the thread's `ends`."""
        topic = self.app.settings.requests_topic
        ends: Mapping[TP, int] = await self._thread.ends([TP(topic, number) for number in partitions])
        return {tp.partition: offset for tp, offset in ends.items()}

    def require_group(self) -> None:
        """Raise GroupFailedError if the client has left the group."""
        if (why := self._thread.group_failure()) is not None:
            raise GroupFailedError(self.app.settings.app_id, why)

    def require_flow(self) -> None:
        """Raise NotFlowingError if no events of assigned partitions are read within `recovery_timeout_s`."""
        within_s = self.app.settings.recovery_timeout_s
        if self.is_recovering or not self.app.rebalancing:
            self._moved_s = monotonic()
        elif monotonic() - self._moved_s > within_s and (owned := self.requests_assigned()):
            raise NotFlowingError(owned, within_s)


class PipelineTransport(Transport):  # type: ignore[misc] # as above
    """Faust's transport with this consumer."""

    Consumer = PipelineConsumer
