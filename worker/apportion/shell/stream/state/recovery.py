"""Recovery of session rows: committed records are read from the changelog to its end.

It also checks that the topics match the commits. Workers recover their partitions with it; tools read rows
with it from outside.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from apportion.settings import Settings
from apportion.shell.kafka.commit_metadata import NOTHING_KNOWN
from apportion.shell.kafka.commits import CommittedOffset, read_commits
from apportion.shell.kafka.faults import OffsetOutOfRangeError
from apportion.shell.kafka.groupless_consumer import (
    FETCH_MAX_BYTES,
    SLICE,
    Offsets,
    ends_of,
    named,
    open_reader,
    patiently,
    read_to,
)
from apportion.shell.kafka.record_batches import UnreadableRecord
from apportion.shell.kafka.topics import changelog_topic
from apportion.shell.stream.state.faults import (
    ChangelogDamagedError,
    ChangelogTruncatedError,
    ForeignCommitError,
    RecoveryFailedError,
)
from apportion.shell.stream.state.row_format import UnreadableRowError
from apportion.shell.stream.state.rows import PartitionRows
from apportion.shell.stream.state.topic_identity import Seen, require_same_requests


def partition_rows(settings: Settings, partition: int) -> PartitionRows:
    """Return empty rows for a partition."""
    place = f"{changelog_topic(settings)} partition {partition}"
    return PartitionRows(place, settings.max_lateness_s)


async def recover(settings: Settings, rows: Mapping[int, PartitionRows]) -> None:
    """Read partitions' rows to the ends of their changelogs, from the offset that they already contain.

    If it is cancelled, the rows contain what was read until then.

    Raises:
        ChangelogTruncatedError, OffsetOutOfRangeError, RequestsReplacedError: the topics do not match the
            commits and rows, or requests are gone that no row has seen.
        ForeignCommitError: another client's commit would pass over requests.
        ArtifactMissingError, UnreadableStateError: the changelog is incomplete, or of a newer version.
        ChangelogDamagedError, ForeignRecordError: a record of the changelog cannot be read, or is no row.
        RecoveryFailedError: nothing could be read for `recovery_timeout_s`.
    """
    if not rows:
        return
    places = ", ".join(f"{changelog_topic(settings)} partition {partition}" for partition in sorted(rows))
    try:
        async with _while_it_moves(settings.recovery_timeout_s) as moved:
            commits = await read_commits(settings, rows)
            for partition, own in rows.items():
                own.committed_by = commits[partition].metadata.worker
            async with open_reader(settings, "read_uncommitted") as asking:
                await _require_offsets(settings, asking, commits)
                ends = await _checked_ends(settings, asking, rows, commits)
                await _read(settings, rows, ends, moved)
                seen = {partition: last for partition, own in rows.items() if (last := own.last_seen)}
                await require_same_requests(asking, settings.requests_topic, seen)
                if not settings.accept_foreign_commits:
                    await _require_own_commits(settings, asking, commits, seen)
                uncommitted = {n: offset for n, (offset, _) in seen.items() if commits[n].offset is None}
                await _require_following(settings, asking, uncommitted)
    except TimeoutError:
        raise RecoveryFailedError(places, f"nothing moved for {settings.recovery_timeout_s:g} s") from None
    except KafkaError as error:
        raise RecoveryFailedError(places, str(error) or type(error).__name__) from error


async def read_rows(
    settings: Settings, partitions: Collection[int], end_offsets: Mapping[int, int] | None = None
) -> dict[int, PartitionRows]:
    """Return the rows of partitions from the changelog, up to its end or to before the given end offsets.

    For tools outside of the group: nothing is compared with commits.

    Raises:
        ArtifactMissingError, UnreadableStateError: the changelog is incomplete, or of a newer version.
        ChangelogDamagedError: a record of the changelog cannot be read.
        KafkaError: the changelog could not be read.
        TimeoutError: nothing could be read for `recovery_timeout_s`.
    """
    rows = {partition: partition_rows(settings, partition) for partition in partitions}
    async with _while_it_moves(settings.recovery_timeout_s) as moved:
        async with open_reader(settings, "read_uncommitted") as asking:
            ends = await patiently(
                asking.end_offsets, [TopicPartition(changelog_topic(settings), n) for n in rows]
            )
        wanted = end_offsets or {}
        until = {place: min(end, wanted.get(place.partition, end)) for place, end in ends.items()}
        await _read(settings, rows, until, moved)
    return rows


@asynccontextmanager
async def _while_it_moves(within_s: float) -> AsyncIterator[Callable[[], None]]:
    """Yield a function to call at each progress; raises TimeoutError after `within_s` without progress."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(within_s) as deadline:
        yield lambda: deadline.reschedule(loop.time() + within_s)


