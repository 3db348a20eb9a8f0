"""Reading sessions back: from the changelog, committed, directly to its end.

Decides where a partition's changelog is read from and when its end is reached, and whether topics are those
that commits speak of. A worker recovers its partitions by it, and who wants rows from outside reads them by
it. Never writes.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from aiokafka.structs import ConsumerRecord

from apportion.settings import Settings
from apportion.stream.commits import Commit, read_commits
from apportion.stream.connection import connection_arguments
from apportion.stream.faults import OffsetOutOfRangeError
from apportion.stream.row_format import UnreadableRowError
from apportion.stream.rows import PartitionRows
from apportion.stream.state_faults import (
    ChangelogTruncatedError,
    RecoveryFailedError,
    RequestsReplacedError,
    UnreadableStateError,
)
from apportion.stream.topics import changelog_topic

_FETCH_MAX_BYTES = 4 << 20
"""The client has what it receives three times for a moment; larger ones are no faster."""
_PARTITION_FETCH_MAX_BYTES = 1 << 20
_ASKING_MAX_BYTES = 64 << 10
_POLL_MS = 20
"""How long a read waits: behind the last row may stand what is no record, such as markers of transactions."""
_FETCH_WAIT_MS = 100
_SLICE = 500
"""How many records are taken at once, while all else that the worker does waits."""
_LAG_S = 5.0
"""How long an end that is too early is asked for again: a new leader may not know better at first."""
_AGAIN_S = 0.2

Offsets = Mapping[TopicPartition, int]


def partition_rows(settings: Settings, partition: int) -> PartitionRows:
    """Return the rows of a partition, none of them read yet."""
    place = f"{changelog_topic(settings)} partition {partition}"
    return PartitionRows(place, settings.max_lateness_s)


async def recover(settings: Settings, rows: Mapping[int, PartitionRows]) -> None:
    """Bring partitions' rows to their changelogs' ends.

    They go on behind what they contain already. May be cancelled: what was read then is contained.

    Raises:
        ChangelogTruncatedError, OffsetOutOfRangeError, RequestsReplacedError: the topics are not those that
            commits and rows speak of.
        ArtifactMissingError, UnreadableStateError: the changelog is incomplete, or a newer version's.
        RecoveryFailedError: nothing more could be read for `recovery_timeout_s`.
    """
    if not rows:
        return
    places = ", ".join(f"{changelog_topic(settings)} partition {partition}" for partition in sorted(rows))
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(settings.recovery_timeout_s) as deadline:

            def moved() -> None:
                deadline.reschedule(loop.time() + settings.recovery_timeout_s)

            commits = await read_commits(settings, rows)
            async with _reader(settings, "read_uncommitted") as asking:
                await _require_offsets(settings, asking, commits)
                ends = await _checked_ends(settings, asking, rows, commits)
                await _read(settings, rows, ends, moved)
                await _require_same_requests(settings, asking, rows)
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
        KafkaError, TimeoutError: it could not be read within `recovery_timeout_s`.
    """
    rows = {partition: partition_rows(settings, partition) for partition in partitions}
    async with asyncio.timeout(settings.recovery_timeout_s):
        async with _reader(settings, "read_uncommitted") as asking:
            ends = await _patiently(asking.end_offsets, _places(changelog_topic(settings), rows))
        wanted = end_offsets or {}
        until = {place: min(end, wanted.get(place.partition, end)) for place, end in ends.items()}
        await _read(settings, rows, until, lambda: None)
    return rows


async def _read(
    settings: Settings, rows: Mapping[int, PartitionRows], ends: Offsets, moved: Callable[[], None]
) -> None:
    """Read from behind what the rows contain to the ends."""
    async with _reader(settings, "read_committed", _PARTITION_FETCH_MAX_BYTES) as reader:
        begins = await _patiently(reader.beginning_offsets, ends)
        reader.assign(list(ends))
        for place, end in ends.items():
            reader.seek(place, max(begins[place], min(end, rows[place.partition].changelog_offset)))
        waiting, passed = sorted(ends), -1
        while waiting:
            positions = {place: await reader.position(place) for place in waiting}
            if passed != (passed := sum(positions.values())):
                moved()
            for place in [place for place in waiting if positions[place] >= ends[place]]:
                rows[place.partition].join(ends[place], afresh=settings.sessions_afresh)
                reader.pause(place)
                waiting.remove(place)
            if waiting:
                batches = await reader.getmany(*waiting, timeout_ms=_POLL_MS, max_records=_SLICE)
                for place, records in batches.items():
                    _take(rows[place.partition], place, records, ends[place])
            await asyncio.sleep(0)  # the client gives what it has without letting anybody else have a turn


def _take(
    rows: PartitionRows, place: TopicPartition, records: Sequence[ConsumerRecord], end_offset: int
) -> None:
    """Take records in, but for those behind the end."""
    if records[-1].offset >= end_offset:
        records = [record for record in records if record.offset < end_offset]
    try:
        rows.read(records)
    except UnreadableRowError as error:
        raise UnreadableStateError(_name(place), str(error)) from None


