"""Record batches from fetched bytes: all readable records, and one placeholder for an unreadable batch."""

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord
from hypothesis import given
from hypothesis import strategies as st
from support.batches import (
    CODECS,
    CONTROL,
    GZIP,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LZ4,
    SNAPPY,
    TIME_MS,
    TRANSACTIONAL,
    ZSTD,
    bomb,
    nullable,
    raw_batch,
    raw_record,
    sealed,
    varint,
)
from support.hostile import DEAR_BATCHES, HOSTILE_BATCHES, with_damaged_delta, with_headers

from apportion.shell.kafka.decompression import Decompressor
from apportion.shell.kafka.record_batches import FetchedRecords, UnreadableRecord, record_of

PLACE = TopicPartition("context-requests", 3)
MAX_BYTES = 1 << 20
END = 1_000


def good(offset: int, count: int = 1, codec: int = 0, **options: Any) -> bytes:
    """Return a batch of records with values that name their offsets."""
    records = [raw_record(delta, b"k", b"v%d" % (offset + delta)) for delta in range(count)]
    return raw_batch(records, offset, codec=codec, **options)


def fetched(
    *batches: bytes, offset: int = 0, end: int = END, aborted: Iterable[tuple[int, int]] = ()
) -> FetchedRecords:
    return FetchedRecords(PLACE, b"".join(batches), offset, end, Decompressor(MAX_BYTES), aborted)


def told(records: Iterable[ConsumerRecord]) -> list[tuple[int, str]]:
    """Return offset and value of each, or the reason."""
    return [
        (
            record.offset,
            record.reason if isinstance(record, UnreadableRecord) else (record.value or b"").decode(),
        )
        for record in records
    ]


def flipped(data: bytes, place: int, mask: int = 1) -> bytes:
    return data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]


HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
RECORDS = st.lists(
    st.tuples(
        st.integers(0, 3),  # offsets that compaction left out before it
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=200),
        HEADERS,
        st.integers(-1_000, 1 << 40),
    ),
    min_size=1,
    max_size=6,
)
BATCHES = st.lists(
    st.tuples(
        RECORDS,
        st.sampled_from(sorted(CODECS)),
        st.sampled_from([0, LOG_APPEND_TIME, TRANSACTIONAL, TRANSACTIONAL | LOG_APPEND_TIME]),
        st.sampled_from([-1, 7, 8]),
    ),
    min_size=1,
    max_size=4,
)


@given(
    BATCHES, st.integers(0, 12), st.lists(st.tuples(st.sampled_from([7, 8]), st.integers(0, 9)), max_size=2)
)
def test_well_formed_batches_give_what_aiokafka_reads(
    batches: list[Any], behind: int, aborted: list[tuple[int, int]]
) -> None:
    data, offset, ends = b"", 0, []
    for records, codec, attributes, producer_id in batches:
        delta, raw = -1, []
        for gap, key, value, headers, delta_ms in records:
            delta += 1 + gap
            named = [(name.encode(), content) for name, content in headers]
            raw.append(raw_record(delta, key, value, named, delta_ms))
        data += raw_batch(
            raw, offset, codec=codec, attributes=attributes, last_delta=delta, producer_id=producer_id
        )
        offset += delta + 1
        ends.append(offset)
        if attributes & TRANSACTIONAL and any(one == producer_id for one, _ in aborted):
            marker = raw_record(0, b"\0\0\0\0", b"\0\0\0\0\0\0")
            data += raw_batch([marker], offset, attributes=CONTROL | TRANSACTIONAL, producer_id=producer_id)
            offset += 1
    begin = min(behind, ends[0] - 1)
    expected = PartitionRecords(
        PLACE,
        MemoryRecords(data),
        list(aborted),
        begin,
        key_deserializer=None,
        value_deserializer=None,
        check_crcs=True,
        isolation_level=READ_COMMITTED,
    )
    read = fetched(data, offset=begin, aborted=aborted)
    assert list(read) == list(expected)
    assert read.next_fetch_offset == expected.next_fetch_offset == offset


@pytest.mark.parametrize("codec", CODECS)
def test_a_header_name_that_is_not_utf_8_costs_its_own_record(codec: int) -> None:
    records = [
        raw_record(0, b"k", b"before"),
        raw_record(1, b"k", b"bad", [(b"ok", b"1"), (b"\xff\xfe", b"2")]),
        raw_record(2, b"k", b"behind"),
    ]
    before, bad, behind = fetched(raw_batch(records, codec=codec))
    assert told([before, behind]) == [(0, "before"), (2, "behind")]
    record = record_of(bad)
    assert (record.offset, record.timestamp_ms, record.key, record.value) == (1, TIME_MS, b"k", b"bad")
    assert record.headers == (("ok", b"1"), ("��", b"2"))
    assert record.unreadable == "the name of a header is not UTF-8"
    assert record_of(before).unreadable == ""


