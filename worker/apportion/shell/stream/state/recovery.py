"""Recovery of session rows from the changelog, and checks that the topics match the commits."""

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
    where = f"{changelog_topic(settings)} partition {partition}"
    return PartitionRows(where, settings.max_lateness_s)


async def recover(settings: Settings, rows: Mapping[int, PartitionRows]) -> None:
    """Read partitions' rows from their present offsets to the ends of their changelogs.

    If it is cancelled, the rows keep the records that were read so far.

    Raises:
        ChangelogTruncatedError, OffsetOutOfRangeError, RequestsReplacedError: the topics do not match the
            commits and rows, or requests are gone that no row has seen.
        ForeignCommitError: another client's commit would pass over requests.
        ArtifactMissingError, UnreadableStateError: the changelog is incomplete, or of a newer version.
        ChangelogDamagedError, ForeignRecordError: a record of the changelog cannot be read, or is no row.
        RecoveryFailedError: nothing was read for `recovery_timeout_s`, or a client failed otherwise.
    """
    if not rows:
        return
    where = ", ".join(f"{changelog_topic(settings)} partition {partition}" for partition in sorted(rows))
    try:
        async with _while_it_moves(settings.recovery_timeout_s) as moved:
            commits = await read_commits(settings, rows)
            for partition, own in rows.items():
                own.committed_by = commits[partition].metadata.worker
            async with open_reader(settings, "read_uncommitted") as asking:
                committed = {
                    n: offset for n, commit in commits.items() if (offset := commit.offset) is not None
                }
                await _require_in_topic(settings, asking, committed)
                ends = await _checked_ends(settings, asking, rows, commits)
                await _read(settings, rows, ends, moved)
                seen = {partition: last for partition, own in rows.items() if (last := own.last_seen)}
                await require_same_requests(asking, settings.requests_topic, seen)
                if not settings.accept_foreign_commits:
                    await _require_own_commits(settings, asking, commits, seen)
                # A partition without a commit is read from its beginning. Commits expire, and requests may
                # have been deleted in the same time.
                uncommitted = {n: offset + 1 for n, (offset, _) in seen.items() if n not in committed}
                await _require_in_topic(settings, asking, uncommitted)
    except TimeoutError:
        raise RecoveryFailedError(where, f"nothing moved for {settings.recovery_timeout_s:g} s") from None
    except KafkaError as error:
        raise RecoveryFailedError(where, str(error) or type(error).__name__) from error


async def read_rows(
    settings: Settings, partitions: Collection[int], end_offsets: Mapping[int, int] | None = None
) -> dict[int, PartitionRows]:
    """Return the rows of partitions from the changelog, up to its end or to before the given end offsets.

    Nothing is compared with commits. Raises as `recover`, and KafkaError or TimeoutError.
    """
    rows = {partition: partition_rows(settings, partition) for partition in partitions}
    async with _while_it_moves(settings.recovery_timeout_s) as moved:
        async with open_reader(settings, "read_uncommitted") as asking:
            ends = await patiently(
                asking.end_offsets, [TopicPartition(changelog_topic(settings), n) for n in rows]
            )
        wanted = end_offsets or {}
        until = {partition: min(end, wanted.get(partition.partition, end)) for partition, end in ends.items()}
        await _read(settings, rows, until, moved)
    return rows


@asynccontextmanager
async def _while_it_moves(within_s: float) -> AsyncIterator[Callable[[], None]]:
    """Yield a function to call on progress; raises TimeoutError after `within_s` without a call."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(within_s) as deadline:
        yield lambda: deadline.reschedule(loop.time() + within_s)


async def _read(
    settings: Settings, rows: Mapping[int, PartitionRows], ends: Offsets, moved: Callable[[], None]
) -> None:
    """Read each partition from the `changelog_offset` of its rows to its end, and join the rows."""
    async with open_reader(settings, "read_committed", FETCH_MAX_BYTES) as reader:
        begins = await patiently(reader.beginning_offsets, ends)
        reader.assign(list(ends))
        for partition, end in ends.items():
            reader.seek(
                partition, max(begins[partition], min(end, rows[partition.partition].changelog_offset))
            )
        async for partition, records, position, has_moved in read_to(reader, ends, max_records=SLICE):
            if has_moved:
                moved()
            if records:
                _take(rows[partition.partition], partition, records, ends[partition])
            if position >= ends[partition]:
                rows[partition.partition].join(ends[partition], afresh=settings.sessions_afresh)
                reader.pause(partition)


def _take(
    rows: PartitionRows, partition: TopicPartition, records: Sequence[ConsumerRecord], end_offset: int
) -> None:
    if records[-1].offset >= end_offset:
        records = [record for record in records if record.offset < end_offset]
    require_readable(partition, records)
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
    """Return the changelogs' ends, and check that they are not before offsets that were durable.

    Nothing is checked if sessions may start afresh. `asking` must read uncommitted records, because other
    workers may have written after an open transaction.
    """
    topic = changelog_topic(settings)
    expected = {
        TopicPartition(topic, partition): max(
            own.changelog_offset, commits[partition].metadata.changelog_end_offset
        )
        for partition, own in rows.items()
    }
    ends = await ends_of(asking, expected)
    for partition, offset in expected.items():
        if ends[partition] < offset and not settings.sessions_afresh:
            raise ChangelogTruncatedError(named(partition), offset, ends[partition])
    return ends


async def _require_in_topic(settings: Settings, asking: AIOKafkaConsumer, offsets: Mapping[int, int]) -> None:
    """Check that the requests topic still has the next offset of each of these partitions."""
    nexts = {TopicPartition(settings.requests_topic, n): offset for n, offset in offsets.items()}
    begins, ends = await patiently(asking.beginning_offsets, nexts), await ends_of(asking, nexts)
    for partition, offset in nexts.items():
        if not begins[partition] <= offset <= ends[partition]:
            raise OffsetOutOfRangeError(named(partition), offset, begins[partition], ends[partition])


async def _require_own_commits(
    settings: Settings,
    asking: AIOKafkaConsumer,
    commits: Mapping[int, CommittedOffset],
    seen: Mapping[int, Seen],
) -> None:
    """Check that another client's commit skips no unprocessed request."""
    foreign = {
        TopicPartition(settings.requests_topic, partition): commit.offset
        for partition, commit in commits.items()
        if commit.offset is not None and commit.metadata == NOTHING_KNOWN
    }
    begins = await patiently(asking.beginning_offsets, foreign)
    for partition, offset in foreign.items():
        first = max(begins[partition], seen[partition.partition][0] + 1 if partition.partition in seen else 0)
        if offset > first:
            raise ForeignCommitError(named(partition), offset, first)


def require_readable(partition: TopicPartition, records: Iterable[ConsumerRecord]) -> None:
    """Raise ChangelogDamagedError if the client could not read one of these records of a changelog."""
    for record in records:
        if isinstance(record, UnreadableRecord):
            raise ChangelogDamagedError(named(partition), record.offset, record.reason)
