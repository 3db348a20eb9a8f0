"""The backend over Kafka: which record is the answer to a call, without a broker."""

import asyncio
import itertools
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest
from aiokafka.errors import KafkaTimeoutError, MessageSizeTooLargeError, OffsetOutOfRangeError
from aiokafka.structs import ConsumerRecord
from msgspec.structs import replace
from support.composing import NOW, candidate
from support.gateways import body, gateway

from apportion.core.bounds import Bounds
from apportion.core.errors import ErrorCode, EventError
from apportion.core.wire.cloudevents import CALLER_HEADER
from apportion.core.wire.codec import encode
from apportion.core.wire.dead_letter import dead_letter
from apportion.core.wire.record import Record
from apportion.doors.gateway import kafka_backend
from apportion.doors.gateway.backend import AnswerGoneError, BackendAwayError, SubmittedEvent
from apportion.doors.gateway.calls import request_of
from apportion.doors.gateway.kafka_backend import KafkaBackend, open_kafka_backend
from apportion.doors.gateway.serving import GatewayPortTakenError
from apportion.settings import Settings
from apportion.shell.kafka.caller_reader import AnswersUnreadError, CallerReader
from apportion.shell.kafka.client import Publisher

pytestmark = pytest.mark.asyncio

SETTINGS = Settings()
KEY = b"default/s"
REQUEST = request_of(msgspec.json.encode(body(request_id="r1", requested_at=NOW)), None, Bounds())


def record(topic: str, value: bytes, key: bytes, *headers: tuple[str, bytes]) -> ConsumerRecord:
    return ConsumerRecord(topic, 3, 0, 0, 0, key, value, None, len(key), len(value), headers)


class Topics:
    """A publisher with given answers, and the past records of the topics."""

    def __init__(self, *answers: tuple[str, bytes], past: dict[str, bytes] | None = None) -> None:
        self.readers = {name: CallerReader(cast("Any", None)) for name in ("answers", "decisions")}
        self.answers, self.past = answers, past or {}
        self.opened: list[tuple[str, ...]] = []
        self.published: list[tuple[bytes, bytes, tuple[tuple[str, bytes], ...]]] = []
        self.before_answers: Callable[[bytes], None] = lambda _: None
        publisher = cast("Publisher", self)
        self.backend = KafkaBackend(SETTINGS, publisher, self.readers["answers"], self.open, self.find)

    async def publish(self, key: bytes, value: bytes, headers: tuple[tuple[str, bytes], ...] = ()) -> None:
        self.published.append((key, value, headers))
        self.before_answers(dict(headers)[CALLER_HEADER])
        for topic, answer in self.answers:
            reader = self.readers["decisions" if topic == SETTINGS.decisions_topic else "answers"]
            reader.take([record(topic, answer, key, ("ce_id", b"x"), *headers)])

    async def open(self, topics: tuple[str, ...]) -> CallerReader:
        self.opened.append(topics)
        return self.readers["decisions"]

    async def find(self, topic: str, partition: int, event_id: str) -> bytes | None:
        assert partition == 3
        return self.past.get(f"{topic} {event_id}")


async def test_a_request_is_published_under_its_key_and_gets_the_answer_with_its_header() -> None:
    topics = Topics((SETTINGS.composed_topic, b'{"decision_id":"d"}'))
    answer = await topics.backend.compose(REQUEST, with_decision=False)
    assert (answer.composed, answer.decision, answer.is_repeated) == (b'{"decision_id":"d"}', b"", False)
    [(key, value, [(name, caller)])] = topics.published
    assert (key, value, name) == (KEY, REQUEST.value, "apportion-caller")
    assert len(caller) <= 128
    assert topics.opened == []


async def test_events_are_published_with_the_trace_of_their_call() -> None:
    topics = Topics((SETTINGS.composed_topic, b'{"decision_id":"d"}'))
    trace = (("traceparent", b"00-1-2-01"), ("tracestate", b"a=1"))
    await topics.backend.compose(replace(REQUEST, trace=trace), with_decision=False)
    [(_, _, headers)] = topics.published
    assert headers[:-1] == trace
    assert headers[-1][0] == CALLER_HEADER


async def test_answers_to_other_callers_or_of_other_sessions_are_passed_over() -> None:
    topics = Topics((SETTINGS.composed_topic, b'{"decision_id":"own"}'))
    answers = topics.readers["answers"]

    def take_others(caller: bytes) -> None:
        answers.take([record(SETTINGS.composed_topic, b"other", KEY, (CALLER_HEADER, caller + b"0"))])
        answers.take([record(SETTINGS.composed_topic, b"other", b"acme/s", (CALLER_HEADER, caller))])
        answers.take([record(SETTINGS.composed_topic, b"other", KEY)])

    topics.before_answers = take_others
    answer = await topics.backend.compose(REQUEST, with_decision=False)
    assert answer.composed == b'{"decision_id":"own"}'


async def test_decisions_are_read_only_after_the_first_request_for_them() -> None:
    topics = Topics((SETTINGS.composed_topic, b"{}"), (SETTINGS.decisions_topic, b'{"d":1}'))
    for _ in range(2):
        assert (await topics.backend.compose(REQUEST, with_decision=True)).decision == b'{"d":1}'
    assert topics.opened == [(SETTINGS.decisions_topic,)]