START = b"\0" + varint(0) + varint(1) + nullable(b"k") + nullable(b"v")
RECORD_FAULTS = {
    "a value that is longer than its record": nullable(START[:-1]),
    "a negative number of headers": nullable(START + varint(-1)),
    "a header without a name": nullable(START + varint(1) + nullable(None) + nullable(b"")),
    "a record that is longer than what it has": nullable(START + varint(0) + b"!"),
    "a record of one byte": nullable(b"\0"),
    "an empty record": nullable(b""),
    "a record that ends before its offset": nullable(b"\0\0"),
    "an endless number": nullable(b"\0" + b"\xff" * 11),
    "an offset before its batch": raw_record(-1, b"k", b"v"),
    "an offset that was there": raw_record(0, b"k", b"v"),
    "an offset behind its batch": raw_record(3, b"k", b"v"),
    "a time out of range": raw_record(1, b"k", b"v", delta_ms=(1 << 63) - 1),
}


@pytest.mark.parametrize("codec", [0, LZ4])
@pytest.mark.parametrize("bad", RECORD_FAULTS.values(), ids=RECORD_FAULTS)
def test_a_fault_in_a_record_costs_its_own_offset(bad: bytes, codec: int) -> None:
    records = [raw_record(0, b"k", b"before"), bad, raw_record(2, b"k", b"behind")]
    read = fetched(raw_batch(records, codec=codec), good(3))
    before, unreadable, *behind = read
    assert isinstance(unreadable, UnreadableRecord)
    assert unreadable.offset == 1
    assert told([before, *behind]) == [(0, "before"), (2, "behind"), (3, "v3")]


LENGTH_FAULTS = {
    "a record with a negative length": ([raw_record(0, b"k", b"v"), varint(-5)], 3),
    "a record that is longer than its batch": ([raw_record(0, b"k", b"v"), varint(99) + b"x"], 3),
    "fewer records than it says": ([raw_record(0, b"k", b"v")], 3),
    "more records than it says": ([raw_record(delta, b"k", b"v") for delta in range(3)], 1),
}


@pytest.mark.parametrize(("records", "count"), LENGTH_FAULTS.values(), ids=LENGTH_FAULTS)
def test_bytes_after_a_wrong_length_are_one_unreadable_record(records: list[bytes], count: int) -> None:
    read = list(fetched(raw_batch(records, count=count, last_delta=2), good(3)))
    reason = "its batch has records of wrong lengths (offsets 1 to 2)"
    assert told(read) == [(0, "v"), (2, reason), (3, "v3")]


BATCH_FAULTS = {
    "a checksum": flipped(good(5, 2), 17),
    "a bit of a value": flipped(good(5, 2), -3),
    "the number of records, unsealed": flipped(good(5, 2), 60),
    "the last offset, up": flipped(good(5, 2), 26, 8),
    "the last offset, beyond the end": flipped(good(5, 2), 24),
    "the last offset, negative": flipped(good(5, 2), 23, 0x80),
    "the base offset, up": flipped(good(5, 2), 7, 2),
    "the base offset, down": flipped(good(5, 2), 7, 4),
    "the base offset, beyond the end": flipped(good(5, 2), 1),
    "the format": flipped(good(5, 2), 16),
    "an unknown codec": raw_batch([], 5, attributes=6, body=b"x" * 20, count=2, last_delta=1),
    "no gzip": raw_batch([], 5, codec=GZIP, body=b"x" * 20, count=2, last_delta=1),
    "no snappy": raw_batch([], 5, codec=SNAPPY, body=b"x" * 20, count=2, last_delta=1),
    "no lz4": raw_batch([], 5, codec=LZ4, body=b"x" * 20, count=2, last_delta=1),
    "no zstd": raw_batch([], 5, codec=ZSTD, body=b"x" * 20, count=2, last_delta=1),
    "a block of negative length": raw_batch(
        [], 5, codec=SNAPPY, body=CODECS[SNAPPY](b"x")[:16] + b"\xff" * 4, count=2, last_delta=1
    ),
    "a cut block": raw_batch([], 5, codec=SNAPPY, body=CODECS[SNAPPY](b"x" * 99)[:-2], count=2, last_delta=1),
}


