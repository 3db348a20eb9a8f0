"""Parser of fetched record batches that replaces damaged records by an `UnreadableRecord` and continues.

aiokafka's own parser raises at the first fault and loses the records before it. Format: "Record Batch" in
Kafka's protocol documentation; only the current version (magic 2) is read.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple, TypeAlias

from aiokafka import TopicPartition
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import ConsumerRecord

from apportion.core.wire.record import Record
from apportion.shell.kafka.decompression import Decompressor, NotDecompressedError

Buffer: TypeAlias = bytes | memoryview
"""Records of a batch; large decompressed data are a view, to avoid a copy."""

_HEADER = Struct(">qiibIhiqqqhii")
_LENGTH_END = 12
"""End of a batch's length field, from which the length counts."""
_CRC_END = 21
_MAGIC = 2
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_VARINT_MAX_BITS = 63
HEADERS_MAX = 1_000
"""Maximum headers of a readable record; a header takes 2 bytes or more encoded, and 200 as an object."""
RECORDS_MAX = 100_000
"""Maximum records of a readable batch; 32 MiB hold as many of 335 bytes. Each costs an answer."""
_GIVEN_MAX_BYTES = 16 << 20
"""Estimated memory of the records of one fetch; only the last record may exceed it."""
_COPIED_MAX_BYTES = 1 << 20
_RECORD_BYTES, _RECORD_HEADER_BYTES = 500, 200
"""Estimated memory of a record and of a header as objects, in addition to their bytes."""
_NAME_CHARACTER_BYTES = 5
"""Maximum memory of a character of a header's name: up to four bytes, and its UTF-8."""
_TIMES_MS = range(-(2**63), 2**63)


@dataclass
class UnreadableRecord(ConsumerRecord):  # type: ignore[misc] # aiokafka has no types
    """An unreadable record, or the replacement of several at their last offset; may have key and value."""

    reason: str = ""


def record_of(read: ConsumerRecord) -> Record:
    """Convert a record to the core's type."""
    return Record(
        read.topic,
        read.partition,
        read.offset,
        -1 if read.timestamp is None else read.timestamp,
        read.key,
        read.value,
        tuple(read.headers),
        read.reason if isinstance(read, UnreadableRecord) else "",
    )


class _EncodedBatch(NamedTuple):
    """The header of a batch, and its range in the fetched bytes."""

    start: int
    end: int
    base_offset: int
    magic: int
    crc: int
    attributes: int
    last_offset: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    record_count: int


