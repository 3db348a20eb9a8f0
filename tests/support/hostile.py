"""Record batches of a few KB that are meant to cost their reader memory or time, or to end it."""

from struct import pack

from support.batches import ZSTD, bomb, raw_batch, raw_record, varint, with_bad_header_name

KEY = b"default/s"
MANY = 200_000


def with_headers(count: int, headers: bytes | None = None, delta: int = 0, value: bytes = b"{}") -> bytes:
    """Return a record with so many headers, which are empty if none are given."""
    head = raw_record(delta, KEY, value)[1:-1]
    head = head if raw_record(delta, KEY, value)[0] < 0x80 else head[1:]
    body = head + varint(count) + (b"\0\0" * count if headers is None else headers)
    return varint(len(body)) + body


def _records(count: int, header_count: int = 0, header: bytes = b"\0\0") -> list[bytes]:
    return [with_headers(header_count, header * header_count, delta) for delta in range(count)]


def hostile_batches() -> dict[str, bytes]:
    """Return batches that brokers take, by what is wrong with them; none is answered."""
    return {
        "700,000 empty headers": raw_batch([with_headers(700_000)], codec=ZSTD),
        "16 million empty headers": raw_batch([with_headers(16_000_000)], codec=ZSTD),
        "1,001 headers": raw_batch([with_headers(1_001)], codec=ZSTD),
        "a header name that is not UTF-8": with_bad_header_name(b"{}"),
        "a bomb of 200 MiB": bomb(200 << 20),
        "31 MiB of spaces": raw_batch([raw_record(0, KEY, b" " * (31 << 20))], codec=ZSTD),
        "200,000 records": raw_batch(_records(MANY), codec=ZSTD),
        "a key of 3 MiB": raw_batch([raw_record(0, b"k" * (3 << 20), b"{}")], codec=ZSTD),
    }


def dear_batches() -> dict[str, bytes]:
    """Return batches that are within all bounds, and near to them."""
    return {
        "500 records with 1,000 headers": raw_batch(_records(500, 1_000, b"\4ab\4cd"), codec=ZSTD),
        "30 records of 1 MiB": raw_batch([raw_record(n, KEY, bytes(1 << 20)) for n in range(30)], codec=ZSTD),
        "500 names that are not UTF-8": raw_batch(
            _records(100, 5, varint(40_000) + b"\xff" * 40_000 + b"\0"), codec=ZSTD
        ),
        "100,000 records": raw_batch(_records(100_000, 2, b"\4ab\4cd"), codec=ZSTD),
    }


def with_damaged_delta(batch: bytes, delta: int) -> bytes:
    """Return a batch that says another last offset, under its old checksum."""
    return batch[:23] + pack(">i", delta) + batch[27:]
