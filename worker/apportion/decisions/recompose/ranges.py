"""Offset ranges that a run reads of each partition, settled before anything is read.

Decides which requests are verified, where the events begin from which rows are rebuilt, and which requests
may still be in flight. The end offsets of the requests are read first, then the group's committed offsets,
then the end offsets of the answers. So each committed request has its decision before these ends, or none.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any

from aiokafka import TopicPartition
from msgspec import Struct
from msgspec.structs import replace

from apportion.decisions.replay.reading import Extent
from apportion.settings import Settings
from apportion.shell.kafka.commits import read_commits
from apportion.shell.kafka.records import OffsetSpan, RecordReader
from apportion.shell.kafka.topics import TopicStatus, check_topics, require_same_partitions

_SKEW_MS = 10 * 60 * 1000
"""How far the clocks of workers may be behind those of the brokers."""


class TopicMissingError(Exception):
    """A topic that is to be read is not there."""

    code = "topic_missing"

    def __init__(self, topics: Collection[str], settings: Settings) -> None:
        super().__init__(
            f"there is no topic {', '.join(topics)} at {', '.join(settings.brokers)}; apportion config shows "
            "the names of topics, their topic_prefix, and the brokers"
        )


class NoSuchPartitionError(Exception):
    """A partition was asked for that the topics do not have."""

    code = "no_such_partition"
    exit_code = 2

    def __init__(self, partition: int, settings: Settings) -> None:
        super().__init__(
            f"--offsets names partition {partition}, and there are those from 0 to {settings.partitions - 1}"
        )


class RecordSelection(Struct, frozen=True):
    """What is asked about: requests by when they were recorded, in milliseconds, or by their offsets.

    `until_ms` is exclusive. `offsets` has for each partition the first and the last, which may be None.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    offsets: Mapping[int, tuple[int, int | None]] = {}


class PartitionRange(Struct, frozen=True):
    """What is read of one partition."""

    partition: int
    requests: OffsetSpan
    decisions: OffsetSpan
    dead_letters: OffsetSpan
    extent: Extent


def topics_read(settings: Settings) -> tuple[str, ...]:
    """Return the topics that a verification reads."""
    return (
        settings.requests_topic,
        settings.policies_topic,
        settings.decisions_topic,
        settings.dead_letters_topic,
    )


async def require_topics(settings: Settings, topics: Collection[str]) -> None:
    """Pass if the topics are there that are read, with as many partitions as the settings say.

    Raises:
        BrokerRefusedError, BrokerUnreachableError: no broker takes us, or none answered in time.
        TopicMissingError, PartitionsChangedError: they are not.
    """
    reports = [report for report in await check_topics(settings) if report.topic in topics]
    if missing := [report.topic for report in reports if report.status is TopicStatus.MISSING]:
        raise TopicMissingError(missing, settings)
    require_same_partitions(settings, reports)


def settle(
    settings: Settings, reader: RecordReader, selection: RecordSelection, kept: Mapping[int, int]
) -> tuple[PartitionRange, ...]:
    """Return what is to be read; `kept` tells up to where (exclusive) rows were kept that are started from.

    Raises:
        NoSuchPartitionError: the selection names one.
        BrokerUnreachableError: the offsets could not be asked for.
    """
    for partition in selection.offsets:
        if partition >= settings.partitions:
            raise NoSuchPartitionError(partition, settings)
    wanted = sorted(selection.offsets) or range(settings.partitions)
    ranges = reader.wait(_Offsets(settings, reader.client, wanted).ranges(selection, kept))
    return tuple(_without_what_was_before(reader, ranges))


def settle_spans(
    settings: Settings, reader: RecordReader, topics: Collection[str], selection: RecordSelection
) -> tuple[OffsetSpan, ...]:
    """Return what is to be read of topics by when their own records were written, partition by partition.

    Raises:
        BrokerUnreachableError: the offsets could not be asked for.
    """
    offsets = _Offsets(settings, reader.client, range(settings.partitions))
    return tuple(chain.from_iterable(reader.wait(offsets.spans(topic, selection)) for topic in topics))


