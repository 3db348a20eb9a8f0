"""The offset ranges that a run reads of each partition, determined before it reads a record.

The end offsets of the requests are read first, then the group's committed offsets, then the end offsets of
the decisions. So if a committed request has a decision, the decision is before that end.
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
"""Largest assumed delay of a worker's clock behind a broker's."""


class TopicMissingError(Exception):
    """A topic does not exist."""

    code = "topic_missing"

    def __init__(self, topics: Collection[str], settings: Settings) -> None:
        super().__init__(
            f"there is no topic {', '.join(topics)} at {', '.join(settings.brokers)}; apportion config shows "
            "the names of topics, their topic_prefix, and the brokers"
        )


class NoSuchPartitionError(Exception):
    """A selected partition does not exist."""

    code = "no_such_partition"
    exit_code = 2

    def __init__(self, partition: int, settings: Settings) -> None:
        super().__init__(
            f"--offsets names partition {partition}, and there are those from 0 to {settings.partitions - 1}"
        )


class RecordSelection(Struct, frozen=True):
    """The selected requests, by record time in milliseconds (`until_ms` is exclusive) and by offset.

    `offsets` has the first and the last offset by partition; None as the last: no end. Empty: all partitions.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    offsets: Mapping[int, tuple[int, int | None]] = {}


class PartitionRange(Struct, frozen=True):
    """The offsets that a run reads of one partition, and the extent of its events."""

    partition: int
    requests: OffsetSpan
    decisions: OffsetSpan
    dead_letters: OffsetSpan
    extent: Extent


async def require_topics(settings: Settings, topics: Collection[str]) -> None:
    """Raise TopicMissingError or PartitionsChangedError unless the topics exist as the settings say."""
    reports = [report for report in await check_topics(settings) if report.topic in topics]
    if missing := [report.topic for report in reports if report.status is TopicStatus.MISSING]:
        raise TopicMissingError(missing, settings)
    require_same_partitions(settings, reports)


def settle(
    settings: Settings, reader: RecordReader, selection: RecordSelection, kept: Mapping[int, int]
) -> tuple[PartitionRange, ...]:
    """Return the ranges to read. `kept` has the offset (exclusive) of a snapshot's rows, by partition.

    Raises NoSuchPartitionError for a selected partition that does not exist, and BrokerUnreachableError.
    """
    for partition in selection.offsets:
        if partition >= settings.partitions:
            raise NoSuchPartitionError(partition, settings)
    wanted = sorted(selection.offsets) or range(settings.partitions)
    ranges = reader.wait(_Offsets(settings, reader.client, wanted).ranges(selection, kept))
    return tuple(_without_earlier_answers(reader, ranges))


def settle_spans(
    settings: Settings, reader: RecordReader, topics: Collection[str], selection: RecordSelection
) -> tuple[OffsetSpan, ...]:
    """Return the offsets to read by topic, then partition, selected by record time; raises as `settle`."""
    offsets = _Offsets(settings, reader.client, range(settings.partitions))
    return tuple(chain.from_iterable(reader.wait(offsets.spans(topic, selection)) for topic in topics))


class _Offsets:
    """Queries for the offsets of some partitions."""

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
                first = 0  # so that deleted requests of that time are reported
                decided_from[partition] = made_since.get(partition, decided_to[partition])
            decided, in_order = commits[partition].offset or 0, not settings.has_tenant_limits
            selected = PartitionRange(
                partition,
                OffsetSpan(requests, partition, begin, max(begin, end)),
                OffsetSpan(decisions, partition, decided_from[partition], decided_to[partition]),
                OffsetSpan(dead_letters, partition, refused_from[partition], refused_to[partition]),
                Extent(first=begin, asked=first, end=end, decided=decided, in_order=in_order),
            )
            ranges.append(selected)
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
        """Return the first and the end offset of each partition."""
        partitions = [TopicPartition(topic, partition) for partition in self._partitions]
        begins = await self._client.beginning_offsets(partitions)
        ends = await self._client.end_offsets(partitions)
        return {p.partition: o for p, o in begins.items()}, {p.partition: o for p, o in ends.items()}

    async def _at(self, topic: str, time_ms: int | None) -> dict[int, int]:
        """Return the first offset at a time or later by partition, where there is one."""
        if time_ms is None:
            return {}
        times = {TopicPartition(topic, partition): time_ms for partition in self._partitions}
        found = await self._client.offsets_for_times(times)
        return {p.partition: offset.offset for p, offset in found.items() if offset is not None}


def _without_earlier_answers(
    reader: RecordReader, ranges: Collection[PartitionRange]
) -> Iterator[PartitionRange]:
    """Yield the ranges, without answers that are older than the first event by more than the clocks' skew."""
    late = [each for each in ranges if 0 < each.extent.first <= each.extent.asked and each.requests]
    events = reader.read(*[each.requests for each in late])
    firsts = {each.partition: next(records, None) for each, records in zip(late, events, strict=True)}
    for each in ranges:
        first = firsts.get(each.partition)
        if first is None or first.timestamp_ms < 0:
            yield each
            continue
        since_ms = max(0, first.timestamp_ms - _SKEW_MS)
        yield replace(
            each,
            decisions=reader.wait(_since(reader.client, each.decisions, since_ms)),
            dead_letters=reader.wait(_since(reader.client, each.dead_letters, since_ms)),
        )


async def _since(client: Any, span: OffsetSpan, since_ms: int) -> OffsetSpan:
    found = (await client.offsets_for_times({span.place: since_ms}))[span.place]
    return replace(span, first=span.end if found is None else max(span.first, found.offset))
