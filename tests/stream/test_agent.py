"""The order that makes it safe: outputs, then the row, then the event; no further than what is durable."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaTimeoutError
from faust.types import TP, ConsumerMessage
from running import request
from support import NOW, candidate

from apportion.assembly import create_engine, create_timeline
from apportion.core.session import EMPTY
from apportion.settings import Settings
from apportion.stream.agent import RequestAgent
from apportion.stream.answers import Answers
from apportion.stream.app import create_app
from apportion.stream.faults import (
    DeadLetterShare,
    EventFailedError,
    EventLostError,
    PartitionNotOursError,
    TooManyDeadLettersError,
    TopicReplacedError,
)
from apportion.stream.policies import PoliciesUnreadError
from apportion.stream.sessions import Row, SessionTable, encode_row

pytestmark = pytest.mark.asyncio

SETTINGS = Settings(partitions=1)
KEY = b"default/s"
PLACE = TP(SETTINGS.requests_topic, 0)
ARTIFACT = {
    "type": "context-artifact",
    "session_id": "s",
    "source": "test",
    "published_at": NOW,
    "artifact": candidate("a"),
}
OUTPUTS = (SETTINGS.composed_topic, SETTINGS.decisions_topic)
CHANGELOG = "apportion-sessions-changelog"
DURABLE = [*(f"send {topic}" for topic in OUTPUTS), *(f"durable {topic}" for topic in OUTPUTS)]
ROW = [f"send {CHANGELOG}", f"durable {CHANGELOG}"]
REFUSED = [f"send {SETTINGS.dead_letters_topic}", f"durable {SETTINGS.dead_letters_topic}"]


def message(offset: int, event: dict[str, Any], timestamp: float | None = 1.0) -> ConsumerMessage:
    value = json.dumps(event).encode()
    headers = (("traceparent", b"00-1"),)
    return ConsumerMessage(*PLACE, offset, timestamp, 0, headers, KEY, value, None, tp=PLACE)


class Stage:
    """An agent with its table; stands for broker, consumer and stream, and notes what they are asked."""

    def __init__(self, *messages: ConsumerMessage, share_max: float = 1.0) -> None:
        self.steps: list[str] = []
        self.sent: list[Any] = []
        self.lost_topic = ""
        self.policies_unread = False
        self.end_offset = 1_000
        self.follows: Callable[[ConsumerMessage], bool] = lambda _: True
        self.unacked = set(messages)
        self._messages = messages
        app = create_app(SETTINGS)
        app.producer = self
        self.table: SessionTable = app.sessions
        engine = create_engine(SETTINGS)
        answers = Answers(SETTINGS, engine, create_timeline(SETTINGS), "w")
        seen = SimpleNamespace(settings=SETTINGS, producer=self, consumer=self)
        policies: Any = self
        self.agent = RequestAgent(seen, app.sessions, policies, answers, DeadLetterShare(2, share_max))

    async def run(self, row: Row | None = None) -> None:
        """Let the agent answer the messages; the session's row is this."""
        await self.table.data.on_rebalance({TP(CHANGELOG, 0)}, set(), set())
        if row is not None:
            self.table.data.hold(0, KEY, encode_row(row))
        await self.agent.run(self)

    async def send(self, topic: str, *rest: Any) -> "asyncio.Future[Any]":
        self.steps.append(f"send {topic}")
        self.sent.append((topic, *rest))
        loop = asyncio.get_running_loop()
        sending: asyncio.Future[Any] = loop.create_future()
        loop.call_soon(self._end, topic, sending)
        return sending

    def _end(self, topic: str, sending: "asyncio.Future[Any]") -> None:
        if topic == self.lost_topic:
            sending.set_exception(KafkaTimeoutError())
        else:
            self.steps.append(f"durable {topic}")
            sending.set_result(SimpleNamespace(offset=0))

    async def current(self) -> None:
        """Stand for the reader of policies."""
        if self.policies_unread:
            raise PoliciesUnreadError("context-policies", "a test")

    def highwater(self, _: TP) -> int:
        return self.end_offset

    def noack(self) -> "Stage":
        self.steps.clear()
        return self

    async def events(self) -> AsyncIterator[Any]:
        for one in self._messages:
            yield SimpleNamespace(message=one)

    async def ack(self, event: Any) -> None:
        self.steps.append(f"acknowledge {event.message.offset}")


async def test_outputs_are_durable_before_the_row_and_the_row_before_the_event_is_acknowledged() -> None:
    stage = Stage(message(0, request("r0")), message(1, request("r1")))
    await stage.run()
    assert stage.steps == [*DURABLE, *ROW, "acknowledge 0", *DURABLE, *ROW, "acknowledge 1"]
    assert all(("traceparent", b"00-1") in sent[-1] for sent in stage.sent if sent[0] in OUTPUTS)
    row = stage.table.row(0, KEY)
    assert row is not None
    assert (row.seen_offset, row.session.prompts) == (1, 2)


