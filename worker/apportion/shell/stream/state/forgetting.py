"""Removal of one session's row and pool from the changelog, while no worker runs.

A running worker holds the row in memory, and its next row would replace the tombstone.
"""

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from msgspec import Struct

from apportion.settings import Settings
from apportion.shell.kafka.admin import admin_client, why_unanswered
from apportion.shell.kafka.connection import connection_arguments
from apportion.shell.kafka.partitioning import partition_of
from apportion.shell.kafka.topics import changelog_topic
from apportion.shell.stream.state.recovery import read_rows
from apportion.shell.stream.state.row_format import artifact_key, artifact_names, seen_offset_of, tombstone


class WorkersRunningError(Exception):
    """The group has members, which hold rows in memory."""

    code = "workers_running"

    def __init__(self, settings: Settings, members: int) -> None:
        super().__init__(
            f"the group {settings.app_id} has {members} members: stop all workers, wait for "
            f"session_timeout_s ({settings.session_timeout_s:g} s) if one was killed, and repeat the command"
        )


class Forgotten(Struct, frozen=True):
    """The removed records: rows, and artifacts of their pools."""

    rows: int
    artifacts: int


async def forget(settings: Settings, key: bytes) -> Forgotten:
    """Write tombstones for the row of a session key, and for the artifacts of its pool.

    Raises WorkersRunningError, also after a write, and as `read_rows` and `admin_client`.
    """
    chosen = partition_of(key, settings.partitioner, settings.partitions)
    partitions = range(settings.partitions) if chosen is None else [chosen]
    try:
        await _require_no_members(settings)
        found = await read_rows(settings, partitions)
        values = {number: value for number, rows in found.items() if (value := rows.values.get(key))}
        for partition, value in values.items():
            await _remove(settings, partition, key, value)
        await _require_no_members(settings)
    except (KafkaError, TimeoutError) as error:
        raise why_unanswered(settings, error) from error
    return Forgotten(len(values), sum(len(artifact_names(value)) for value in values.values()))


async def _remove(settings: Settings, partition: int, key: bytes, row: bytes) -> None:
    """Write the tombstone of the row first; artifacts without a row are removed by the next recovery."""
    topic, (_, _, headers) = changelog_topic(settings), tombstone(key, seen_offset_of(row))
    async with AIOKafkaProducer(**connection_arguments(settings), acks="all") as producer:
        await producer.send_and_wait(topic, None, key, partition=partition, headers=list(headers))
        for name in artifact_names(row):
            await producer.send_and_wait(topic, None, artifact_key(key, name), partition=partition)


async def _require_no_members(settings: Settings) -> None:
    async with admin_client(settings) as admin:
        [described] = await admin.describe_consumer_groups([settings.app_id])
    members = described.groups[0][5]
    if members:
        raise WorkersRunningError(settings, len(members))
