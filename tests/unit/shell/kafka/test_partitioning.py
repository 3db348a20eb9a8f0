"""A record belongs to its session's key and to that key's partition."""

import pytest
from aiokafka.partitioner import DefaultPartitioner
from hypothesis import given
from hypothesis import strategies as st
from support.composing import request

from apportion.core.errors import EventError
from apportion.core.wire.record import Record
from apportion.settings.value_types import Partitioner
from apportion.shell.kafka.partitioning import check_place, partition_of

KEY = b"default/s"


def record(key: bytes | None, partition: int) -> Record:
    return Record("t", partition, 0, 0, key, b"{}")


def refused(key: bytes | None, partition: int, partitioner: Partitioner = Partitioner.MURMUR2) -> EventError:
    with pytest.raises(EventError) as caught:
        check_place(request(), record(key, partition), partitioner, 4)
    return caught.value


@given(st.binary(min_size=1), st.integers(1, 64))
def test_murmur2_chooses_as_the_clients_of_java_and_aiokafka(key: bytes, partitions: int) -> None:
    everywhere = list(range(partitions))
    expected = DefaultPartitioner()(key, everywhere, everywhere)
    assert partition_of(key, Partitioner.MURMUR2, partitions) == expected


@pytest.mark.parametrize(
    ("key", "murmur2"),
    # the values of Kafka's own test, UtilsTest.java
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_kafkas_own_hashes(key: bytes, murmur2: int) -> None:
    assert partition_of(key, Partitioner.MURMUR2, 1_000_003) == (murmur2 & 0x7FFFFFFF) % 1_000_003


def test_crc32_chooses_as_librdkafka_does() -> None:
    # the check value of CRC-32/ISO-HDLC, which librdkafka's rd_crc32 is
    assert partition_of(b"123456789", Partitioner.CRC32, 1000) == 0xCBF43926 % 1000


def test_any_chooses_none() -> None:
    assert partition_of(KEY, Partitioner.ANY, 4) is None


@pytest.mark.parametrize("partitioner", [Partitioner.MURMUR2, Partitioner.CRC32])
def test_a_record_at_its_place_passes(partitioner: Partitioner) -> None:
    home = partition_of(KEY, partitioner, 4)
    assert home is not None
    check_place(request(), record(KEY, home), partitioner, 4)


def test_the_partitioner_any_accepts_every_partition() -> None:
    for partition in range(4):
        check_place(request(), record(KEY, partition), Partitioner.ANY, 4)


@pytest.mark.parametrize("key", [None, b"", b"s", b"other/s", b"default/s2", b"\xff"])
def test_a_wrong_key_is_refused_in_every_partition(key: bytes | None) -> None:
    for partitioner in Partitioner:
        error = refused(key, 0, partitioner)
        assert (error.code, error.pointer) == ("wrong_key", "$")


@pytest.mark.parametrize(
    ("partitioner", "setting"),
    [
        (Partitioner.MURMUR2, "partitioner=murmur2_random"),
        (Partitioner.CRC32, "partitioner=consistent_random"),
    ],
)
def test_another_partition_is_refused_with_the_producers_setting(
    partitioner: Partitioner, setting: str
) -> None:
    home = partition_of(KEY, partitioner, 4)
    assert home is not None
    error = refused(KEY, (home + 1) % 4, partitioner)
    assert (error.code, error.pointer) == ("wrong_partition", "$")
    assert setting in error.message
