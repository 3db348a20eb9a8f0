"""The topics of a run, read back and held against a pure replay of its input."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from msgspec.structs import replace
from support.audit import Audited, Partition, Row, audit
from support.expected import Expectation

from apportion.core.wire.record import Record
from apportion.engine.assembly import create_engine, create_timeline
from apportion.settings import Settings
from apportion.shell.kafka.admin import admin_client
from apportion.shell.kafka.connection import connection_arguments
from apportion.shell.kafka.output_ownership import source_of
from apportion.shell.kafka.partitioning import check_place
from apportion.shell.kafka.record_batches import record_of
from apportion.shell.kafka.record_consumer import RecordConsumer
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES, changelog_topic, plan_topics
from apportion.shell.stream.state.recovery import read_rows
from apportion.shell.stream.state.row_format import (
    SEPARATOR,
    artifact_key,
    artifact_names,
    decode_artifact,
    decode_row,
    seen_offset_of_tombstone,
)
from apportion.shell.stream.state.row_format import Row as SessionRow

READ_DEADLINE_S = 120.0


async def committed_offsets(settings: Settings) -> dict[int, int]:
    """Return the group's offsets in the requests topic, of the partitions that have one."""
    async with admin_client(settings) as admin:
        offsets = await admin.list_consumer_group_offsets(settings.app_id)
    return {
        place.partition: found.offset
        for place, found in offsets.items()
        if place.topic == settings.requests_topic and found.offset >= 0
    }


async def end_offsets(settings: Settings) -> dict[int, int]:
    """Return where the requests topic ends."""
    return await _ends(settings, settings.requests_topic)


async def _ends(settings: Settings, topic: str) -> dict[int, int]:
    places = [TopicPartition(topic, number) for number in range(settings.partitions)]
    async with AIOKafkaConsumer(**connection_arguments(settings)) as consumer:
        ends = await consumer.end_offsets(places)
    return {place.partition: end for place, end in ends.items()}


async def compact_soon(settings: Settings, lag_s: int) -> None:
    """Let the broker compact the changelog as soon as its records are older than that."""
    [planned] = [topic for topic in plan_topics(settings) if topic.name == changelog_topic(settings)]
    configs = dict(planned.configs) | {
        "min.compaction.lag.ms": str(lag_s * 1000),
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "1000",
    }
    topic = ConfigResource(ConfigResourceType.TOPIC, planned.name, configs=configs)
    async with admin_client(settings) as admin:
        await admin.alter_configs([topic])


async def changelog_ends(settings: Settings) -> dict[int, int]:
    """Return where the changelog ends."""
    return await _ends(settings, changelog_topic(settings))


async def is_compacted(settings: Settings, ends: Mapping[int, int]) -> bool:
    """Return whether the changelog has one record of each key before these offsets."""
    for partition, end in ends.items():
        records = await read_records(settings, changelog_topic(settings), partition)
        keys = [record.key for record in records if record.offset < end]
        if len(keys) > len(set(keys)):
            return False
    return True


async def audit_topics(
    settings: Settings,
    *,
    once: bool = False,
    compacted: bool = False,
    kept: Mapping[str, Mapping[int, list[Record]]] = MappingProxyType({}),
    passed_over: Mapping[int, range] = MappingProxyType({}),
) -> Audited:
    """Read every topic to its committed end, and return the audit.

    In a `compacted` changelog a late row may name an artifact that newer rows have removed; that row is
    skipped. Records `kept` from a deleted topic precede the records of the topic. Offsets `passed_over` need
    no output.
    """
    committed = await committed_offsets(settings)
    timeline = create_timeline(settings)
    policies = await read_records(settings, settings.policies_topic, 0)
    timeline, refused = timeline.extended(policies, settings.bounds)
    assert not refused, "the policies of a run are right"
    expectation = Expectation(
        create_engine(settings),
        timeline,
        settings.default_policy,
        settings.bounds,
        source_of(settings),
        partial(check_place, partitioner=settings.partitioner, partitions=settings.partitions),
    )
    total = Audited()
    held = await read_rows(settings, range(settings.partitions))
    for number in range(settings.partitions):

        async def read(topic: str, number: int = number) -> list[Record]:
            before = kept.get(topic, {}).get(number, [])
            return before + await read_records(settings, topic, number)

        unasked = passed_over.get(number, range(0))
        partition = Partition(
            number,
            [record for record in await read(settings.requests_topic) if record.offset not in unasked],
            await read(settings.composed_topic),
            await read(settings.decisions_topic),
            await read(settings.dead_letters_topic),
            list(_rows(await read(changelog_topic(settings)), compacted=compacted)),
            [_row(key, held[number].row(key)) for key in held[number].values],
            committed.get(number),
        )
        total += audit(partition, expectation, once=once, by_turns=settings.has_tenant_limits)
    return total


def _rows(changelog: Iterable[Record], *, compacted: bool) -> Iterator[Row]:
    """Yield the rows that were written, each with the artifacts that it names, and the removals of rows."""
    artifacts: dict[bytes, bytes] = {}
    for record in changelog:
        key, value = record.key or b"", record.value
        if SEPARATOR in key:
            artifacts |= {key: value} if value is not None else {}
        elif value is None:
            seen_offset = seen_offset_of_tombstone([(name, text or b"") for name, text in record.headers])
            yield Row(key, -1 if seen_offset is None else seen_offset, None)
        else:
            named = [artifact_key(key, name) for name in artifact_names(value)]
            if compacted and not artifacts.keys() >= set(named):
                continue
            pool = [decode_artifact(artifacts[name]) for name in named]
            yield _row(key, decode_row(value, pool))


def _row(key: bytes, row: SessionRow | None) -> Row:
    """Return a row with the computed digest of its content, not its stated one."""
    assert row is not None
    return Row(key, row.seen_offset, replace(row.session, own_digest="").digest)


async def read_records(settings: Settings, topic: str, partition: int) -> list[Record]:
    """Return a partition's records from its beginning to its end.

    Requests are read as workers read them: another client ends at a record that cannot be read.
    """
    place = TopicPartition(topic, partition)
    records: list[Record] = []
    consumer_type: Callable[..., AIOKafkaConsumer] = AIOKafkaConsumer
    if topic == settings.requests_topic:
        bytes_max = settings.batch_decompressed_max_bytes
        consumer_type = partial(RecordConsumer, batch_decompressed_max_bytes=bytes_max)
    consumer = consumer_type(
        **connection_arguments(settings),
        isolation_level="read_committed",
        max_partition_fetch_bytes=MESSAGE_MAX_BYTES,
    )
    async with consumer, asyncio.timeout(READ_DEADLINE_S):
        consumer.assign([place])
        await consumer.seek_to_beginning()
        end = (await consumer.end_offsets([place]))[place]
        while await consumer.position(place) < end:
            records += map(record_of, (await consumer.getmany(timeout_ms=200)).get(place, []))
    return records
