"""Synchronous reader of records, with a client in a thread of its own; it buffers a fetch per partition."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from msgspec import Struct

from apportion.core.wire.record import Record
from apportion.settings import Settings
from apportion.shell.kafka.admin import BrokerUnreachableError
from apportion.shell.kafka.connection import close_consumer, consumer_arguments
from apportion.shell.kafka.groupless_consumer import read_to
from apportion.shell.kafka.record_batches import record_of
from apportion.shell.kafka.record_consumer import RecordConsumer

_SLICE = 200
_POLL_MS = 100
_FETCH_WAIT_MS = 50

T = TypeVar("T")


class OffsetSpan(Struct, frozen=True):
    """Offsets of a partition, from `first` to before `end`."""

    topic: str
    partition: int
    first: int
    end: int

    @property
    def place(self) -> TopicPartition:
        """The partition in the client's type."""
        return TopicPartition(self.topic, self.partition)

    def __len__(self) -> int:
        return max(0, self.end - self.first)


class RecordReader:
    """A reader of spans; made by `open_reader`."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings
        self._loop = loop
        self.client: Any = None
        """The client; use it only on its own event loop, through `wait`."""

    def read(self, *spans: OffsetSpan) -> tuple[Iterator[Record], ...]:
        """Return an iterator over the committed records of each span; do not use earlier ones any more.

        Raises BrokerUnreachableError, also while iterating.
        """
        self.wait(self._assign(spans))
        return tuple(self._records(span) for span in spans)

    def _records(self, span: OffsetSpan) -> Iterator[Record]:
        position = span.first
        while position < span.end:
            records, position = self.wait(self._next(span, position))
            for record in records:
                if record.offset >= span.end:
                    return
                yield record

    def wait(self, doing: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine on the client's loop; raise BrokerUnreachableError if it fails."""
        try:
            return asyncio.run_coroutine_threadsafe(doing, self._loop).result()
        except (KafkaError, TimeoutError) as error:
            raise BrokerUnreachableError(self._settings) from error

    async def start(self) -> None:
        """Connect."""
        self.client = RecordConsumer(
            **consumer_arguments(self._settings, "-recompose"),
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=_FETCH_WAIT_MS,
        )
        async with asyncio.timeout(self._settings.request_timeout_s):
            await self.client.start()

    async def stop(self) -> None:
        """Disconnect."""
        if self.client is not None:
            await close_consumer(self.client)

    async def _assign(self, spans: Iterable[OffsetSpan]) -> None:
        filled = [span for span in spans if span]
        self.client.assign([span.place for span in filled])
        for span in filled:
            self.client.seek(span.place, span.first)

    async def _next(self, span: OffsetSpan, position: int) -> tuple[list[Record], int]:
        """Return the next records, and the offset after them and after transaction markers behind them."""
        place, consumer = span.place, self.client
        records: list[Record] = []
        async with asyncio.timeout(self._settings.request_timeout_s):
            async for step in read_to(consumer, {place: position + 1}, poll_ms=_POLL_MS, max_records=_SLICE):
                records += map(record_of, step.records)
                position = step.position
        if position >= span.end:
            consumer.pause(place)
        return records, position


@contextmanager
def open_reader(settings: Settings) -> Iterator[RecordReader]:
    """Connect, and disconnect at the end; raise BrokerUnreachableError."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="recompose", daemon=True)
    thread.start()
    reader = RecordReader(settings, loop)
    try:
        reader.wait(reader.start())
        yield reader
    finally:
        asyncio.run_coroutine_threadsafe(reader.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
