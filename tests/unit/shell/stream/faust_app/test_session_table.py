"""Faust's view of the sessions: the rows of the partitions that are ours, for as long as they are."""

from collections.abc import Iterable

import pytest
from faust.types import TP

from apportion.core.session.row import EMPTY
from apportion.settings import Settings
from apportion.shell.stream.faults import PartitionNotOursError
from apportion.shell.stream.faust_app.app import create_app
from apportion.shell.stream.faust_app.session_table import RowStore, SessionTable
from apportion.shell.stream.state.row_format import Row

pytestmark = pytest.mark.asyncio

KEY = b"default/s"
CHANGELOG = "apportion-sessions-changelog"


async def table_of(*partitions: int) -> SessionTable:
    app = create_app(Settings())
    await assign(app.sessions.data, partitions)
    return app.sessions


async def assign(rows: RowStore, partitions: Iterable[int]) -> None:
    topics = (CHANGELOG, "context-requests")
    await rows.on_rebalance({TP(topic, n) for topic in topics for n in partitions}, set(), set(), 1)


async def test_one_key_has_a_row_in_each_partition() -> None:
    table = await table_of(0, 1)
    table.rows_of(0).hold(KEY, Row(1, EMPTY))
    table.rows_of(1).hold(KEY, Row(9, EMPTY))
    assert [table.rows_of(partition).row(KEY) for partition in (0, 1)] == [Row(1, EMPTY), Row(9, EMPTY)]
    assert {partition: len(rows) for partition, rows in table.by_partition.items()} == {0: 1, 1: 1}


async def test_partitions_that_are_taken_away_take_their_rows_with_them() -> None:
    table = await table_of(0, 1)
    for partition in (0, 1):
        table.rows_of(partition).hold(KEY, Row(5, EMPTY))
    await assign(table.data, [1])
    with pytest.raises(PartitionNotOursError, match="partition 0 "):
        table.rows_of(0)
    assert table.rows_of(1).row(KEY) == Row(5, EMPTY)
    await assign(table.data, [0, 1])
    assert table.rows_of(0).row(KEY) is None
