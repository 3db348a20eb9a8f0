"""Reading sessions back: from the changelog, committed, directly to its end.

Decides where a partition's changelog is read from and when its end is reached, and whether topics are those
that commits speak of. A worker recovers its partitions by it, and who wants rows from outside reads them by
it. Never writes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from apportion.kafka.commits import CommittedOffset, read_commits
from apportion.kafka.faults import OffsetOutOfRangeError
from apportion.kafka.groupless_consumer import (
    FETCH_MAX_BYTES,
    SLICE,
    Offsets,
    ends_of,
    named,
    open_reader,
    patiently,
    read_to,
)
from apportion.kafka.record_batches import UnreadableRecord
from apportion.kafka.topics import changelog_topic
from apportion.settings import Settings
from apportion.stream.state.faults import (
    ChangelogDamagedError,
    ChangelogTruncatedError,
    RecoveryFailedError,
    UnreadableStateError,
)
from apportion.stream.state.row_format import UnreadableRowError
from apportion.stream.state.rows import PartitionRows
from apportion.stream.state.topic_identity import require_same_requests


def partition_rows(settings: Settings, partition: int) -> PartitionRows:
    """Return the rows of a partition, none of them read yet."""
    place = f"{changelog_topic(settings)} partition {partition}"
    return PartitionRows(place, settings.max_lateness_s)


async def recover(settings: Settings, rows: Mapping[int, PartitionRows]) -> None:
    """Bring partitions' rows to their changelogs' ends.

    They go on behind what they contain already. May be cancelled: what was read then is contained.

    Raises:
        ChangelogTruncatedError, OffsetOutOfRangeError, RequestsReplacedError: the topics are not those that
            commits and rows speak of, or requests are gone that no row has seen.
        ArtifactMissingError, UnreadableStateError: the changelog is incomplete, or a newer version's.
        ChangelogDamagedError: a record of it cannot be read.
        RecoveryFailedError: nothing more could be read for `recovery_timeout_s`.
    """
    if not rows:
        return
    places = ", ".join(f"{changelog_topic(settings)} partition {partition}" for partition in sorted(rows))
    try:
        async with _while_it_moves(settings.recovery_timeout_s) as moved:
            commits = await read_commits(settings, rows)
            async with open_reader(settings, "read_uncommitted") as asking:
                await _require_offsets(settings, asking, commits)
                ends = await _checked_ends(settings, asking, rows, commits)
                await _read(settings, rows, ends, moved)
                seen = {partition: last for partition, held in rows.items() if (last := held.last_seen)}
                await require_same_requests(asking, settings.requests_topic, seen)
                uncommitted = {n: offset for n, (offset, _) in seen.items() if commits[n].offset is None}
                await _require_following(settings, asking, uncommitted)
    except TimeoutError:
        raise RecoveryFailedError(places, f"nothing moved for {settings.recovery_timeout_s:g} s") from None
    except KafkaError as error:
        raise RecoveryFailedError(places, str(error) or type(error).__name__) from error


async def read_rows(
    settings: Settings, partitions: Collection[int], end_offsets: Mapping[int, int] | None = None
) -> dict[int, PartitionRows]:
    """Return the rows of partitions as they stand in the changelog, up to its end or to before these offsets.

    For who looks on from outside: nothing is compared with commits.

    Raises:
        ArtifactMissingError, UnreadableStateError: the changelog is incomplete, or a newer version's.
        ChangelogDamagedError: a record of it cannot be read.
        KafkaError: it could not be read.
        TimeoutError: nothing more could be, for `recovery_timeout_s`.
    """
    rows = {partition: partition_rows(settings, partition) for partition in partitions}
    async with _while_it_moves(settings.recovery_timeout_s) as moved:
        async with open_reader(settings, "read_uncommitted") as asking:
            ends = await patiently(asking.end_offsets, _places(changelog_topic(settings), rows))
        wanted = end_offsets or {}
        until = {place: min(end, wanted.get(place.partition, end)) for place, end in ends.items()}
        await _read(settings, rows, until, moved)
    return rows


@asynccontextmanager
async def _while_it_moves(within_s: float) -> AsyncIterator[Callable[[], None]]:
    """Yield what is to be told of each step forward; raises TimeoutError where none was made for so long."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(within_s) as deadline:
        yield lambda: deadline.reschedule(loop.time() + within_s)


async def _read(
    settings: Settings, rows: Mapping[int, PartitionRows], ends: Offsets, moved: Callable[[], None]
) -> None:
    """Read from behind what the rows contain to the ends."""
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
    """Take records in, but for those behind the end.

    Raises:
        ChangelogDamagedError, UnreadableStateError: one cannot be read, or is a newer version's.
    """
    if records[-1].offset >= end_offset:
        records = [record for record in records if record.offset < end_offset]
    require_readable(place, records)
    try:
        rows.read(records)
    except UnreadableRowError as error:
        raise UnreadableStateError(named(place), str(error)) from None


async def _checked_ends(
    settings: Settings,
    asking: AIOKafkaConsumer,
    rows: Mapping[int, PartitionRows],
    commits: Mapping[int, CommittedOffset],
) -> Offsets:
    """Return the changelogs' ends, which are not before what was once durable there.

    Those of all records, not of the committed ones: behind an open transaction others may have written.
    """
    topic = changelog_topic(settings)
    expected = {
        TopicPartition(topic, partition): max(
            held.changelog_offset, commits[partition].metadata.changelog_end_offset
        )
        for partition, held in rows.items()
    }
    ends = await ends_of(asking, expected)
    for place, offset in expected.items():
        if ends[place] < offset and not settings.sessions_afresh:
            raise ChangelogTruncatedError(named(place), offset, ends[place])
    return ends


async def _require_offsets(
    settings: Settings, asking: AIOKafkaConsumer, commits: Mapping[int, CommittedOffset]
) -> None:
    """Pass if the requests topic has the offsets that are committed."""
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


def require_readable(place: TopicPartition, records: Iterable[ConsumerRecord]) -> None:
    """Pass if each of these records of a changelog can be read.

    Raises:
        ChangelogDamagedError: one cannot be.
    """
    for record in records:
        if isinstance(record, UnreadableRecord):
            raise ChangelogDamagedError(named(place), record.offset, record.reason)


async def _require_following(
    settings: Settings, asking: AIOKafkaConsumer, seen_offsets: Mapping[int, int]
) -> None:
    """Pass if the requests topic begins no later than behind the last offsets that rows have seen.

    For partitions without a commit, which are read from their beginning: brokers let commits expire, and may
    have removed requests in the same time.

    Raises:
        OffsetOutOfRangeError: requests that no row has seen are gone.
    """
    topic = settings.requests_topic
    offsets = {TopicPartition(topic, partition): seen + 1 for partition, seen in seen_offsets.items()}
    begins = await patiently(asking.beginning_offsets, offsets)
    for place, offset in offsets.items():
        if begins[place] > offset:
            ends = await patiently(asking.end_offsets, [place])
            raise OffsetOutOfRangeError(named(place), offset, begins[place], ends[place])


def _places(topic: str, partitions: Collection[int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in partitions]
