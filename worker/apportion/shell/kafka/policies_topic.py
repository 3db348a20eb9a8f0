"""Reader of the policies topic: reads it to its end before the first answer, and then follows it.

Events are answered only if the topic was read to its end at most half of `policy_settle_s` ago. The other
half is for differences between the brokers' clocks and for replication. Every reader reads the whole topic.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import RecordMetadata

from apportion.core.policies.timeline import Files, PolicyRefusal, Timeline, files_key, files_value
from apportion.core.wire.record import Record
from apportion.engine.policies.listing import different
from apportion.settings import Settings
from apportion.shell.kafka.admin import BrokerUnreachableError, why_unanswered
from apportion.shell.kafka.connection import close_consumer, connection_arguments, consumer_arguments
from apportion.shell.kafka.groupless_consumer import read_to
from apportion.shell.kafka.producer import OutboundRecord
from apportion.shell.kafka.record_batches import record_of
from apportion.shell.kafka.record_consumer import RecordConsumer
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES
from apportion.shell.operations.log import log_fact

PARTITION = 0
"""The only partition: policies are published in the order of its offsets."""
_LOOK_MAX_S = 1.0
"""The longest time between two reads to the topic's end."""
_READ_MS = 200


class PoliciesUnreadError(Exception):
    """The end of the policies topic is unknown, so the policy of an event is uncertain."""

    code = "policies_unread"

    def __init__(self, topic: str, why: str) -> None:
        super().__init__(
            f"{topic} could not be read to its end ({why}); nothing is answered that a policy in it may "
            "concern, and what was not answered comes again when a worker starts"
        )


class _EndsEarlierError(Exception):
    """The topic ends before the reader's position, just after a failover or because it was replaced."""


_UNREAD = (KafkaError, TimeoutError, _EndsEarlierError)


