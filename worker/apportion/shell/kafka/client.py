"""Clients of a worker, which publish events and read the answers, for commands and the gateway."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from time import perf_counter

import msgspec
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from msgspec import UNSET, Struct, UnsetType

from apportion.core.events import session_key
from apportion.core.results import ContextDeadLetter, ContextDecision
from apportion.core.wire.not_json import one_line, why_not_json
from apportion.settings import Settings
from apportion.shell.kafka.admin import BrokerUnreachableError
from apportion.shell.kafka.connection import close_consumer, connection_arguments, consumer_arguments
from apportion.shell.kafka.output_ownership import output_topics
from apportion.shell.kafka.partitioning import partition_of
from apportion.shell.kafka.record_consumer import RecordConsumer
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES, check_topics, of_worker, require_ready

_POLL_S = 0.5
_REQUEST = "context-request"

_Position = tuple[int, int]
"""Partition and offset in the requests topic."""


class NotAnEventError(Exception):
    """A value cannot be published, because it is not JSON or names no session."""

    code = "not_an_event"


class NoAnswerError(Exception):
    """Events were published, and no answer came in time."""

    code = "no_answer"

    def __init__(self, waiting: int, patience_s: float) -> None:
        super().__init__(
            f"no answer for {waiting} events within {patience_s:g} s; is a worker running (apportion run), "
            "and is it of the same brokers, topics and partitions?"
        )


class Reply(Struct, frozen=True):
    """The reply to an event: a decision and the composed event's bytes, or a dead letter.

    `index` counts the events from 0. `latency_s` is the time from publishing the event to its whole answer.
    """

    index: int
    latency_s: float
    composed: bytes = b""
    decision: ContextDecision | None = None
    dead_letter: ContextDeadLetter | None = None


class _Named(Struct, frozen=True):
    session_id: str
    tenant: str = "default"
    type: str | UnsetType = UNSET


class _ComposedId(Struct, frozen=True):
    decision_id: str


class _AwaitedAnswer(Struct):
    index: int
    since_s: float
    decision: ContextDecision | None = None


_named = msgspec.json.Decoder(_Named)
_composed_id = msgspec.json.Decoder(_ComposedId)
_decision = msgspec.json.Decoder(ContextDecision)
_dead_letter = msgspec.json.Decoder(ContextDeadLetter)


@asynccontextmanager
async def open_publisher(settings: Settings) -> AsyncIterator["Publisher"]:
    """Connect, for publishing only; raises as `admin_client`, and TopicsNotReadyError."""
    require_ready(of_worker(await check_topics(settings), settings))
    async with AsyncExitStack() as stack:
        async with _reaching(settings):
            arguments = connection_arguments(settings) | {"client_id": f"{settings.app_id}-client"}
            producer = AIOKafkaProducer(**arguments, acks="all", max_request_size=MESSAGE_MAX_BYTES)
            stack.push_async_callback(producer.stop)
            await producer.start()
        yield Publisher(settings, producer)


@asynccontextmanager
async def open_client(settings: Settings) -> AsyncIterator["Client"]:
    """Connect, and receive the worker's answers from then on; raises the errors of `open_publisher`."""
    async with open_publisher(settings) as publisher, AsyncExitStack() as stack:
        async with _reaching(settings):
            arguments = consumer_arguments(settings, "-client")
            consumer = RecordConsumer(**arguments, max_partition_fetch_bytes=MESSAGE_MAX_BYTES)
            stack.push_async_callback(close_consumer, consumer)
            await consumer.start()
            partitions = range(settings.partitions)
            consumer.assign(
                [TopicPartition(topic, number) for topic in output_topics(settings) for number in partitions]
            )
            await consumer.seek_to_end()
            for partition in consumer.assignment():
                await consumer.position(partition)
        yield Client(settings, publisher, consumer)


@asynccontextmanager
async def _reaching(settings: Settings) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(settings.request_timeout_s):
            yield
    except (KafkaError, TimeoutError) as error:
        raise BrokerUnreachableError(settings) from error