@pytest.mark.parametrize("bad", BATCH_FAULTS.values(), ids=BATCH_FAULTS)
def test_an_unreadable_batch_is_one_unreadable_record_at_its_last_offset(bad: bytes) -> None:
    read = fetched(good(3, 2), bad, good(7), offset=3)
    records = list(read)
    if read.next_fetch_offset == 5:  # its header cannot be trusted: the next answer begins with it
        damaged = fetched(bad, good(7), offset=5)
        assert damaged.begins_damaged
        read = fetched(good(7), offset=7)
        records += [*damaged, *read]
    assert [record.offset for record in records if isinstance(record, UnreadableRecord)] == [6]
    assert [record.offset for record in records] == [3, 4, 6, 7]
    assert read.next_fetch_offset == 8


@pytest.mark.parametrize("length", [-1, 0, 48, 1 << 30], ids=str)
def test_a_length_that_makes_no_sense_is_passed_offset_by_offset(length: int) -> None:
    bad = good(5)[:8] + length.to_bytes(4, "big", signed=True) + good(5)[12:]
    read = fetched(good(4), bad, good(6), offset=4)
    assert told(read) == [(4, "v4")]  # what follows may be cut off, and is fetched again
    assert read.next_fetch_offset == 5
    read = fetched(bad, good(6), offset=5)
    assert told(read) == [(5, "the length of its batch is wrong")]
    assert read.next_fetch_offset == 6


def test_a_length_that_leads_into_the_next_batch_costs_no_record_of_that() -> None:
    bad = flipped(good(5, 2), 11, 1)
    read = fetched(bad, good(7), offset=5)
    assert [record.offset for record in read] == [6]
    assert read.next_fetch_offset == 7


def test_a_damaged_last_batch_is_fetched_again() -> None:
    bad = flipped(good(5, 2), 26, 8)  # claims to end at offset 14
    read = fetched(good(4), bad, offset=4)
    assert told(read) == [(4, "v4")]
    assert read.next_fetch_offset == 5


def test_a_damaged_batch_at_the_end_of_its_partition_is_one_unreadable_record() -> None:
    read = fetched(flipped(good(5, 2), 17), offset=5, end=7)
    assert [record.offset for record in read] == [6]
    assert read.next_fetch_offset == 7


@pytest.mark.parametrize("cut", [1, HEADER_BYTES - 1, HEADER_BYTES + 1])
def test_a_batch_that_a_fetch_cut_off_is_left_for_the_next(cut: int) -> None:
    read = fetched(good(0), good(1)[:cut])
    assert told(read) == [(0, "v0")]
    assert read.next_fetch_offset == 1


def test_compacted_batches_are_read_and_passed() -> None:
    empty = raw_batch([], 2, last_delta=4, body=b"")
    assert told(fetched(good(0), empty, good(9))) == [(0, "v0"), (9, "v9")]
    alone = fetched(empty, offset=2)
    assert list(alone) == []
    assert alone.next_fetch_offset == 7


def test_an_unreadable_batch_of_an_aborted_transaction_is_left_out() -> None:
    bad = raw_batch([], 1, attributes=TRANSACTIONAL | 6, body=b"x", last_delta=0, producer_id=7)
    marker = raw_batch([b"no marker"], 2, attributes=CONTROL | TRANSACTIONAL, producer_id=7)
    after = good(3, attributes=TRANSACTIONAL, producer_id=7)
    assert told(fetched(good(0), bad, marker, after, aborted=[(7, 1)])) == [(0, "v0"), (3, "v3")]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_batch_over_the_bound_is_not_read(codec: int) -> None:
    nearly = MAX_BYTES - 100
    fits = nearly + MAX_BYTES - len(raw_record(0, b"default/s", bytes(nearly)))
    assert [len(record.value) for record in fetched(bomb(fits, codec))] == [fits]
    (record,) = fetched(bomb(fits + 1, codec))
    assert isinstance(record, UnreadableRecord)
    assert "1048576 bytes (batch_decompressed_max_bytes)" in record.reason


def test_many_batches_below_the_bound_are_not_all_decompressed_at_once() -> None:
    record = raw_record(0, b"k", bytes(MAX_BYTES - 100))
    batches = [raw_batch([record], offset, codec=ZSTD) for offset in range(20)]
    read = fetched(*batches)
    assert [record.offset for record in read] == [0, 1]
    assert read.next_fetch_offset == 2
    again = fetched(*batches[2:], offset=read.next_fetch_offset)
    assert [record.offset for record in again] == [2, 3]


@pytest.mark.parametrize("delta", [0, 1, 3, 400])
def test_a_wrong_last_offset_takes_no_offset_of_other_batches_along(delta: int) -> None:
    bad = with_damaged_delta(good(5, 3), delta)
    records: list[ConsumerRecord] = []
    read = fetched(bad, offset=5)
    while read.next_fetch_offset < 8:
        records += read
        assert read.next_fetch_offset <= 8
        read = fetched(bad, offset=read.next_fetch_offset)
    assert records[-1].offset == 7
    assert all(isinstance(record, UnreadableRecord) for record in records)


