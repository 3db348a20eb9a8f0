"""Committed offsets of the group on the requests topic, with their metadata."""

import asyncio
from collections.abc import Collection, Mapping

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError
from aiokafka.structs import OffsetAndMetadata
from msgspec import Struct

from apportion.settings import Settings
from apportion.shell.kafka.admin import NotAllowedError
from apportion.shell.kafka.commit_metadata import NOTHING_KNOWN, CommitMetadata, decode_metadata
from apportion.shell.kafka.connection import connection_arguments

_AGAIN_S = 0.2


class CommittedOffset(Struct, frozen=True):
    """The next offset to answer (None: nothing is committed), and the metadata of the commit."""

    offset: int | None = None
    metadata: CommitMetadata = NOTHING_KNOWN


class SharedGroupError(Exception):
    """The group has committed offsets of another topic: two installations share an app id."""

    code = "group_shared"

    def __init__(self, settings: Settings, topic: str) -> None:
        super().__init__(
            f"the group {settings.app_id} has committed offsets of {topic}, and this worker reads "
            f"{settings.requests_topic}: give each installation an app_id of its own. If no worker of this "
            f"app_id reads {topic}, delete its offsets: kafka-consumer-groups.sh --bootstrap-server … "
            f"--delete-offsets --group {settings.app_id} --topic {topic}"
        )


async def read_commits(settings: Settings, partitions: Collection[int]) -> dict[int, CommittedOffset]:
    """Return the commit of each partition, with retries; raise a KafkaError that no retry corrects."""
    wanted = [TopicPartition(settings.requests_topic, partition) for partition in partitions]
    while True:
        try:
            offsets = await _list_offsets(settings, wanted)
            # If the coordinator has just moved, the client returns too few offsets, and no error.
            if offsets.keys() >= set(wanted):
                return {partition.partition: _commit(*offsets[partition]) for partition in wanted}
        except KafkaError as error:
            if not error.retriable:
                raise
        await asyncio.sleep(_AGAIN_S)


async def _list_offsets(
    settings: Settings, partitions: list[TopicPartition] | None
) -> Mapping[TopicPartition, OffsetAndMetadata]:
    """Return the group's offsets of these partitions (-1: none committed); None means all partitions."""
    admin = AIOKafkaAdminClient(
        **connection_arguments(settings),
        client_id=settings.app_id,
        request_timeout_ms=int(settings.request_timeout_s * 1000),
    )
    try:
        await admin.start()
        offsets: Mapping[TopicPartition, OffsetAndMetadata] = await admin.list_consumer_group_offsets(
            settings.app_id, partitions=partitions
        )
        return offsets
    finally:
        await admin.close()


async def require_group(settings: Settings) -> Mapping[int, CommittedOffset]:
    """Return the commits of the group, after checking that the group is allowed and is ours alone.

    A member of a group that no ACL allows would wait for ever, and only log it. If no coordinator answers
    within `request_timeout_s`, the result is empty and nothing was checked. Topics that ACLs hide from our
    user are not checked. Raises NotAllowedError or SharedGroupError.
    """
    try:
        async with asyncio.timeout(settings.request_timeout_s):
            await read_commits(settings, [0])  # returns once the coordinator knows the commits
            offsets = await _list_offsets(settings, None)
    except GroupAuthorizationFailedError:
        raise NotAllowedError(settings, f"the group {settings.app_id}") from None
    except (KafkaError, TimeoutError):
        return {}  # joining the group waits for a coordinator that is away
    commits = {
        partition: _commit(*committed) for partition, committed in offsets.items() if committed.offset >= 0
    }
    for partition in sorted(commits):
        if partition.topic != settings.requests_topic:
            raise SharedGroupError(settings, partition.topic)
    return {partition.partition: commit for partition, commit in commits.items()}


def _commit(offset: int, metadata: str) -> CommittedOffset:
    return CommittedOffset() if offset < 0 else CommittedOffset(offset, decode_metadata(metadata))
