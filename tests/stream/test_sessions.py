"""Rows are held by partition, as the changelog has them, and only once it has them."""

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaTimeoutError
from faust.types import TP

from apportion.core.session import EMPTY
from apportion.settings import Settings
from apportion.stream.app import create_app
from apportion.stream.faults import PartitionNotOursError
from apportion.stream.sessions import Row, Rows, SessionTable, decode_row, encode_row

pytestmark = pytest.mark.asyncio

KEY = b"default/s"
CHANGELOG = "apportion-sessions-changelog"


class Producer:
    """Takes what is sent, and acknowledges it at the next offset, or not at all."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.acknowledging = True
        self.next_offset = 0

    async def send(self, *message: Any) -> "asyncio.Future[Any]":
        self.sent.append(message)
        acknowledged: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.acknowledging:
            acknowledged.set_result(SimpleNamespace(offset=self.next_offset))
            self.next_offset += 1
        else:
            acknowledged.set_exception(KafkaTimeoutError())
        return acknowledged


async def table_of(*partitions: int) -> tuple[SessionTable, Producer]:
    app = create_app(Settings())
    app.producer = producer = Producer()
    await assign(app.sessions.data, partitions)
    return app.sessions, producer


async def assign(rows: Rows, partitions: Iterable[int]) -> None:
    topics = (CHANGELOG, "context-requests")
    await rows.on_rebalance({TP(topic, n) for topic in topics for n in partitions}, set(), set(), 1)


def recovered(partition: int, offset: int, value: bytes | None, key: bytes = KEY) -> Any:
    message = SimpleNamespace(partition=partition, offset=offset, key=key, value=value)
    return SimpleNamespace(message=message)


def apply(table: SessionTable, *events: Any) -> None:
    table.apply_changelog_batch(events)


async def test_a_row_reads_back_as_it_was_written() -> None:
    table, producer = await table_of(0)
    row = Row(7, EMPTY)
    await table.assign(0, KEY, encode_row(row))
    assert table.row(0, KEY) == row
    assert producer.sent == [(CHANGELOG, KEY, encode_row(row), 0, None, [])]


async def test_a_row_is_not_held_unless_the_changelog_has_it() -> None:
    table, producer = await table_of(0)
    await table.assign(0, KEY, encode_row(Row(1, EMPTY)))
    producer.acknowledging = False
    with pytest.raises(KafkaTimeoutError):
        await table.assign(0, KEY, encode_row(Row(2, EMPTY)))
    assert table.row(0, KEY) == Row(1, EMPTY)


async def test_one_key_has_a_row_in_each_partition() -> None:
    table, _ = await table_of(0, 1)
    await table.assign(0, KEY, encode_row(Row(1, EMPTY)))
    await table.assign(1, KEY, encode_row(Row(9, EMPTY)))
    assert [table.row(partition, KEY) for partition in (0, 1)] == [Row(1, EMPTY), Row(9, EMPTY)]
    assert table.row_counts == {0: 1, 1: 1}


async def test_what_was_recovered_is_held_in_the_order_of_the_changelog() -> None:
    table, _ = await table_of(0)
    apply(table, *(recovered(0, offset, encode_row(Row(offset, EMPTY))) for offset in (3, 4)))
    assert table.row(0, KEY) == Row(4, EMPTY)
    apply(table, recovered(0, 5, None))
    assert table.row(0, KEY) is None
    assert table.row_counts == {0: 0}


async def test_partitions_that_are_taken_away_take_their_rows_with_them() -> None:
    table, _ = await table_of(0, 1)
    for partition in (0, 1):
        apply(table, recovered(partition, 5, encode_row(Row(5, EMPTY))))
    await assign(table.data, [1])
    with pytest.raises(PartitionNotOursError, match="partition 0 "):
        table.row(0, KEY)
    assert table.row(1, KEY) == Row(5, EMPTY)
    await assign(table.data, [0, 1])
    assert table.row(0, KEY) is None


async def test_recovery_goes_on_behind_what_is_held_and_starts_anew_where_nothing_is() -> None:
    table, producer = await table_of(0, 1)
    place = TP(CHANGELOG, 0)
    assert table.persisted_offset(place) == -1
    apply(table, recovered(0, 5, encode_row(Row(5, EMPTY))))
    assert table.persisted_offset(place) == 5
    producer.next_offset = 6
    await table.assign(0, KEY, encode_row(Row(6, EMPTY)))
    assert table.persisted_offset(place) == 6
    await assign(table.data, [1])
    await assign(table.data, [0, 1])
    assert table.persisted_offset(place) == -1


async def test_what_somebody_else_wrote_between_our_rows_is_read_again() -> None:
    table, producer = await table_of(0)
    apply(table, recovered(0, 5, encode_row(Row(5, EMPTY))))
    producer.next_offset = 8
    await table.assign(0, KEY, encode_row(Row(6, EMPTY)))
    await table.assign(0, KEY, encode_row(Row(7, EMPTY)))
    assert table.persisted_offset(TP(CHANGELOG, 0)) == 5


async def test_rows_of_partitions_that_are_not_ours_are_not_held() -> None:
    table, _ = await table_of(0)
    apply(table, recovered(1, 5, encode_row(Row(5, EMPTY))))
    await table.assign(1, KEY, encode_row(Row(5, EMPTY)))
    await assign(table.data, [0, 1])
    assert table.row(1, KEY) is None
    assert table.persisted_offset(TP(CHANGELOG, 1)) == -1


async def test_a_row_travels_as_json() -> None:
    assert encode_row(Row(7, EMPTY)) == b'{"seen_offset":7,"session":{}}'
    assert decode_row(b'{"seen_offset":7,"session":{}}') == Row(7, EMPTY)
