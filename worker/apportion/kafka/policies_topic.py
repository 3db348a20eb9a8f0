"""The policies topic, read beside the requests: to its end before the first answer, then followed.

Decides when what was read is enough to answer: while the last look at the topic's end is at most half as old
as policies take to settle. Of the other half, the clocks and copies of the brokers may take their part. Knows
neither the stream nor its group: every reader reads all. Never decides which policy holds: the timeline does.
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
from apportion.kafka.admin import BrokerUnreachableError, why_unanswered
from apportion.kafka.connection import close_consumer, connection_arguments
from apportion.kafka.groupless_consumer import read_to
from apportion.kafka.outbound import OutboundRecord
from apportion.kafka.record_batches import record_of
from apportion.kafka.record_consumer import RecordConsumer
from apportion.kafka.topics import MESSAGE_MAX_BYTES
from apportion.operations.log import log_fact
from apportion.policies.listing import different
from apportion.settings import Settings

PARTITION = 0
"""The only one: the order of publication is that of its offsets."""
_LOOK_MAX_S = 1.0
"""The longest time between two looks at the topic's end."""
_READ_MS = 200


class PoliciesUnreadError(Exception):
    """The end of the policies topic is not known: to answer would be to guess which policy holds."""

    code = "policies_unread"

    def __init__(self, topic: str, why: str) -> None:
        super().__init__(
            f"{topic} could not be read to its end ({why}); nothing is answered that a policy in it may "
            "concern, and what was not answered comes again when a worker starts"
        )


class _EndsEarlierError(Exception):
    """The topic ends before what was read of it: for a moment after a failover, or it was made anew."""


_UNREAD = (KafkaError, TimeoutError, _EndsEarlierError)


class PolicyReader:
    """Reads the policies topic; `connected` first, then `follow` beside those who ask for `current`."""

    def __init__(
        self,
        settings: Settings,
        timeline: Timeline,
        read: Callable[[Timeline], None] = lambda _: None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Start with the timeline of an empty topic; `read` is told each that follows."""
        self.timeline = timeline
        self._settings = settings
        self._tell = read
        self._clock = clock
        self._place = TopicPartition(settings.policies_topic, PARTITION)
        self._trusted_s = settings.policy_settle_s / 2
        self._known_s = -float("inf")
        self._looked = asyncio.Event()
        self._failed = ""
        self._consumer: Any = None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[PolicyRefusal, ...]]:
        """Connect, read to the end that is there now, and yield what was refused.

        Raises:
            NotAllowedError, BrokerUnreachableError: we may not read them, or no broker answered in time.
            PoliciesUnreadError: the topic's end was not reached.
        """
        consumer = RecordConsumer(
            **_client(self._settings),
            batch_decompressed_max_bytes=self._settings.batch_decompressed_max_bytes,
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
        """Read with a consumer that stands at the topic's beginning, to its end; return what was refused.

        Raises:
            PoliciesUnreadError: the topic's end was not reached.
        """
        self._consumer = consumer
        try:
            return await self.look()
        except _UNREAD as error:
            raise PoliciesUnreadError(self._place.topic, _told(error)) from error

    async def look(self) -> tuple[PolicyRefusal, ...]:
        """Read to the end that the topic has now; return the records that were refused.

        What was appended before this began is read when it returns; while a transaction is open on the topic
        it does not, for what that publishes is recorded already.

        Raises:
            KafkaError, TimeoutError, _EndsEarlierError: the end was not reached, or lies before what was
                read.
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

    async def say_files(self) -> tuple[PolicyRefusal, ...]:
        """Tell the group with which files this worker starts, where the topic says otherwise or nothing.

        Returns what was refused of what was read meanwhile.

        They count for the group as what is published does: when they have settled, or, the first, always.

        Raises:
            NotAllowedError, BrokerUnreachableError: we may not write it, or it was not acknowledged in time.
            PoliciesUnreadError: it was not read back.
        """
        said = self.timeline.latest_files
        if said is not None and [each.digest for each in said] == [each.digest for each in self.timeline.own]:
            return ()
        key, value = files_key(self._settings.app_id), files_value(self.timeline.own)
        await write(self._settings, [OutboundRecord(self._place.topic, PARTITION, key, value)])
        return await self.read_from(self._consumer)

    async def follow(self, refused: Callable[[tuple[PolicyRefusal, ...]], Awaitable[None]]) -> None:
        """Look again and again, for ever; `refused` is called with the records that were refused.

        While the brokers are away it goes on trying: only who wants to answer needs to know the end.
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
                    log_fact("policies are not read", topic=self._place.topic, error=_told(error))
                self._failed = _told(error)
            else:
                if self._failed:
                    log_fact("policies are read again", topic=self._place.topic)
                self._failed = ""

    async def current(self) -> None:
        """Return when all policies are read that may concern what is answered now.

        Raises:
            PoliciesUnreadError: their end was not reached within `request_timeout_s`.
        """
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
        """Return the records up to an end, and to the end that the last read told, if that is later.

        Raises:
            TimeoutError: nothing came for `request_timeout_s`.
        """
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
        """Go by what was read; say which records are refused, and whether the group's files changed."""
        if not records:
            return ()
        before = self.timeline
        self.timeline, refusals = before.after(records, self._settings.bounds)
        self._tell(self.timeline)
        for each in refusals:
            log_fact("policy refused", record=each.record, code=each.error.code, pointer=each.error.pointer)
        log_fact("policies read", records=len(records), published=len(self.timeline.holding))
        if len(self.timeline.files) > len(before.files):
            self._compare(self.timeline.files[-1])
        return refusals

    def _compare(self, files: Files) -> None:
        """Say which of this worker's files are not those of the group."""
        if differing := different(self.timeline.own, files.policies):
            log_fact("file policies differ from those of the group", policies=",".join(differing))


async def write(settings: Settings, messages: Iterable[OutboundRecord]) -> tuple[RecordMetadata, ...]:
    """Write records now and then, with a producer of their own; return where they stand when all are durable.

    Raises:
        BrokerUnreachableError: one was not acknowledged in time; others may have been.
    """
    producer = AIOKafkaProducer(**_client(settings), acks="all", max_request_size=MESSAGE_MAX_BYTES)
    try:
        async with asyncio.timeout(settings.request_timeout_s):
            await producer.start()
            sending = [
                await producer.send(one.topic, one.value, one.key, one.partition, None, list(one.headers))
                for one in messages
            ]
            return tuple(await asyncio.gather(*sending))
    except (KafkaError, TimeoutError) as error:
        raise why_unanswered(settings, error) from error
    finally:
        await producer.stop()


def _client(settings: Settings) -> dict[str, Any]:
    return {
        **connection_arguments(settings),
        "client_id": f"{settings.app_id}-policies",
        "request_timeout_ms": int(settings.request_timeout_s * 1000),
    }


def _told(error: BaseException) -> str:
    return str(error) or type(error).__name__