def test_a_wrong_number_of_records_takes_no_offset_of_other_batches_along() -> None:
    bad = flipped(good(5, 3), 59)
    read = fetched(bad, offset=5)
    assert [record.offset for record in read] == [7]


def test_a_record_of_more_than_1_000_headers_is_unreadable_and_keeps_key_and_value() -> None:
    many, at_most = with_headers(1_001), with_headers(1_000, delta=1)
    refused, read = fetched(raw_batch([many, at_most], codec=ZSTD))
    assert (record_of(refused).key, record_of(refused).value, refused.headers) == (b"default/s", b"{}", ())
    assert record_of(refused).unreadable == "it has 1001 headers, more than 1000"
    assert (type(read) is UnreadableRecord, len(read.headers)) == (False, 1_000)


def test_a_batch_of_over_100_000_records_is_unreadable_and_not_decompressed() -> None:
    full = raw_batch([], body=b"", count=100_000, last_delta=99_999)
    over = raw_batch([], codec=ZSTD, body=b"no zstd", count=100_001, last_delta=100_000)
    assert told(fetched(full, end=1 << 20)) == [
        (99_999, "its batch has records of wrong lengths (offsets 0 to 99999)")
    ]
    reason = "its batch has 100001 records, more than 100000 (offsets 0 to 100000)"
    assert told(fetched(over, end=1 << 20)) == [(100_000, reason)]


def test_a_fetch_gives_objects_up_to_a_bound_and_the_next_fetch_gives_the_others() -> None:
    batch = raw_batch([with_headers(1_000, delta=delta) for delta in range(300)], codec=ZSTD)
    offsets: list[int] = []
    for _ in range(4):
        read = fetched(batch, good(300), offset=len(offsets))
        offsets += [record.offset for record in read]
        assert read.next_fetch_offset == len(offsets)
    assert offsets == list(range(301))


BOMB = """
import sys
from pathlib import Path
from aiokafka import TopicPartition
from apportion.shell.kafka.decompression import Decompressor
from apportion.shell.kafka.record_batches import FetchedRecords

def resident_max_kib():  # what getrusage says begins with that of the parent process
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

data, position = open(sys.argv[1], "rb").read(), 0
decompressor, end = Decompressor(32 << 20), int(sys.argv[2])
before = resident_max_kib()
while position < end:
    read = FetchedRecords(TopicPartition("t", 0), data, position, end, decompressor)
    list(read)
    position = read.next_fetch_offset
print(resident_max_kib() - before)
"""
BOMBS = {
    **{f"200 MiB by codec {codec}": partial(bomb, 200 << 20, codec) for codec in (GZIP, SNAPPY, LZ4, ZSTD)},
    **HOSTILE_BATCHES,
    **DEAR_BATCHES,
}


@pytest.mark.parametrize("make", BOMBS.values(), ids=BOMBS)
def test_no_batch_costs_more_than_64_mib(make: Callable[[], bytes], tmp_path: Any) -> None:
    path, data = tmp_path / "batch", make()
    path.write_bytes(data)
    end = 1 + int.from_bytes(data[23:27], "big")
    run = [sys.executable, "-c", BOMB, str(path), str(end)]
    grown = subprocess.run(  # noqa: S603 - our own interpreter
        run, check=True, capture_output=True, text=True, timeout=120, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert int(grown.stdout) <= 64 << 10  # KiB


def test_no_damaged_byte_makes_it_raise_or_stop() -> None:
    random = Random(1)  # noqa: S311 - no secret: it must come again
    for number in range(3_000):
        codec = number % 6 % 5
        batches = [good(0, 2, codec), good(2, 3, codec), good(5, 1, codec)]
        data = bytearray(b"".join(batches))
        for _ in range(random.choice((1, 1, 2, 9))):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        if number % 2:
            data[17:21] = sealed(bytes(data[: len(batches[0])]))[17:21]
        read = fetched(bytes(data), end=6)
        offsets = [record.offset for record in read]
        assert offsets == sorted(set(offsets))
        assert 0 < read.next_fetch_offset <= 6


def test_an_unread_fetch_releases_its_data() -> None:
    """A damaged one is fetched again: a thousand of them would keep a gigabyte."""
    gc.disable()
    try:
        records = fetched(flipped(good(0), HEADER_BYTES))
        assert records.begins_damaged
        kept = weakref.ref(records)
        del records
        assert kept() is None
    finally:
        gc.enable()