async def _read(
    settings: Settings, rows: Mapping[int, PartitionRows], ends: Offsets, moved: Callable[[], None]
) -> None:
    """Read from the offset that the rows contain to the ends."""
    async with open_reader(settings, "read_committed", FETCH_MAX_BYTES) as reader:
        begins = await patiently(reader.beginning_offsets, ends)
        reader.assign(list(ends))
        for place, end in ends.items():
            reader.seek(place, max(begins[place], min(end, rows[place.partition].changelog_offset)))
        async for place, records, position, has_moved in read_to(reader, ends, max_records=SLICE):
            if has_moved:
                moved()
            if records:
                _take(rows[place.partition], place, records, ends[place])
            if position >= ends[place]:
                rows[place.partition].join(ends[place], afresh=settings.sessions_afresh)
                reader.pause(place)


def _take(
    rows: PartitionRows, place: TopicPartition, records: Sequence[ConsumerRecord], end_offset: int
) -> None:
    """Add records to rows, except for those at or after the end offset."""
    if records[-1].offset >= end_offset:
        records = [record for record in records if record.offset < end_offset]
    require_readable(place, records)
    try:
        rows.read(records)
    except UnreadableRowError as error:
        raise rows.unreadable(error) from None


async def _checked_ends(
    settings: Settings,
    asking: AIOKafkaConsumer,
    rows: Mapping[int, PartitionRows],
    commits: Mapping[int, CommittedOffset],
) -> Offsets:
    """Return the changelogs' ends, which must not be before offsets that were durable.

    These are the ends of all records, not of the committed ones, because others may have written after an
    open transaction.
    """
    topic = changelog_topic(settings)
    expected = {
        TopicPartition(topic, partition): max(
            own.changelog_offset, commits[partition].metadata.changelog_end_offset
        )
        for partition, own in rows.items()
    }
    ends = await ends_of(asking, expected)
    for place, offset in expected.items():
        if ends[place] < offset and not settings.sessions_afresh:
            raise ChangelogTruncatedError(named(place), offset, ends[place])
    return ends


async def _require_offsets(
    settings: Settings, asking: AIOKafkaConsumer, commits: Mapping[int, CommittedOffset]
) -> None:
    """Check that the requests topic has the committed offsets."""
    topic = settings.requests_topic
    offsets = {
        TopicPartition(topic, partition): commit.offset
        for partition, commit in commits.items()
        if commit.offset is not None
    }
    begins, ends = await patiently(asking.beginning_offsets, offsets), await ends_of(asking, offsets)
    for place, offset in offsets.items():
        if not begins[place] <= offset <= ends[place]:
            raise OffsetOutOfRangeError(named(place), offset, begins[place], ends[place])


async def _require_own_commits(
    settings: Settings,
    asking: AIOKafkaConsumer,
    commits: Mapping[int, CommittedOffset],
    seen: Mapping[int, Seen],
) -> None:
    """Check that a commit without a worker's metadata passes over no request that sessions have not seen."""
    foreign = {
        TopicPartition(settings.requests_topic, partition): commit.offset
        for partition, commit in commits.items()
        if commit.offset is not None and commit.metadata == NOTHING_KNOWN
    }
    begins = await patiently(asking.beginning_offsets, foreign)
    for place, offset in foreign.items():
        first = max(begins[place], seen[place.partition][0] + 1 if place.partition in seen else 0)
        if offset > first:
            raise ForeignCommitError(named(place), offset, first)


def require_readable(place: TopicPartition, records: Iterable[ConsumerRecord]) -> None:
    """Check that the client could read each of these records of a changelog.

    Raises:
        ChangelogDamagedError: a record could not be read.
    """
    for record in records:
        if isinstance(record, UnreadableRecord):
            raise ChangelogDamagedError(named(place), record.offset, record.reason)


async def _require_following(
    settings: Settings, asking: AIOKafkaConsumer, seen_offsets: Mapping[int, int]
) -> None:
    """Check that the requests topic still has the offsets that follow the last ones that rows have seen.

    For partitions without a commit, which are read from their beginning. Brokers let commits expire, and may
    have removed requests in the same time.
    """
    topic = settings.requests_topic
    offsets = {TopicPartition(topic, partition): seen + 1 for partition, seen in seen_offsets.items()}
    begins = await patiently(asking.beginning_offsets, offsets)
    for place, offset in offsets.items():
        if begins[place] > offset:
            ends = await patiently(asking.end_offsets, [place])
            raise OffsetOutOfRangeError(named(place), offset, begins[place], ends[place])
