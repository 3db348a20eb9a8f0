"""The one agent: what happens to each event, and in which order.

Decides the order that makes it safe: outputs before state, state before the acknowledgement. Five things
an event: decode, read the row, compose, send and await, assign the row. What needs a sixth belongs in the
core.
"""

import faust
from faust.types import TP
from faust.types.tuples import Message

from apportion.core.errors import ErrorCode, EventError
from apportion.core.record import Record
from apportion.stream.answers import Answers
from apportion.stream.delivery import deliver
from apportion.stream.faults import (
    DeadLetterShare,
    EventFailedError,
    EventLostError,
    StreamError,
    TopicReplacedError,
    tenant_of,
)
from apportion.stream.log import RefusalLog
from apportion.stream.policies import PoliciesUnreadError, PolicyReader
from apportion.stream.sessions import Row, SessionTable


class RequestAgent:
    """Answers the records of the requests topic, one after another."""

    def __init__(
        self,
        app: faust.App,
        sessions: SessionTable,
        policies: PolicyReader,
        answers: Answers,
        share: DeadLetterShare,
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._policies = policies
        self._answers = answers
        self._share = share
        self._refusals = RefusalLog()

    async def run(self, stream: faust.Stream) -> None:
        """Answer or refuse each context request.

        An event is acknowledged when all that it gave is durable. Faust would acknowledge one whose
        handling raised, too: so the stream acknowledges nothing by itself.

        Raises:
            EventFailedError: an event was neither answered nor refused; it is not acknowledged.
            EventLostError, PartitionNotOursError, TopicReplacedError, PoliciesUnreadError: nor is this one.
            TooManyDeadLettersError: too many of most tenants were refused; the last one is acknowledged.
        """
        stream = stream.noack()
        async for event in stream.events():
            record = _record(event.message)
            try:
                self._require_unbroken(event.message, record)
                await self._policies.current()
                refusal = await self._handle(record)
            except Exception as error:  # noqa: BLE001 - whatever it is, going on would lose the event
                self._app.consumer.unacked.discard(event.message)  # nobody shall wait for it
                named = isinstance(error, StreamError | PoliciesUnreadError)
                raise error if named else EventFailedError(record, error) from None
            await stream.ack(event)
            if refusal is not None:
                self._refusals.tell(refusal, str(record))
            self._share.count(tenant_of(record, refusal), refused=refusal is not None)

    async def _handle(self, record: Record) -> ErrorCode | None:
        """Answer or refuse a record; return why it was refused."""
        row = self._sessions.row(record.partition, record.key) if record.key else None
        if row is not None and row.seen_offset >= record.offset:
            self._require_same_topic(record, row)
            return None
        try:
            answer = self._answers.answer(record, row)
        except EventError as error:
            await deliver(self._app, self._answers.refuse(record, error))
            return error.code
        await deliver(self._app, *answer.messages)
        assert record.key is not None, "only a record under its session's key is answered"
        await self._sessions.assign(record.partition, record.key, answer.row)
        return None

    def _require_unbroken(self, message: Message, record: Record) -> None:
        """Pass if no event was lost before this one: its session would go on without it."""
        if not self._app.consumer.follows(message):
            raise EventLostError(record)

    def _require_same_topic(self, record: Record, row: Row) -> None:
        """Pass if the topic has the offset that the row has seen; another topic's would be passed over."""
        end_offset = self._app.consumer.highwater(TP(record.topic, record.partition))
        if row.seen_offset >= end_offset:
            raise TopicReplacedError(record, row.seen_offset, self._sessions.changelog_topic_name)


def _record(message: Message) -> Record:
    """Return Faust's message as the record it was; it counts time in seconds."""
    timestamp_ms = -1 if message.timestamp is None else round(message.timestamp * 1000)
    return Record(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        timestamp_ms=timestamp_ms,
        key=message.key,
        value=message.value,
        headers=tuple(message.headers or ()),
    )