async def test_an_artifact_gives_a_row_alone() -> None:
    stage = Stage(message(0, ARTIFACT))
    await stage.run()
    assert stage.steps == [*ROW, "acknowledge 0"]


async def test_what_the_row_has_seen_is_acknowledged_and_nothing_else() -> None:
    stage = Stage(*(message(offset, request(f"r{offset}")) for offset in (4, 5, 6)))
    await stage.run(Row(5, EMPTY))
    assert stage.steps == ["acknowledge 4", "acknowledge 5", *DURABLE, *ROW, "acknowledge 6"]


async def test_a_refused_event_gives_a_dead_letter_and_changes_no_row() -> None:
    stage = Stage(message(7, {"type": "nothing"}, 1.234), message(8, request("r")))
    await stage.run(Row(6, EMPTY))
    assert stage.steps == [*REFUSED, "acknowledge 7", *DURABLE, *ROW, "acknowledge 8"]
    source = json.loads(stage.sent[0][2])["source"]
    assert source == {"topic": PLACE.topic, "partition": 0, "offset": 7, "timestamp_ms": 1_234}


async def test_a_record_of_no_known_time_has_none_in_its_dead_letter() -> None:
    stage = Stage(message(0, {"type": "nothing"}, None))
    await stage.run()
    assert json.loads(stage.sent[0][2])["source"]["timestamp_ms"] == -1


@pytest.mark.parametrize(
    ("lost", "event", "steps"),
    [
        (OUTPUTS[0], request("r"), [*DURABLE[:2], DURABLE[3]]),
        (OUTPUTS[1], request("r"), DURABLE[:3]),
        (CHANGELOG, request("r"), [*DURABLE, ROW[0]]),
        (SETTINGS.dead_letters_topic, {"type": "nothing"}, REFUSED[:1]),
    ],
    ids=["composed", "decision", "row", "dead letter"],
)
async def test_where_one_is_not_durable_it_ends_and_neither_holds_the_row_nor_acknowledges_the_event(
    lost: str, event: dict[str, Any], steps: list[str]
) -> None:
    stage = Stage(message(3, event), message(4, request("next")))
    stage.lost_topic = lost
    with pytest.raises(EventFailedError, match="partition 0 offset 3: the broker did not acknowledge"):
        await stage.run(Row(2, EMPTY))
    assert stage.steps == steps
    assert stage.table.row(0, KEY) == Row(2, EMPTY)
    assert [one.offset for one in stage.unacked] == [4], "the consumer does not wait for it"


async def test_where_an_event_was_lost_before_it_ends_and_sends_nothing() -> None:
    stage = Stage(message(0, request("r0")), message(2, request("r2")))
    stage.follows = lambda one: one.offset == 0
    with pytest.raises(EventLostError, match="offset 2"):
        await stage.run()
    assert stage.steps == [*DURABLE, *ROW, "acknowledge 0"]


async def test_an_event_of_a_partition_that_is_not_ours_ends_it_and_sends_nothing() -> None:
    stage = Stage(message(0, request("r")))
    with pytest.raises(PartitionNotOursError, match="partition 0 "):
        await stage.agent.run(stage)
    assert stage.steps == []
    assert stage.unacked == set(), "the consumer does not wait for it"


async def test_while_the_end_of_the_policies_is_not_known_it_ends_and_sends_nothing() -> None:
    stage = Stage(message(0, request("r")))
    stage.policies_unread = True
    with pytest.raises(PoliciesUnreadError):
        await stage.run()
    assert stage.steps == []
    assert stage.unacked == set(), "the consumer does not wait for it"


async def test_a_row_that_has_seen_the_last_offset_there_is_passes_its_event_over() -> None:
    stage = Stage(message(0, request("r")))
    stage.end_offset = 6
    await stage.run(Row(5, EMPTY))
    assert stage.steps == ["acknowledge 0"]


async def test_a_row_that_has_seen_an_offset_that_never_was_is_another_topics_and_ends_it() -> None:
    stage = Stage(message(0, request("r")))
    stage.end_offset = 5
    with pytest.raises(TopicReplacedError, match=f"offset 5 of a topic .* delete {CHANGELOG}"):
        await stage.run(Row(5, EMPTY))
    assert stage.steps == []


async def test_the_last_of_too_many_refused_events_is_acknowledged() -> None:
    bad, good = {"type": "nothing"}, [request(f"r{number}") for number in range(18)]
    stage = Stage(
        *(message(offset, event) for offset, event in enumerate([*good, bad, bad, request("next")])),
        share_max=0.5,
    )
    with pytest.raises(TooManyDeadLettersError):
        await stage.run()
    acknowledged = [step for step in stage.steps if step.startswith("acknowledge")]
    assert acknowledged == [f"acknowledge {offset}" for offset in range(20)]
