"""Record batches made byte by byte, also such as no client would write."""

import struct
from collections.abc import Callable, Sequence
from time import time
from typing import Any

import cramjam
from aiokafka import TopicPartition
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from aiokafka.errors import for_code
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.util import calc_crc32c, encode_varint

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
HEADER_BYTES = 61
CODECS: dict[int, Callable[[bytes], bytes]] = {
    0: bytes,
    GZIP: gzip_encode,
    SNAPPY: snappy_encode,
    LZ4: lz4_encode,
    ZSTD: zstd_encode,
}
TIME_MS = round(time() * 1000)
"""The start of these tests: brokers remove records older than the retention time."""
RawHeaders = Sequence[tuple[bytes, bytes | None]]


def varint(number: int) -> bytes:
    """Return a number as records have it."""
    encoded = bytearray()
    encode_varint(number, encoded.append)
    return bytes(encoded)


def nullable(content: bytes | None) -> bytes:
    """Return bytes behind their length."""
    return varint(-1) if content is None else varint(len(content)) + content


def raw_record(
    delta: int, key: bytes | None, value: bytes | None, headers: RawHeaders = (), delta_ms: int = 0
) -> bytes:
    """Return a record with its length."""
    named = b"".join(nullable(name) + nullable(content) for name, content in headers)
    parts = (
        b"\0", varint(delta_ms), varint(delta), nullable(key), nullable(value), varint(len(headers)), named
    )  # fmt: skip
    return nullable(b"".join(parts))


def raw_batch(  # noqa: PLR0913 - the fields of a header, each to be set wrongly
    records: Sequence[bytes],
    base_offset: int = 0,
    *,
    codec: int = 0,
    attributes: int = 0,
    body: bytes | None = None,
    count: int | None = None,
    last_delta: int | None = None,
    producer_id: int = -1,
    time_ms: int = TIME_MS,
) -> bytes:
    """Return a batch with the right length and checksum; `body` replaces the compressed records."""
    content = CODECS[codec](b"".join(records)) if body is None else body
    count = len(records) if count is None else count
    delta = len(records) - 1 if last_delta is None else last_delta
    checked = struct.pack(
        ">hiqqqhii", attributes | codec, delta, time_ms, time_ms + 5, producer_id, -1, -1, count
    )
    return sealed(struct.pack(">qiibI", base_offset, 49 + len(content), 0, 2, 0) + checked + content)


def sealed(batch: bytes) -> bytes:
    """Return a batch with the checksum of its content."""
    return batch[:17] + struct.pack(">I", calc_crc32c(batch[21:])) + batch[21:]


def stamped(batch: bytes, time_ms: int) -> bytes:
    """Return a batch with other timestamps."""
    return sealed(batch[:27] + struct.pack(">qq", time_ms, time_ms) + batch[43:])


def bomb(size_bytes: int, codec: int = ZSTD) -> bytes:
    """Return a batch of one record, small as it travels, with a value of so many zeros."""
    record = raw_record(0, b"default/s", bytes(size_bytes))
    if codec == SNAPPY:
        return raw_batch([record], codec=codec, body=bytes(cramjam.snappy.compress_raw(record)))
    return raw_batch([record], codec=codec)


def with_bad_header_name(value: bytes, key: bytes | None = b"default/s", codec: int = 0) -> bytes:
    """Return a batch of one record with a header name that is not UTF-8."""
    return raw_batch([raw_record(0, key, value, [(b"\xff\xfe", b"x")])], codec=codec)


async def produce(client: Any, topic: str, partition: int, batch: bytes) -> int:
    """Write a batch as it is, and return the offset of its first record.

    Raises:
        KafkaError: the broker refuses it.
    """
    await client._wait_on_metadata(topic)
    leader = client.cluster.leader_for_partition(TopicPartition(topic, partition))
    response = await client.send(leader, ProduceRequest(None, -1, 10_000, [(topic, [(partition, batch)])]))
    ((_, ((_, error_code, offset, *_rest),)),) = response.topics
    if error_code:
        raise for_code(error_code)
    return int(offset)