class _Offsets:
    """Asks for the offsets of some partitions."""

    def __init__(self, settings: Settings, client: Any, partitions: Collection[int]) -> None:
        self._settings = settings
        self._client = client
        self._partitions = partitions

    async def ranges(self, selection: RecordSelection, kept: Mapping[int, int]) -> list[PartitionRange]:
        settings = self._settings
        requests, decisions = settings.requests_topic, settings.decisions_topic
        dead_letters = settings.dead_letters_topic
        begins, ends = await self._bounds(requests)
        async with asyncio.timeout(settings.request_timeout_s):
            commits = await read_commits(settings, self._partitions)
        decided_from, decided_to = await self._bounds(decisions)
        refused_from, refused_to = await self._bounds(dead_letters)
        since = await self._at(requests, selection.since_ms)
        until = await self._at(requests, selection.until_ms)
        made_since = await self._at(decisions, selection.since_ms)
        ranges = []
        for partition in self._partitions:
            first, last = selection.offsets.get(partition, (0, None))
            since_first = since.get(partition, ends[partition]) if selection.since_ms else 0
            first = max(first, kept.get(partition, 0), since_first)
            end = ends[partition] if last is None else min(ends[partition], last + 1)
            end = min(end, until.get(partition, end))
            begin = max(begins[partition], kept.get(partition, 0))
            if selection.since_ms and first <= begins[partition]:
                first = 0  # what was asked for before that is gone, and shall be told
                decided_from[partition] = made_since.get(partition, decided_to[partition])
            extent = Extent(
                first=begin,
                asked=first,
                end=end,
                decided=commits[partition].offset or 0,
                in_order=not settings.has_tenant_limits,
            )
            ranges.append(
                PartitionRange(
                    partition,
                    OffsetSpan(requests, partition, begin, max(begin, end)),
                    OffsetSpan(decisions, partition, decided_from[partition], decided_to[partition]),
                    OffsetSpan(dead_letters, partition, refused_from[partition], refused_to[partition]),
                    extent,
                )
            )
        return ranges

    async def spans(self, topic: str, selection: RecordSelection) -> list[OffsetSpan]:
        begins, ends = await self._bounds(topic)
        since = begins if selection.since_ms is None else await self._at(topic, selection.since_ms)
        until = await self._at(topic, selection.until_ms)
        return [
            OffsetSpan(
                topic, partition, since.get(partition, ends[partition]), until.get(partition, ends[partition])
            )
            for partition in self._partitions
        ]

    async def _bounds(self, topic: str) -> tuple[dict[int, int], dict[int, int]]:
        places = [TopicPartition(topic, partition) for partition in self._partitions]
        begins = await self._client.beginning_offsets(places)
        ends = await self._client.end_offsets(places)
        return {p.partition: o for p, o in begins.items()}, {p.partition: o for p, o in ends.items()}

    async def _at(self, topic: str, time_ms: int | None) -> dict[int, int]:
        """Return the first offsets that were recorded at a time or later, where there are any."""
        if time_ms is None:
            return {}
        times = {TopicPartition(topic, partition): time_ms for partition in self._partitions}
        found = await self._client.offsets_for_times(times)
        return {place.partition: offset.offset for place, offset in found.items() if offset is not None}


def _without_what_was_before(
    reader: RecordReader, ranges: Collection[PartitionRange]
) -> Iterator[PartitionRange]:
    """Yield ranges without decisions that were made before the first event was recorded, by some margin."""
    late = [
        partition_range
        for partition_range in ranges
        if 0 < partition_range.extent.first <= partition_range.extent.asked and partition_range.requests
    ]
    read = dict(
        zip(
            [partition_range.partition for partition_range in late],
            reader.read(*[partition_range.requests for partition_range in late]),
            strict=True,
        )
    )
    for partition_range in ranges:
        record = next(read[partition_range.partition], None) if partition_range.partition in read else None
        if record is None or record.timestamp_ms < 0:
            yield partition_range
            continue
        since_ms = max(0, record.timestamp_ms - _SKEW_MS)
        yield replace(
            partition_range,
            decisions=reader.wait(_since(reader.client, partition_range.decisions, since_ms)),
            dead_letters=reader.wait(_since(reader.client, partition_range.dead_letters, since_ms)),
        )


async def _since(client: Any, span: OffsetSpan, since_ms: int) -> OffsetSpan:
    found = (await client.offsets_for_times({span.place: since_ms}))[span.place]
    return replace(span, first=span.end if found is None else max(span.first, found.offset))