@pytest.mark.parametrize("with_decision", [True, False])
async def test_a_repeated_request_gets_its_first_answer(*, with_decision: bool) -> None:
    first = {
        f"{SETTINGS.composed_topic} d1-composed": b"first",
        f"{SETTINGS.decisions_topic} d1-decision": b"decided",
    }
    duplicate = (SETTINGS.composed_topic, b'{"decision_id":"d2","duplicate_of":"d1"}')
    topics = Topics(duplicate, (SETTINGS.decisions_topic, b"{}"), past=first)
    answer = await topics.backend.compose(REQUEST, with_decision=with_decision)
    assert (answer.composed, answer.is_repeated) == (b"first", True)
    assert answer.decision == (b"decided" if with_decision else b"")
    topics.past = {}
    with pytest.raises(AnswerGoneError):
        await topics.backend.compose(REQUEST, with_decision=with_decision)


async def test_a_dead_letter_is_the_refusal() -> None:
    refused = EventError(ErrorCode.TOO_LATE, "too late", "$.requested_at")
    letter = dead_letter(Record("t", 0, 0, 0, KEY, REQUEST.value), refused, "0")
    topics = Topics((SETTINGS.dead_letters_topic, encode(letter)))
    with pytest.raises(EventError) as caught:
        await topics.backend.compose(REQUEST, with_decision=False)
    assert (caught.value.code, caught.value.message, caught.value.pointer) == (
        refused.code,
        refused.message,
        refused.pointer,
    )


async def test_a_cancelled_call_stops_waiting_and_a_late_answer_is_ignored() -> None:
    topics, published = Topics(), asyncio.Event()
    topics.before_answers = lambda _: published.set()
    calling = asyncio.create_task(topics.backend.compose(REQUEST, with_decision=True))
    await published.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    [(key, _, headers)] = topics.published
    for reader in topics.readers.values():
        assert not reader._waiting
        reader.take([record(SETTINGS.composed_topic, b"{}", key, *headers)])


async def test_an_undelivered_event_is_reported() -> None:
    class Away(Topics):
        async def publish(self, *_: Any) -> None:
            raise KafkaTimeoutError

    with pytest.raises(BackendAwayError):
        await Away().backend.compose(SubmittedEvent(REQUEST.event, b"{}"), with_decision=False)


class Consumer:
    """A consumer that fails once it may."""

    def __init__(self) -> None:
        self.may_fail = asyncio.Event()

    async def getmany(self, **_: Any) -> Any:
        await self.may_fail.wait()
        raise OffsetOutOfRangeError({})

    def assignment(self) -> set[Any]:
        return set()

    async def end_offsets(self, _: Any) -> Any:
        raise KafkaTimeoutError


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    made = Consumer()

    @asynccontextmanager
    async def open_reader(*_: Any) -> AsyncIterator[CallerReader]:
        yield CallerReader(cast("Any", made))

    @asynccontextmanager
    async def open_publisher(_: Settings) -> AsyncIterator[Publisher]:
        yield cast("Publisher", Topics())

    monkeypatch.setattr(kafka_backend, "open_caller_reader", open_reader)
    monkeypatch.setattr(kafka_backend, "open_publisher", open_publisher)
    return made


async def test_a_reader_that_fails_ends_the_gateway(consumer: Consumer) -> None:
    async def serve() -> None:
        async with open_kafka_backend(SETTINGS):
            consumer.may_fail.set()
            await asyncio.Event().wait()

    with pytest.raises(AnswersUnreadError, match="OffsetOutOfRangeError"):
        await serve()


async def test_an_error_of_the_gateway_is_kept_and_ends_the_readers(consumer: Consumer) -> None:
    with pytest.raises(GatewayPortTakenError):
        async with open_kafka_backend(SETTINGS):
            raise GatewayPortTakenError("127.0.0.1", 1, OSError(98, "in use"))
    async with open_kafka_backend(SETTINGS) as backend:
        assert await backend.why_not_ready() == ("no broker answers",)
    assert not consumer.may_fail.is_set()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_event_that_fits_no_record_is_too_large() -> None:
    topics = Topics()

    def refuse(_: bytes) -> None:
        raise MessageSizeTooLargeError

    topics.before_answers = refuse
    with pytest.raises(EventError) as refused:
        await topics.backend.compose(REQUEST, with_decision=False)
    assert refused.value.code is ErrorCode.TOO_LARGE


async def test_a_request_in_flight_takes_twice_its_bytes_at_most() -> None:
    topics, calls, most = Topics(), 24, 1 << 20
    published, all_published = itertools.count(1), asyncio.Event()
    topics.before_answers = lambda _: all_published.set() if next(published) == calls else None
    candidates = [candidate(f"c{number}", 1) for number in range(most // 256)]
    data = msgspec.json.encode(body(candidates=candidates))
    assert most / 2 < len(data) <= most
    async with gateway(topics.backend) as client:
        tracemalloc.start()
        try:
            headers = {"Content-Type": "application/json"}
            waiting = [
                asyncio.create_task(client.post("/v1/compose", data=data, headers=headers))
                for _ in range(calls)
            ]
            await asyncio.wait_for(all_published.wait(), 60)
            await asyncio.sleep(0)
            assert tracemalloc.get_traced_memory()[0] < 2 * calls * len(data)
        finally:
            tracemalloc.stop()
        for call in waiting:
            call.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