class PolicyReader:
    """Reader of the policies topic. Use `connected` first, then run `follow` in a task of its own."""

    def __init__(
        self,
        settings: Settings,
        timeline: Timeline,
        read: Callable[[Timeline], None] = lambda _: None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Start with the timeline of an empty topic; `read` is called with each later timeline."""
        self.timeline = timeline
        self._settings = settings
        self._on_read = read
        self._clock = clock
        self._place = TopicPartition(settings.policies_topic, PARTITION)
        self._trusted_s = settings.policy_settle_s / 2
        self._known_s = -float("inf")
        self._looked = asyncio.Event()
        self._failed = ""
        self._consumer: Any = None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[PolicyRefusal, ...]]:
        """Connect, read to the current end, and yield the refused records.

        Raises as `why_unanswered`, and PoliciesUnreadError if the topic's end was not reached.
        """
        consumer = RecordConsumer(
            **consumer_arguments(self._settings, "-policies"),
            auto_offset_reset="none",
            isolation_level="read_committed",
            max_partition_fetch_bytes=MESSAGE_MAX_BYTES,
        )
        try:
            try:
                async with asyncio.timeout(self._settings.request_timeout_s):
                    await consumer.start()
                    consumer.assign([self._place])
                    await consumer.seek_to_beginning()
            except (KafkaError, TimeoutError) as error:
                raise why_unanswered(self._settings, error) from error
            yield await self.read_from(consumer)
        finally:
            await close_consumer(consumer)

    async def read_from(self, consumer: Any) -> tuple[PolicyRefusal, ...]:
        """Read with a consumer to the topic's end; return the refused records; raise PoliciesUnreadError."""
        self._consumer = consumer
        try:
            return await self.look()
        except _UNREAD as error:
            raise PoliciesUnreadError(self._place.topic, _reason(error)) from error

    async def look(self) -> tuple[PolicyRefusal, ...]:
        """Read all records that were appended before the call; return the refused records.

        Raises:
            TimeoutError: nothing came for `request_timeout_s`, for example because a transaction is open.
            KafkaError, _EndsEarlierError: the end is unknown, or before the position.
        """
        began_s = self._clock()
        end = (await self._consumer.end_offsets([self._place]))[self._place]
        position = await self._consumer.position(self._place)
        if position > end:
            raise _EndsEarlierError(f"it ends at offset {end}, and was read up to {position}")
        refusals = self._take(await self._read_to(end))
        self._known_s = began_s
        self._looked.set()
        self._looked = asyncio.Event()
        return refusals

    async def publish_files(self) -> tuple[PolicyRefusal, ...]:
        """Publish this worker's policy files for its group, unless the topic already has the same files.

        Returns the refused records that were read meanwhile. The files count for the group once they have
        settled; the group's first files always count. Raises as `write` and `connected`.
        """
        latest, own = self.timeline.latest_files, self.timeline.own
        if latest is not None and [policy.digest for policy in latest] == [policy.digest for policy in own]:
            return ()
        key, value = files_key(self._settings.app_id), files_value(own)
        await write(self._settings, [OutboundRecord(self._place.topic, PARTITION, key, value)])
        return await self.read_from(self._consumer)

    async def follow(self, refused: Callable[[tuple[PolicyRefusal, ...]], Awaitable[None]]) -> None:
        """Read to the end periodically until cancelled; `refused` is called with refused records.

        While brokers do not answer, it keeps trying, also to call `refused`; only callers of `current` fail.
        """
        refusals: tuple[PolicyRefusal, ...] = ()
        while True:
            await asyncio.sleep(min(_LOOK_MAX_S, self._trusted_s / 5))
            try:
                refusals += await self.look()
                if refusals:
                    await refused(refusals)
                    refusals = ()
            except (*_UNREAD, BrokerUnreachableError) as error:
                if not self._failed:
                    log_fact("policies are not read", topic=self._place.topic, error=_reason(error))
                self._failed = _reason(error)
            else:
                if self._failed:
                    log_fact("policies are read again", topic=self._place.topic)
                self._failed = ""

    async def current(self) -> None:
        """Wait until a recent read has reached the topic's end; raise PoliciesUnreadError at the timeout."""
        if self._is_current:
            return
        try:
            async with asyncio.timeout(self._settings.request_timeout_s):
                while not self._is_current:
                    await self._looked.wait()
        except TimeoutError:
            raise PoliciesUnreadError(self._place.topic, self._failed or "no answer in time") from None

    @property
    def _is_current(self) -> bool:
        return self._clock() - self._known_s <= self._trusted_s

    async def _read_to(self, end: int) -> list[Record]:
        """Return the records up to the greater of `end` and the last reported end; raises as `look`."""
        records: list[Record] = []
        position, moved_s = -1, self._clock()
        while position < end:
            async for step in read_to(self._consumer, {self._place: end}, poll_ms=_READ_MS):
                records += map(record_of, step.records)
                position = step.position
                if step.has_moved:
                    moved_s = self._clock()
                elif self._clock() - moved_s > self._settings.request_timeout_s:
                    raise TimeoutError(f"nothing came after offset {position}: is a transaction open there?")
            end = max(end, self._consumer.highwater(self._place) or 0)
        return records

    def _take(self, records: list[Record]) -> tuple[PolicyRefusal, ...]:
        if not records:
            return ()
        before = self.timeline
        self.timeline, refusals = before.extended(records, self._settings.bounds)
        self._on_read(self.timeline)
        for refusal in refusals:
            error = refusal.error
            log_fact("policy refused", record=refusal.record, code=error.code, pointer=error.pointer)
        log_fact("policies read", records=len(records), published=len(self.timeline.holding))
        if len(self.timeline.files) > len(before.files):
            self._compare(self.timeline.files[-1])
        return refusals

    def _compare(self, files: Files) -> None:
        if differing := different(self.timeline.own, files.policies):
            log_fact("file policies differ from those of the group", policies=",".join(differing))


async def write(settings: Settings, records: Iterable[OutboundRecord]) -> tuple[RecordMetadata, ...]:
    """Write a few records with a new producer, and return their positions.

    Raises as `why_unanswered`; some records may then be written.
    """
    producer = AIOKafkaProducer(
        **connection_arguments(settings),
        client_id=f"{settings.app_id}-policies",
        request_timeout_ms=int(settings.request_timeout_s * 1000),
        acks="all",
        max_request_size=MESSAGE_MAX_BYTES,
    )
    try:
        async with asyncio.timeout(settings.request_timeout_s):
            await producer.start()
            sending = [
                await producer.send(
                    record.topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    headers=list(record.headers),
                )
                for record in records
            ]
            return tuple(await asyncio.gather(*sending))
    except (KafkaError, TimeoutError) as error:
        raise why_unanswered(settings, error) from error
    finally:
        await producer.stop()


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
