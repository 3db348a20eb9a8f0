"""Reading sessions back: to the ends of changelogs, and for as long as it moves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from apportion.core.session.row import EMPTY
from apportion.settings import Settings
from apportion.shell.kafka.topics import changelog_topic
from apportion.shell.stream.state import recovery
from apportion.shell.stream.state.row_format import Row, encode_row

pytestmark = pytest.mark.asyncio

SETTINGS = Settings()


@pytest.mark.parametrize("moves", [True, False])
async def test_rows_are_read_from_outside_for_as_long_as_it_moves(
    monkeypatch: pytest.MonkeyPatch, *, moves: bool
) -> None:
    """Recovery from a long changelog, and the timeout of a stuck one."""
    loop, steps = asyncio.get_running_loop(), 0
    real_s = loop.time
    monkeypatch.setattr(loop, "time", lambda: real_s() + steps * 0.9 * SETTINGS.recovery_timeout_s)

    async def ends(*_: object) -> dict[Any, int]:
        return {}

    async def read(_: object, __: object, ___: object, moved: Callable[[], None]) -> None:
        nonlocal steps
        while steps < 5:
            steps += 1
            if moves:
                moved()
            for _turn in range(3):  # in which a deadline that has passed is seen
                await asyncio.sleep(0)

    @asynccontextmanager
    async def asking(*_: object) -> AsyncIterator[Any]:
        yield SimpleNamespace(end_offsets=None)

    monkeypatch.setattr(recovery, "open_reader", asking)
    monkeypatch.setattr(recovery, "patiently", ends)
    monkeypatch.setattr(recovery, "_read", read)
    if moves:
        assert set(await recovery.read_rows(SETTINGS, [0])) == {0}
    else:
        with pytest.raises(TimeoutError):
            await recovery.read_rows(SETTINGS, [0])
    assert steps == (5 if moves else 2)


class Changelog:
    """A fake client of a changelog: a record at each offset, None for a transaction marker."""

    def __init__(self, *keys: bytes | None) -> None:
        self._keys = keys
        self._positions: dict[TopicPartition, int] = {}
        self.paused: list[TopicPartition] = []

    async def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, len(self._keys))

    def assign(self, places: list[TopicPartition]) -> None:
        self._positions = dict.fromkeys(places, 0)

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._positions[place] = offset

    def pause(self, place: TopicPartition) -> None:
        self.paused.append(place)

    async def position(self, place: TopicPartition) -> int:
        return self._positions[place]

    async def getmany(
        self, *places: TopicPartition, timeout_ms: int, max_records: int
    ) -> dict[TopicPartition, list[Any]]:
        assert timeout_ms > 0
        assert max_records > 0
        read = {}
        for place in places:
            first = self._positions[place]
            self._positions[place] = min(first + 2, len(self._keys))
            offsets = range(first, self._positions[place])
            read[place] = [record for offset in offsets if (record := self._record(offset))]
        return read

    def _record(self, offset: int) -> Any:
        key = self._keys[offset]
        value = encode_row(Row(offset, EMPTY, 0))
        return None if key is None else SimpleNamespace(offset=offset, key=key, value=value, headers=())


async def test_rows_are_read_to_the_end_of_each_changelog_and_not_behind_a_wanted_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changelog = Changelog(b"t/a", b"t/b", b"t/c", None, None)

    @asynccontextmanager
    async def reading(*_: object) -> AsyncIterator[Any]:
        yield changelog

    monkeypatch.setattr(recovery, "open_reader", reading)
    rows = await recovery.read_rows(SETTINGS, [0, 1], {1: 1})
    assert set(rows[0].values) == {b"t/a", b"t/b", b"t/c"}
    assert set(rows[1].values) == {b"t/a"}
    assert [rows[0].changelog_end, rows[1].changelog_end] == [5, 1]
    topic = changelog_topic(SETTINGS)
    assert changelog.paused == [TopicPartition(topic, 1), TopicPartition(topic, 0)]
