"""Gaps in the changelog: rows of other writers are read, and newer rows are written again."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError
from msgspec import Struct
from support.pipeline_stage import KEY, PipelineStage, read

from apportion.core.session.row import EMPTY
from apportion.settings import Settings
from apportion.shell.operations import metrics
from apportion.shell.operations.numbers import Numbers
from apportion.shell.stream.pipeline import gaps
from apportion.shell.stream.pipeline.batch import BatchBounds
from apportion.shell.stream.pipeline.gaps import GapWatch
from apportion.shell.stream.pipeline.writer import Writing, count_rows
from apportion.shell.stream.state.faults import UnreadableStateError
from apportion.shell.stream.state.row_format import Row, StateRecord, encode_row, seen_offset_of

pytestmark = pytest.mark.asyncio

SETTINGS = Settings(partitions=1)
OTHER = b"default/t"


class Stored(Struct):
    """A record of the changelog, as a client gives it."""

    offset: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Sent(Struct):
    """A record batch that the broker has acknowledged."""

    offset: int
    records: int


class Changelog:
    """A fake changelog and its client. A record of None is a transaction marker."""

    def __init__(self) -> None:
        self.records: list[StateRecord | None] = []
        self.is_away = False
        self.position_ = 0

    def append(self, *records: StateRecord | None) -> Sent:
        self.records += records
        return Sent(len(self.records) - len(records), len(records))

    async def beginning_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    async def end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        if self.is_away:
            raise KafkaConnectionError
        return dict.fromkeys(places, len(self.records))

    def assign(self, places: Iterable[TopicPartition]) -> None:
        [_] = places

    def seek(self, _: TopicPartition, offset: int) -> None:
        self.position_ = offset

    async def position(self, _: TopicPartition) -> int:
        return self.position_

    async def getmany(
        self, place: TopicPartition, *, timeout_ms: int, max_records: int
    ) -> dict[TopicPartition, list[Stored]]:
        assert timeout_ms > 0
        assert max_records > 0
        offset, self.position_ = self.position_, self.position_ + 1
        record = self.records[offset]
        return {place: [Stored(offset, *record)]} if record else {}


class Writes:
    """Writes rows alone, at once."""

    moves_offsets = False

    def __init__(self, changelog: Changelog) -> None:
        self.changelog = changelog

    def begin(self, writing: Writing) -> None:
        """Send nothing."""

    async def finish(self, writing: Writing) -> None:
        records = [record for group in writing.batch.states for record in group]
        sent: list[Any] = [self.changelog.append(*records)]
        count_rows(writing.rows, sent)

    def abandon(self, writing: Writing) -> None:
        """Withdraw no record."""


class Stage(PipelineStage):
    """A pipeline that writes to a changelog, and a watch over its gaps."""

    def __init__(self) -> None:
        self.changelog = Changelog()
        super().__init__(SETTINGS, BatchBounds(work_s=60.0))
        self.numbers = Numbers()
        self.watch = GapWatch(SETTINGS, self.pipeline, self.numbers)

    def new_writer(self) -> Any:
        return Writes(self.changelog)

    async def written(self) -> None:
        await self.until(lambda: not self.pipeline.in_flight)

    @property
    def last_seen(self) -> int:
        """The seen offset of the session's last row, which compaction keeps."""
        values = [record[1] for record in self.changelog.records if record and record[0] == KEY]
        return seen_offset_of(values[-1] or b"")

    @property
    def counts(self) -> tuple[float, float]:
        """The counts of gaps and late records."""
        families = {family.name: family for family in self.numbers.collect()}
        names = [
            metric.name.removesuffix("_total") for metric in (metrics.CHANGELOG_GAPS, metrics.LATE_RECORDS)
        ]
        gap_count, late_count = [families[name].samples[0].value for name in names]
        return gap_count, late_count


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage()

    @asynccontextmanager
    async def open_reader(*_: object) -> AsyncIterator[Changelog]:
        yield made.changelog

    monkeypatch.setattr(gaps, "open_reader", open_reader)
    return made


def row(seen_offset: int, key: bytes = KEY) -> StateRecord:
    return key, encode_row(Row(seen_offset, EMPTY)), ()


async def test_a_late_row_between_two_batches_is_found_and_the_newer_row_written_again(stage: Stage) -> None:
    await stage.answer(read(3))
    await stage.written()
    stage.changelog.append(row(1))
    stage.changelog.append(row(9, OTHER))
    await stage.answer(read(4), read(5))
    await stage.written()
    stage.changelog.append(row(2))
    await stage.watch.look()
    await stage.written()
    assert stage.last_seen == 5
    assert stage.counts == (2, 2)
    await stage.watch.look()
    await stage.written()
    assert stage.counts == (2, 2), "a gap is looked into once"
    assert stage.rows.row(OTHER) is None, "what others have answered is left to a recovery"


async def test_a_repair_without_events_changes_no_offset(stage: Stage) -> None:
    await stage.answer(read(3))
    await stage.written()
    before = stage.pipeline.committable()
    stage.changelog.append(row(1))
    await stage.watch.look()
    await stage.written()
    assert stage.last_seen == 3
    assert [offset for offset, _ in stage.pipeline.committable().values()] == [4]
    assert [offset for offset, _ in before.values()] == [4]


async def test_markers_of_transactions_are_not_counted_as_a_gap(stage: Stage) -> None:
    await stage.answer(read(3))
    await stage.written()
    stage.changelog.append(None, None)
    await stage.watch.look()
    assert stage.counts == (0, 0)
    assert not stage.rows.gaps


async def test_brokers_that_are_away_leave_a_gap_to_the_next_look(stage: Stage) -> None:
    await stage.answer(read(3))
    await stage.written()
    stage.changelog.append(row(1))
    stage.changelog.is_away = True
    await stage.watch.look()
    assert stage.last_seen == 1
    stage.changelog.is_away = False
    await stage.watch.look()
    await stage.written()
    assert stage.last_seen == 3


async def test_a_row_of_a_newer_version_in_a_gap_ends_the_worker(stage: Stage) -> None:
    await stage.answer(read(3))
    await stage.written()
    key, value, _ = row(9)
    stage.changelog.append((key, b"\x03" + (value or b"")[1:], ()))
    with pytest.raises(UnreadableStateError, match="version 3"):
        await stage.watch.look()