async def _checked_ends(
    settings: Settings,
    asking: AIOKafkaConsumer,
    rows: Mapping[int, PartitionRows],
    commits: Mapping[int, Commit],
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
    ends = await _ends(asking, expected)
    for place, offset in expected.items():
        if ends[place] < offset and not settings.sessions_afresh:
            raise ChangelogTruncatedError(_name(place), offset, ends[place])
    return ends


async def _require_offsets(
    settings: Settings, asking: AIOKafkaConsumer, commits: Mapping[int, Commit]
) -> None:
    """Pass if the requests topic has the offsets that are committed."""
    topic = settings.requests_topic
    offsets = {
        TopicPartition(topic, partition): commit.offset
        for partition, commit in commits.items()
        if commit.offset is not None
    }
    begins, ends = await _patiently(asking.beginning_offsets, offsets), await _ends(asking, offsets)
    for place, offset in offsets.items():
        if not begins[place] <= offset <= ends[place]:
            raise OffsetOutOfRangeError(_name(place), offset, begins[place], ends[place])


async def _require_same_requests(
    settings: Settings, asking: AIOKafkaConsumer, rows: Mapping[int, PartitionRows]
) -> None:
    """Pass if the last records that rows have seen are those that stand there, as far as they are there yet.

    Commits do not tell: with a topic, brokers remove what was committed of it.
    """
    seen = {
        TopicPartition(settings.requests_topic, partition): last
        for partition, held in rows.items()
        if (last := held.last_seen) is not None
    }
    begins = await _patiently(asking.beginning_offsets, seen)
    ends = await _ends(asking, {place: offset + 1 for place, (offset, _) in seen.items()})
    known = {}
    for place, (offset, timestamp_ms) in seen.items():
        if offset >= ends[place]:
            raise RequestsReplacedError(_name(place), offset, f"it ends at {ends[place]}")
        if offset >= begins[place] and timestamp_ms >= 0:
            known[place] = offset
    for place, record in (await _records_at(asking, known)).items():
        offset, timestamp_ms = seen[place]
        if record.timestamp != timestamp_ms:
            why = f"that record was of time {timestamp_ms}, not {record.timestamp}"
            raise RequestsReplacedError(_name(place), offset, why)


async def _ends(asking: AIOKafkaConsumer, expected: Offsets) -> Offsets:
    """Return the ends of partitions; of one whose leader is new, what it knows after a while."""
    until_s = asyncio.get_running_loop().time() + _LAG_S
    while True:
        ends = await _patiently(asking.end_offsets, expected)
        early = any(ends[place] < offset for place, offset in expected.items())
        if not early or asyncio.get_running_loop().time() >= until_s:
            return ends
        await asyncio.sleep(_AGAIN_S)


async def _patiently(
    ask: Callable[[list[TopicPartition]], Awaitable[Offsets]], places: Iterable[TopicPartition]
) -> Offsets:
    """Return offsets; asks again where the client has given up, for leaders may be away for longer."""
    while True:
        with suppress(KafkaTimeoutError):
            return await ask(list(places))


async def _records_at(asking: AIOKafkaConsumer, offsets: Offsets) -> Mapping[TopicPartition, ConsumerRecord]:
    """Return the records at these offsets, as far as there are any."""
    found: dict[TopicPartition, ConsumerRecord] = {}
    asking.assign(list(offsets))
    for place, offset in offsets.items():
        asking.seek(place, offset)
    waiting = set(offsets)
    while waiting:
        batches = await asking.getmany(*waiting, timeout_ms=_POLL_MS)
        for place, records in batches.items():
            if records and records[0].offset == offsets[place]:
                found[place] = records[0]
        waiting = {place for place in waiting if await asking.position(place) <= offsets[place]}
    return found


@asynccontextmanager
async def _reader(
    settings: Settings, isolation_level: str, fetch_max_bytes: int = _ASKING_MAX_BYTES
) -> AsyncIterator[AIOKafkaConsumer]:
    """Yield a client of no group, as soon as a broker is there."""
    while True:
        client = AIOKafkaConsumer(
            **connection_arguments(settings),
            client_id=f"{settings.app_id}-recovery",
            request_timeout_ms=int(settings.request_timeout_s * 1000),
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level=isolation_level,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            fetch_max_bytes=_FETCH_MAX_BYTES,
            max_partition_fetch_bytes=fetch_max_bytes,
        )
        try:
            await client.start()
        except KafkaConnectionError:
            await client.stop()
            await asyncio.sleep(_AGAIN_S)
        else:
            break
    try:
        yield client
    finally:
        await client.stop()


def _places(topic: str, partitions: Collection[int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in partitions]


def _name(place: TopicPartition) -> str:
    return f"{place.topic} partition {place.partition}"
