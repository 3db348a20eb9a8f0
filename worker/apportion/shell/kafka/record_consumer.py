"""aiokafka's consumer with our own parser of record batches, so that no damaged record can stop it."""

import asyncio
from collections.abc import Iterator
from logging import getLogger
from time import perf_counter
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, Fetcher, FetchResult
from aiokafka.errors import (
    KafkaError,
    NoError,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.fetch import FetchRequest

from apportion.shell.kafka.decompression import Decompressor
from apportion.shell.kafka.record_batches import FetchedRecords

_log = getLogger("aiokafka.consumer.fetcher")
_NO_RESET = 0
"""aiokafka's number for `auto_offset_reset="none"`."""
_PAUSE_MIN_S, _PAUSE_MAX_S = 0.001, 0.015
"""The first and the longest pause; a record may wait for one pause."""


class RecordConsumer(AIOKafkaConsumer):  # type: ignore[misc] # aiokafka has no types
    """A consumer with the options of `AIOKafkaConsumer`, and a bound on a decompressed batch, in bytes."""

    def __init__(self, *, batch_decompressed_max_bytes: int, **options: Any) -> None:
        super().__init__(**options)
        pace_fetches(self)
        self._fetcher: Any = None
        self._decompressor = Decompressor(batch_decompressed_max_bytes)

    async def start(self) -> None:
        """Connect; raise KafkaError if no broker answered."""
        await super().start()
        await self._fetcher.close()  # nobody has read its records, and they are fetched again
        self._fetcher = RecordFetcher(
            self._client,
            self._subscription,
            decompressor=self._decompressor,
            fetch_min_bytes=self._fetch_min_bytes,
            fetch_max_bytes=self._fetch_max_bytes,
            fetch_max_wait_ms=self._fetch_max_wait_ms,
            max_partition_fetch_bytes=self._max_partition_fetch_bytes,
            fetcher_timeout=self._consumer_timeout,
            retry_backoff_ms=self._retry_backoff_ms,
            auto_offset_reset=self._auto_offset_reset,
            isolation_level=self._isolation_level,
        )


class RecordFetcher(Fetcher):  # type: ignore[misc] # aiokafka has no types
    """aiokafka's fetcher with `FetchedRecords`."""

    def __init__(self, *arguments: Any, decompressor: Decompressor, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._decompressor = decompressor
        self._fetched_again: dict[TopicPartition, tuple[Any, int]] = {}
        """Assignments and offsets that are fetched again, because their answer began with a damaged batch."""

    async def _proc_fetch_request(self, assignment: Any, node_id: int, request: Any) -> bool:
        """Send a request and store its answer, as aiokafka does; return whether a waiting reader is woken."""
        try:
            response = await self._client.send(node_id, request)
        except KafkaError as error:
            _log.error("Failed fetch messages from %s: %s", node_id, error)
            await asyncio.sleep(self._retry_backoff)
            return False
        except asyncio.CancelledError:
            return False  # the client was closed, or other partitions were assigned
        if not assignment.active:
            return False
        offsets = {
            TopicPartition(topic, partition): offset
            for topic, partitions in request.topics
            for partition, offset, _ in partitions
        }
        has_news = False
        for partition, error_code, answer in _answers(response):
            state = assignment.state_value(partition)
            if state.has_valid_position and state.position == offsets[partition]:
                kept = (
                    self._keep(partition, answer, assignment, offsets[partition])
                    if error_code == NoError.errno
                    else self._fail(partition, for_code(error_code), state, offsets[partition])
                )
                has_news = has_news or kept
        return has_news

    def _keep(self, partition: TopicPartition, answer: "_Answer", assignment: Any, offset: int) -> bool:
        """Store the answer for a partition, or fetch a damaged batch again; return whether it has records."""
        state = assignment.state_value(partition)
        state.highwater, state.lso = answer.end_offset, answer.last_stable_offset
        before = self._fetched_again.pop(partition, None)
        if not answer.data:
            return False
        records = FetchedRecords(
            partition,
            answer.data,
            offset,
            answer.end_offset,
            self._decompressor,
            answer.aborted if self._isolation_level == READ_COMMITTED else (),
        )
        # A bit may have flipped in transfer. Or the broker determined the end before it read the data, and
        # records were appended in between; the next answer has a later end.
        if records.begins_damaged and before != (assignment, offset):
            self._fetched_again[partition] = assignment, offset
            return False
        self._records[partition] = FetchResult(
            partition, partition_records=records, assignment=assignment, backoff=self._prefetch_backoff
        )
        return True

    def _fail(self, partition: TopicPartition, error: type[KafkaError], state: Any, offset: int) -> bool:
        """Handle a broker's error; return whether a waiting reader must be woken."""
        if error in (NotLeaderForPartitionError, UnknownTopicOrPartitionError):
            self._client.force_metadata_update()
        elif error is OffsetOutOfRangeError:
            if self._default_reset_strategy != _NO_RESET:
                state.await_reset(self._default_reset_strategy)
                return False
            self._set_error(partition, OffsetOutOfRangeError({partition: offset}))
            return True
        elif error is TopicAuthorizationFailedError:
            self._set_error(partition, TopicAuthorizationFailedError(partition.topic))
            return True
        else:
            _log.warning("Unexpected error while fetching data: %s", error.__name__)
        return False


class _Answer:
    """A broker's answer for a partition, from versions 4 and later of the response."""

    def __init__(self, end_offset: int, fields: Any, version: int) -> None:
        self.end_offset = end_offset
        self.last_stable_offset: int = fields[0]
        aborted = fields[2] if version >= _VERSION_WITH_REPLICA else fields[-2]
        self.aborted: tuple[tuple[int, int], ...] = tuple(aborted or ())
        self.data: bytes = fields[-1] or b""


_VERSION_WITH_REPLICA = 11


def _answers(response: Any) -> Iterator[tuple[TopicPartition, int, _Answer]]:
    for topic, partitions in response.topics:
        for partition, error_code, end_offset, *fields in partitions:
            answer = _Answer(end_offset, fields, response.API_VERSION)
            yield TopicPartition(topic, partition), error_code, answer


def pace_fetches(consumer: AIOKafkaConsumer) -> None:
    """Pause a consumer after each early answer without records, at most until the time its fetch named.

    Apache Kafka waits for that time. The embedded broker does not, and an idle consumer would fetch in a busy
    loop. The pause doubles until records come.
    """
    client = consumer._client  # noqa: SLF001 - all fetches of the consumer go through its `send`
    send, pause_s = client.send, _PAUSE_MIN_S

    async def send_paced(node_id: Any, request: Any, **options: Any) -> Any:
        nonlocal pause_s
        sent_s = perf_counter()
        response = await send(node_id, request, **options)
        if isinstance(request, FetchRequest):
            if any(data for _, partitions in response.topics for *_, data in partitions):
                pause_s = _PAUSE_MIN_S
            else:
                left_s = request._max_wait_ms / 1000 - (perf_counter() - sent_s)  # noqa: SLF001 - not public
                await asyncio.sleep(min(pause_s, max(left_s, 0)))
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        return response

    client.send = send_paced