class Publisher:
    """Publisher of events; made by `open_publisher`."""

    def __init__(self, settings: Settings, producer: AIOKafkaProducer) -> None:
        self._settings = settings
        self._producer = producer

    async def send(self, value: bytes) -> _Position | None:
        """Publish an event under its session's key, durably; return a request's position, else None.

        Raises NotAnEventError without a session, KafkaError if it may not have been delivered.
        """
        try:
            named = _named.decode(value)
        except msgspec.ValidationError:
            raise NotAnEventError(f"not a JSON object with a session_id{one_line(value)}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise NotAnEventError(why_not_json(value, str(error))) from None
        key = session_key(named.tenant, named.session_id).encode()
        position = await self.publish(key, value)
        return position if named.type == _REQUEST else None

    async def publish(
        self, key: bytes, value: bytes, headers: tuple[tuple[str, bytes], ...] = ()
    ) -> _Position:
        """Publish an event under this key, durably, and return its position; raises as `send`."""
        settings = self._settings
        partition = partition_of(key, settings.partitioner, settings.partitions)
        written = await self._producer.send_and_wait(
            settings.requests_topic, value=value, key=key, partition=partition, headers=list(headers)
        )
        return written.partition, written.offset


class Client:
    """Publisher of events that also matches their answers; made by `open_client`."""

    def __init__(self, settings: Settings, publisher: Publisher, consumer: RecordConsumer) -> None:
        self._settings = settings
        self._publisher = publisher
        self._consumer = consumer
        self._waiting: dict[_Position, _AwaitedAnswer] = {}
        self._composed: dict[str, bytes] = {}
        self._decided: dict[str, _Position] = {}

    async def send(self, index: int, value: bytes) -> None:
        """Publish an event durably, and register a request as waiting; raises as `Publisher.send`."""
        since_s = perf_counter()
        # No answer is missed: answers are read only after the position is known.
        position = await self._publisher.send(value)
        if position is not None:
            self._waiting[position] = _AwaitedAnswer(index, since_s)

    async def exchange(
        self, events: Iterable[bytes], in_flight_max: int, patience_s: float
    ) -> AsyncIterator[Reply]:
        """Publish events in order, and yield the replies to the requests among them as they arrive.

        At most `in_flight_max` requests wait for a reply at any time.

        Raises:
            NotAnEventError, KafkaError: as for `Publisher.send`; the events before it are published.
            NoAnswerError: requests wait, and no answer came for `patience_s`.
        """
        remaining = enumerate(events)
        more = True
        replied_s = perf_counter()
        while more or self._waiting:
            while more and len(self._waiting) < in_flight_max:
                index, value = next(remaining, (-1, b""))
                more = index >= 0
                if more:
                    await self.send(index, value)
            for reply in await self._poll():
                replied_s = perf_counter()
                yield reply
            if self._waiting and perf_counter() - replied_s > patience_s:
                raise NoAnswerError(len(self._waiting), patience_s)

    async def _poll(self) -> list[Reply]:
        if not self._waiting:
            return []
        batches = await self._consumer.getmany(timeout_ms=int(_POLL_S * 1000))
        records = [record for batch in batches.values() for record in batch]
        replies = [self._read(record.topic, record.value) for record in records if record.value]
        return [reply for reply in replies if reply is not None]

    def _read(self, topic: str, value: bytes) -> Reply | None:
        if topic == self._settings.dead_letters_topic:
            letter = _dead_letter.decode(value)
            waiting = self._waiting.pop((letter.source.partition, letter.source.offset), None)
            if waiting is None:
                return None
            return Reply(waiting.index, perf_counter() - waiting.since_s, dead_letter=letter)
        if topic == self._settings.composed_topic:
            identity = _composed_id.decode(value).decision_id
            self._composed[identity] = value
        else:
            decision = _decision.decode(value)
            identity = decision.decision_id
            if decision.run is not UNSET and decision.run.source is not UNSET:
                position = (decision.run.source.partition, decision.run.source.offset)
                if position in self._waiting:
                    self._waiting[position].decision = decision
                    self._decided[identity] = position
        return self._matched(identity)

    def _matched(self, identity: str) -> Reply | None:
        if identity not in self._decided or identity not in self._composed:
            return None
        waiting = self._waiting.pop(self._decided.pop(identity))
        latency_s = perf_counter() - waiting.since_s
        return Reply(waiting.index, latency_s, self._composed.pop(identity), waiting.decision)
