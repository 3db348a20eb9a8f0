"""Faust's consumer: its membership, and which partitions flow by it.

Decides when a partition flows: when its rows are read and it is back at its committed offset, or at its
beginning. Reads no requests: the pipeline does.
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
"""How long what is in flight may take to be written when the worker stops."""


class PipelineConsumer(Consumer):  # type: ignore[misc] # faust is followed by no type checker here
    """Lets partitions flow through the pipeline, and commits the offsets that the pipeline returns."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._committing = asyncio.Lock()
        self._moved_s = monotonic()
        self.is_recovering = False
        """Whether rows are being read: that has a deadline of its own."""
        self._assigned: object | None = None
        """Stands for the latest assignment, another one each time; None once it was taken away."""
        self.is_assigned = False
        """Whether the group has ever said which partitions are ours."""
        super().__init__(*arguments, **options)

    def _new_consumer_thread(self) -> MemberThread:
        return MemberThread(self, loop=self.loop, beacon=self.beacon)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Take partitions over, paused: Faust would let them flow until it pauses them itself.

        One beyond those that there were at the start ends the worker: it has no changelog.
        """
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
        """Give all partitions up, and with them the work that is not durable; commit what is."""
        self._assigned = None
        self.app.pipeline.abandon()
        await super().on_partitions_revoked(revoked)
        self.app.pipeline.end()

    async def wait_empty(self) -> None:
        """Commit what is durable; of what is in flight, where the worker stops, let it become durable first.

        Faust calls it when partitions are taken away, and when it stops.
        """
        if self.app.should_stop:
            await self.app.pipeline.finish(_FINISH_S)
        try:
            async with asyncio.timeout(self.app.settings.request_timeout_s):
                await self.commit()
        except TimeoutError:
            pass  # it comes again, and is passed over

    async def commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:  # noqa: ARG002, FBT001, FBT002 - Faust's
        """Commit the offsets that the pipeline says; return whether the group took them."""
        async with self._committing:
            pipeline, topic = self.app.pipeline, self.app.settings.requests_topic
            offsets = pipeline.committable()
            taken = bool(offsets) and await self._thread.commit_with_metadata(
                {TP(topic, partition): what for partition, what in offsets.items()}
            )
            if taken:
                pipeline.committed({partition: offset for partition, (offset, _) in offsets.items()})
            return taken

    @Service.task  # type: ignore[untyped-decorator] # as above
    async def _commit_livelock_detector(self) -> None:
        """Look at nothing: Faust goes by events of its own making, and would say that none is processed."""

    async def perform_seek(self) -> None:
        """Let the requests flow from their committed offsets on, or from their beginning.

        Not during a read, whose records would be taken for those that come next. A recovery stops waiting for
        this when partitions move again: the next read waits all the same, and partitions that were revoked
        meanwhile do not begin to flow.
        """
        await asyncio.shield(self._seek_alone(self._assigned))

    async def _seek_alone(self, assigned: object | None) -> None:
        async with self.app.pipeline.position_lock:
            requests = {tp for tp in self.assignment() if not self._is_changelog_tp(tp)}
            offsets = await self._thread.committed_with_metadata(requests)
            uncommitted = [tp for tp in requests if tp not in offsets]
            begins = await self.earliest_offsets(*uncommitted) if uncommitted else {}
            if not self._is_latest(assigned):
                return
            starts = begins | {tp: offset for tp, (offset, _) in offsets.items()}
            self.app.reader.flow_from({tp.partition: offset for tp, offset in starts.items()})
            for tp in sorted(requests):
                rows = self.app.sessions.rows_of(tp.partition)
                self.app.pipeline.begin(tp.partition, rows, *offsets.get(tp, (None, "")))
            self._moved_s = monotonic()

    def _is_latest(self, assigned: object | None) -> bool:
        return assigned is not None and assigned is self._assigned

    async def _drain_messages(self, fetcher: Any) -> None:
        """Wait until the fetcher is stopped: the pipeline reads requests, and recovery reads changelogs."""
        await fetcher.wait_until_stopped()

    def requests_assigned(self) -> set[int]:
        """Return the partitions of the requests topic that are assigned."""
        return {tp.partition for tp in self.assignment() if not self._is_changelog_tp(tp)}

    def call_in_thread(self, callback: Callable[[], None]) -> None:
        """Have the thread of the member's client make a call."""
        self._thread.thread_loop.call_soon_threadsafe(callback)

    async def ends(self, partitions: Collection[int]) -> Mapping[int, int]:
        """Return the high watermarks of partitions of the requests topic, as the member's client hears them.

        Raises:
            KafkaError: a leader is not known, or does not answer.
        """
        topic = self.app.settings.requests_topic
        ends: Mapping[TP, int] = await self._thread.ends([TP(topic, number) for number in partitions])
        return {tp.partition: offset for tp, offset in ends.items()}

    def require_group(self) -> None:
        """Pass unless the client has given the group up.

        Raises:
            GroupFailedError: naming why.
        """
        if (why := self._thread.group_failure()) is not None:
            raise GroupFailedError(self.app.settings.app_id, why)

    def require_flow(self) -> None:
        """Pass unless partitions are ours, and nothing has moved for `recovery_timeout_s` to let them flow.

        Raises:
            NotFlowingError: naming them.
        """
        within_s = self.app.settings.recovery_timeout_s
        if self.is_recovering or not self.app.rebalancing:
            self._moved_s = monotonic()  # it is asked again and again, also while all is well
        elif monotonic() - self._moved_s > within_s and (owned := self.requests_assigned()):
            raise NotFlowingError(owned, within_s)


class PipelineTransport(Transport):  # type: ignore[misc] # faust is followed by no type checker here
    """Faust's transport, with that consumer."""

    Consumer = PipelineConsumer
