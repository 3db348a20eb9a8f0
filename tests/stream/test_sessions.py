"""The table's rows are held by partition, for as long as the partition is ours."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from apportion.core.session import EMPTY
from apportion.settings import Settings
from apportion.stream.app import create_app
from apportion.stream.faults import PartitionNotOursError
from apportion.stream.rows import Row, encode_row
from apportion.stream.sessions import Rows, SessionTable

pytestmark = pytest.mark.asyncio

KEY = b"default/s"
CHANGELOG = "apportion-sessions-changelog"


async def table_of(*partitions: int) -> SessionTable:
    table = create_app(Settings()).sessions
    await assign(table.data, partitions)
    return table


async def assign(rows: Rows, partitions: Iterable[int]) -> None:
    topics = (CHANGELOG, "context-requests")
    await rows.on_rebalance({TP(topic, n) for topic in topics for n in partitions}, set(), set(), 1)


def recovered(partition: int, offset: int, value: bytes | None, key: bytes = KEY) -> Any:
    message = SimpleNamespace(partition=partition, offset=offset, key=key, value=value)
    return SimpleNamespace(message=message)


def apply(table: SessionTable, *events: Any) -> None:
    table.apply_changelog_batch(events)


async def test_one_key_has_a_row_in_each_partition() -> None:
    table = await table_of(0, 1)
    for partition in (0, 1):
        apply(table, recovered(partition, 5, encode_row(Row(partition, EMPTY))))
    assert [table.rows_of(partition).row(KEY) for partition in (0, 1)] == [Row(0, EMPTY), Row(1, EMPTY)]
    assert table.row_counts == {0: 1, 1: 1}


async def test_what_was_recovered_is_held_in_the_order_of_the_changelog() -> None:
    table = await table_of(0)
    apply(table, *(recovered(0, offset, encode_row(Row(offset, EMPTY))) for offset in (3, 4)))
    assert table.rows_of(0).row(KEY) == Row(4, EMPTY)
    apply(table, recovered(0, 5, None))
    assert table.row_counts == {0: 0}


async def test_partitions_that_are_taken_away_take_their_rows_with_them() -> None:
    table = await table_of(0, 1)
    for partition in (0, 1):
        apply(table, recovered(partition, 5, encode_row(Row(5, EMPTY))))
    await assign(table.data, [1])
    with pytest.raises(PartitionNotOursError, match="partition 0 "):
        table.rows_of(0)
    assert table.rows_of(1).row(KEY) == Row(5, EMPTY)
    await assign(table.data, [0, 1])
    assert table.rows_of(0).row(KEY) is None


async def test_recovery_goes_on_behind_what_is_held_and_starts_anew_where_nothing_is() -> None:
    table = await table_of(0, 1)
    place = TP(CHANGELOG, 0)
    assert table.persisted_offset(place) == -1
    apply(table, recovered(0, 5, encode_row(Row(5, EMPTY))))
    assert table.persisted_offset(place) == 5
    table.rows_of(0).written(6, 7)
    assert table.persisted_offset(place) == 7
    await assign(table.data, [1])
    await assign(table.data, [0, 1])
    assert table.persisted_offset(place) == -1


async def test_rows_of_partitions_that_are_not_ours_are_not_held() -> None:
    table = await table_of(0)
    apply(table, recovered(1, 5, encode_row(Row(5, EMPTY))))
    await assign(table.data, [0, 1])
    assert table.rows_of(1).row(KEY) is None
    assert table.persisted_offset(TP(CHANGELOG, 1)) == -1
