"""The backend over Kafka: it publishes events to the topic of requests, and reads a worker's answers.

The answer to a request that was sent again is a duplicate, which names the first decision. The first answer
is then read from its partition, so that every gateway finds it, even after a restart.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from itertools import count
from uuid import uuid4

from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from msgspec import UNSET, Struct, json

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Event, Opt, session_key
from apportion.core.results import ContextDeadLetter
from apportion.core.wire.cloudevents import CALLER_HEADER
from apportion.doors.gateway.backend import (
    AnswerGoneError,
    BackendAwayError,
    GatewayAnswer,
    SubmittedEvent,
    TraceHeaders,
)
from apportion.settings import Settings
from apportion.shell.kafka.caller_reader import CallerReader, open_caller_reader
from apportion.shell.kafka.client import Publisher, open_publisher
from apportion.shell.kafka.connection import why_exposed
from apportion.shell.kafka.event_search import EventSearch
from apportion.shell.kafka.output_ownership import output_topics
from apportion.shell.kafka.topic_watch import TopicsWatch
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES
from apportion.shell.operations.log import log_warning

OpenReader = Callable[[tuple[str, ...]], Awaitable[CallerReader]]
FindEvent = Callable[[str, int, str], Awaitable[bytes | None]]


class _ComposedIds(Struct, frozen=True):
    duplicate_of: Opt[str] = UNSET


_SEARCHES_MAX = 4
"""Number of partitions that are searched at once; a search can read a whole partition."""
_composed_ids = json.Decoder(_ComposedIds)
_dead_letter = json.Decoder(ContextDeadLetter)


@asynccontextmanager
async def open_kafka_backend(settings: Settings) -> AsyncIterator["KafkaBackend"]:
    """Connect; a reader that fails ends the context.

    Raises:
        BrokerRefusedError, BrokerUnreachableError: brokers refuse the client, or none answered in time.
        TopicsNotReadyError: topics are missing or differ.
        AnswersUnreadError: the answers can no longer be read.
        AnotherClusterError, TopicGoneError, TopicRecreatedError: the topics are not the same as at the start.
    """
    if why := why_exposed(settings):
        log_warning("unencrypted connection", why=why)
    readers: list[asyncio.Task[None]] = []
    try:
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:

            async def open_running(topics: tuple[str, ...]) -> CallerReader:
                reader = await stack.enter_async_context(open_caller_reader(settings, topics))
                readers.append(tasks.create_task(reader.run()))
                return reader

            publisher = await stack.enter_async_context(open_publisher(settings))
            answers = await open_running((settings.composed_topic, settings.dead_letters_topic))
            search = EventSearch(settings)
            used = (settings.requests_topic, *output_topics(settings))
            readers.append(tasks.create_task(TopicsWatch(settings, used).follow()))
            readers += [tasks.create_task(search.run()) for _ in range(_SEARCHES_MAX)]
            yield KafkaBackend(settings, publisher, answers, open_running, search.find)
            for reader in readers:
                reader.cancel()
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None


class KafkaBackend:
    """The topics of a worker; made by `open_kafka_backend`."""

    def __init__(
        self,
        settings: Settings,
        publisher: Publisher,
        answers: CallerReader,
        open_reader: OpenReader,
        find: FindEvent,
    ) -> None:
        """Decisions are read only after the first request for a decision."""
        self._settings = settings
        self._publisher = publisher
        self._answers = answers
        self._open_reader = open_reader
        self._find = find
        self._decisions: CallerReader | None = None
        self._opening = asyncio.Lock()
        self._name = uuid4().hex
        self._numbers = count()

    async def compose(self, request: SubmittedEvent, *, with_decision: bool) -> GatewayAnswer:
        """Publish a request, and return the worker's answer, as `Backend` says."""
        key = _key(request.event)
        value, trace = request.value, request.trace
        del request  # decoded, an event takes several times its bytes
        caller = f"{self._name}/{next(self._numbers)}".encode()
        decisions = await self._decision_reader() if with_decision else None
        with ExitStack() as stack:
            answer = stack.enter_context(self._answers.expecting(caller, key))
            decision = stack.enter_context(decisions.expecting(caller, key)) if decisions else None
            await self._publish(key, value, (*trace, (CALLER_HEADER, caller)))
            del value
            record = await answer
            if record.topic == self._settings.dead_letters_topic:
                error = _dead_letter.decode(record.value).error
                raise EventError(error.code, error.message, error.pointer)
            decided = b"" if decision is None else (await decision).value  # each answer has a decision
        first = _composed_ids.decode(record.value).duplicate_of
        if first is not UNSET:
            return await self._first_answer(first, record.partition, with_decision=with_decision)
        return GatewayAnswer(record.value, decided, is_repeated=False)

    async def publish(self, event: SubmittedEvent) -> None:
        """Publish an artifact or a retraction, as `Backend` says."""
        await self._publish(_key(event.event), event.value, event.trace)

    async def why_not_ready(self) -> tuple[str, ...]:
        """Return a reason if no broker answers."""
        return () if await self._answers.is_reached() else ("no broker answers",)

    async def _publish(self, key: bytes, value: bytes, headers: TraceHeaders) -> None:
        try:
            await self._publisher.publish(key, value, headers)
        except MessageSizeTooLargeError:
            message = f"the event and its headers are larger than a record can be ({MESSAGE_MAX_BYTES} bytes)"
            raise EventError(ErrorCode.TOO_LARGE, message) from None
        except KafkaError as error:
            raise BackendAwayError from error

    async def _decision_reader(self) -> CallerReader:
        async with self._opening:
            if self._decisions is None:
                self._decisions = await self._open_reader((self._settings.decisions_topic,))
        return self._decisions

    async def _first_answer(self, decision_id: str, partition: int, *, with_decision: bool) -> GatewayAnswer:
        settings = self._settings
        composed = await self._past(settings.composed_topic, partition, f"{decision_id}-composed")
        decision = b""
        if with_decision:
            decision = await self._past(settings.decisions_topic, partition, f"{decision_id}-decision")
        return GatewayAnswer(composed, decision, is_repeated=True)

    async def _past(self, topic: str, partition: int, event_id: str) -> bytes:
        try:
            found = await self._find(topic, partition, event_id)
        except KafkaError as error:
            raise BackendAwayError from error
        if found is None:
            raise AnswerGoneError
        return found


def _key(event: Event) -> bytes:
    return session_key(event.tenant, event.session_id).encode()