class FetchedRecords:
    """The records of one fetch of a partition, in offset order; replaces aiokafka's `PartitionRecords`."""

    def __init__(
        self,
        partition: TopicPartition,
        data: bytes,
        fetch_offset: int,
        end_offset: int,
        decompressor: Decompressor,
        aborted: Iterable[tuple[int, int]] = (),
    ) -> None:
        """Parse data from `fetch_offset` on; batches of `aborted` (producer id, first offset) are left out.

        The partition ends before `end_offset`; a batch beyond that end counts as damaged.
        """
        self.next_fetch_offset = fetch_offset
        """The offset of the next fetch, after the records that were returned so far."""
        self._partition = partition
        self._data = data
        self._end_offset = end_offset
        self._decompressor = decompressor
        self._aborted = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        self._aborted_producers: set[int] = set()
        self._given_bytes = 0
        first = self._batch_at(0)
        self._first_fault = self._fault(first) if first else "the length of its batch is wrong"
        self._records: Iterator[ConsumerRecord] | None = None

    @property
    def begins_damaged(self) -> bool:
        """Whether the first batch has a wrong length, checksum, format or offset."""
        return bool(self._data and self._first_fault)

    def __iter__(self) -> "FetchedRecords":
        return self

    def __next__(self) -> ConsumerRecord:
        if self._records is None:
            self._records = self._read()  # not in `__init__`, because the reference cycle would keep the data
        return next(self._records)

    def _read(self) -> Iterator[ConsumerRecord]:
        """Yield records until the data end or a limit of one fetch is reached; the rest is fetched again."""
        # Step 1: a damaged first batch becomes one unreadable record; the next fetch begins after it.
        if self._first_fault:
            if self._data:
                yield self._unreadable_range(self._last_offset_of_damaged(), self._first_fault)
            return
        start = decompressed_bytes = 0
        # Step 2: read whole batches. A later damaged batch ends the fetch, and is first in the next one.
        while decompressed_bytes <= self._decompressor.max_bytes:
            batch = self._batch_at(start)
            if batch is None or (start and self._fault(batch)):
                return
            if self._is_left_out(batch):
                self.next_fetch_offset = batch.last_offset + 1
            else:
                try:
                    body = self._body(batch)
                except NotDecompressedError as error:
                    yield self._unreadable_range(batch.last_offset, str(error))
                else:
                    decompressed_bytes += len(body)
                    yield from self._records_of(batch, body)
                    del body  # free the memory before the next batch is decompressed
                    if not self._has_room:
                        return
                    self.next_fetch_offset = batch.last_offset + 1
            start = batch.end

    @property
    def _has_room(self) -> bool:
        return self._given_bytes < _GIVEN_MAX_BYTES

    def _batch_at(self, start: int) -> _EncodedBatch | None:
        """Return the header of the batch at an index of the data; None if it is incomplete or too short."""
        if len(self._data) - start < _HEADER.size:
            return None
        base, length, _, magic, crc, attributes, delta, first, latest, producer, _, _, count = (
            _HEADER.unpack_from(self._data, start)
        )
        end = start + _LENGTH_END + length
        if length < _HEADER.size - _LENGTH_END or end > len(self._data):
            return None
        return _EncodedBatch(
            start, end, base, magic, crc, attributes, base + delta, first, latest, producer, count
        )

    def _fault(self, batch: _EncodedBatch) -> str:
        """Return why a batch is damaged; empty if it is not."""
        if not self._is_whole(batch):
            return "its batch is damaged (checksum or format)"
        if not self._is_in_place(batch):
            return "its batch has offsets that do not fit into its partition"
        return ""

    def _is_whole(self, batch: _EncodedBatch) -> bool:
        data = memoryview(self._data)[batch.start + _CRC_END : batch.end]
        return batch.magic == _MAGIC and calc_crc32c(data.tobytes()) == batch.crc

    def _is_in_place(self, batch: _EncodedBatch) -> bool:
        """Return whether a batch's offsets fit; the checksum does not cover the base offset."""
        position = self.next_fetch_offset
        if not position <= batch.last_offset < self._end_offset or batch.last_offset < batch.base_offset:
            return False
        if batch.base_offset <= position:
            return batch.start == 0 or batch.base_offset == position
        following = self._batch_at(batch.end)  # compaction may leave a gap, but no other batch is inside it
        return following is None or not position < following.base_offset <= batch.last_offset

    def _last_offset_of_damaged(self) -> int:
        """Return the last offset of a damaged first batch, or an earlier offset in it.

        It is bounded by a whole batch that follows, otherwise by the damaged batch's last offset and number
        of records. So one wrong field skips no offsets of other batches.
        """
        batch, position = self._batch_at(0), self.next_fetch_offset
        if batch is None:
            return position
        following = self._batch_at(batch.end)
        said = batch.last_offset if position <= batch.last_offset < self._end_offset else None
        if following and position < following.base_offset < self._end_offset and self._is_whole(following):
            before = following.base_offset - 1
            return before if said is None else min(before, said)
        if said is None:
            return position
        count = min(batch.record_count, batch.last_offset - batch.base_offset + 1)
        return max(position, min(said, position + count - 1))

    def _is_left_out(self, batch: _EncodedBatch) -> bool:
        while self._aborted and self._aborted[-1][1] <= batch.base_offset:
            self._aborted_producers.add(self._aborted.pop()[0])
        if batch.attributes & _CONTROL:
            self._aborted_producers.discard(batch.producer_id)
            return True
        return bool(batch.attributes & _TRANSACTIONAL) and batch.producer_id in self._aborted_producers

    def _body(self, batch: _EncodedBatch) -> Buffer:
        """Return the decompressed records of a batch; raise NotDecompressedError."""
        if batch.record_count > RECORDS_MAX:
            raise NotDecompressedError(f"its batch has {batch.record_count} records, more than {RECORDS_MAX}")
        start, codec = batch.start + _HEADER.size, batch.attributes & _CODEC
        if codec == 0:
            return self._data[start : batch.end]
        return self._decompressor.decompress(codec, memoryview(self._data)[start : batch.end])

    def _records_of(self, batch: _EncodedBatch, body: Buffer) -> Iterator[ConsumerRecord]:
        start, offset = 0, batch.base_offset
        for _ in range(batch.record_count):
            if offset > batch.last_offset:
                return
            try:
                length, begin = _varint(body, start)
            except IndexError:
                length, begin = -1, 0
            start = begin + length
            if length < 0 or start > len(body):
                start = -1
                break
            record = self._record(batch, offset, body, begin, start)
            offset = record.offset + 1
            if record.offset >= self.next_fetch_offset:
                self.next_fetch_offset = offset
                objects_bytes = _RECORD_BYTES + _RECORD_HEADER_BYTES * len(record.headers)
                objects_bytes += _NAME_CHARACTER_BYTES * sum([len(name) for name, _ in record.headers])
                self._given_bytes += start - begin + objects_bytes
                yield record
                if not self._has_room:
                    return
        if start != len(body) and max(offset, self.next_fetch_offset) <= batch.last_offset:
            yield self._unreadable_range(batch.last_offset, "its batch has records of wrong lengths")

    def _record(
        self, batch: _EncodedBatch, expected_offset: int, data: Buffer, begin: int, end: int
    ) -> ConsumerRecord:
        """Parse the record in `data[begin:end]`, which has the expected offset or a later one."""
        if isinstance(data, memoryview) and end - begin <= _COPIED_MAX_BYTES:
            data, begin, end = bytes(data[begin:end]), 0, end - begin  # parsed in half the time of a view
        offset = expected_offset
        try:
            delta_ms, at = _varint(data, begin + 1)
            offset_delta, at = _varint(data, at)
            said = batch.base_offset + offset_delta
            fits = at <= end and expected_offset <= said <= batch.last_offset
            if not fits or said < self.next_fetch_offset:  # records before the position are not returned
                reason = "its length or offset does not fit into its batch"
                return self._unreadable(said if fits else offset, reason)
            offset = said
            by_broker = bool(batch.attributes & _LOG_APPEND_TIME)
            timestamp = batch.max_timestamp if by_broker else batch.first_timestamp + delta_ms
            if timestamp not in _TIMES_MS:
                return self._unreadable(offset, "its timestamp is out of range")
            key, at = _nullable_bytes(data, at, end)
            value, at = _nullable_bytes(data, at, end)
            header_count, at = _varint(data, at)
            if header_count > HEADERS_MAX:
                reason = f"it has {header_count} headers, more than {HEADERS_MAX}"
                return self._unreadable(offset, reason, timestamp, key, value)
            headers = _headers(data, at, end, header_count)
        except (IndexError, ValueError):
            return self._unreadable(offset, "its key, value or headers have wrong lengths")
        try:
            named = tuple([(name.decode(), content) for name, content in headers])
        except UnicodeDecodeError:
            named = tuple([(name.decode(errors="replace"), content) for name, content in headers])
            reason = "the name of a header is not UTF-8"
            return self._unreadable(offset, reason, timestamp, key, value, named)
        topic, partition = self._partition
        key_size, value_size = -1 if key is None else len(key), -1 if value is None else len(value)
        return ConsumerRecord(
            topic, partition, offset, timestamp, int(by_broker), key, value, None, key_size, value_size, named
        )

    def _unreadable_range(self, last_offset: int, reason: str) -> UnreadableRecord:
        """Replace all records from the position to an offset by one record at that offset, and skip them."""
        first_offset = self.next_fetch_offset
        self.next_fetch_offset = last_offset + 1
        if first_offset < last_offset:
            reason += f" (offsets {first_offset} to {last_offset})"
        return self._unreadable(last_offset, reason)

    def _unreadable(
        self,
        offset: int,
        reason: str,
        timestamp: int = -1,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> UnreadableRecord:
        sizes = -1 if key is None else len(key), -1 if value is None else len(value)
        return UnreadableRecord(
            *self._partition, offset, timestamp, 0, key, value, None, *sizes, headers, reason=reason
        )


def _varint(data: Buffer, at: int) -> tuple[int, int]:
    """Return a zigzag number, and the index after it; raise IndexError if it does not end in ten bytes."""
    byte = data[at]
    at += 1
    number = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift > _VARINT_MAX_BITS:
            raise IndexError("a number has too many bytes")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), at


def _nullable_bytes(data: Buffer, at: int, data_end: int) -> tuple[bytes | None, int]:
    """Return length-prefixed bytes or None, and the index after them; raise IndexError or ValueError."""
    length, at = _varint(data, at)
    if length < 0:
        return None, at
    end = at + length
    if end > data_end:
        raise ValueError("the data end before that")
    return bytes(data[at:end]), end


def _headers(data: Buffer, at: int, data_end: int, count: int) -> list[tuple[bytes, bytes | None]]:
    """Return the names and values of `count` headers; raise IndexError or ValueError if they do not fit."""
    if count < 0:
        raise ValueError("a negative number of headers")
    headers = []
    for _ in range(count):
        name, at = _nullable_bytes(data, at, data_end)
        if name is None:
            raise ValueError("a header without a name")
        value, at = _nullable_bytes(data, at, data_end)
        headers.append((name, value))
    if at != data_end:
        raise ValueError("a record is longer than what it has")
    return headers
