"""What the group has committed of the requests topic, with the metadata beside each offset.

Decides nothing but how long a coordinator is asked that does not know yet. Never commits.
"""

import asyncio
from collections.abc import Collection

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError
from msgspec import Struct

from apportion.settings import Settings
from apportion.stream.admin import NotAllowedError
from apportion.stream.commit_metadata import NOTHING_KNOWN, CommitMetadata, decode_metadata
from apportion.stream.connection import connection_arguments

_AGAIN_S = 0.2


class Commit(Struct, frozen=True):
    """The next offset to answer, None where nothing is committed, and what is known up to there."""

    offset: int | None = None
    metadata: CommitMetadata = NOTHING_KNOWN


async def read_commits(settings: Settings, partitions: Collection[int]) -> dict[int, Commit]:
    """Return what is committed of each partition; asks until the group's coordinator knows."""
    places = [TopicPartition(settings.requests_topic, partition) for partition in partitions]
    while True:
        admin = AIOKafkaAdminClient(
            **connection_arguments(settings),
            client_id=settings.app_id,
            request_timeout_ms=int(settings.request_timeout_s * 1000),
        )
        try:
            await admin.start()
            found = await admin.list_consumer_group_offsets(settings.app_id, partitions=places)
            # where the coordinator has just moved, the client gives fewer than it was asked for, and no error
            if found.keys() >= set(places):
                return {place.partition: _commit(*found[place]) for place in places}
        except KafkaError as error:
            if not error.retriable:
                raise
        finally:
            await admin.close()
        await asyncio.sleep(_AGAIN_S)


async def require_group(settings: Settings) -> None:
    """Pass unless the group is not ours to know: its member would wait for ever, and say so in a log alone.

    Raises:
        NotAllowedError: no ACL allows us to.
    """
    try:
        async with asyncio.timeout(settings.request_timeout_s):
            await read_commits(settings, [0])
    except GroupAuthorizationFailedError:
        raise NotAllowedError(settings, f"the group {settings.app_id}") from None
    except (KafkaError, TimeoutError):
        pass  # a coordinator that is away is waited for where the group is joined


def _commit(offset: int, metadata: str) -> Commit:
    return Commit() if offset < 0 else Commit(offset, decode_metadata(metadata))
