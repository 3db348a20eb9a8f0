"""Reads of committed offsets, repeated until the group's coordinator answers."""

from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import GroupAuthorizationFailedError, GroupCoordinatorNotAvailableError
from aiokafka.structs import OffsetAndMetadata

from apportion.settings import Settings
from apportion.shell.kafka import commits
from apportion.shell.kafka.commit_metadata import NOTHING_KNOWN, CommitMetadata, encode_metadata
from apportion.shell.kafka.commits import CommittedOffset, SharedGroupError, read_commits, require_group
from apportion.version import __version__

pytestmark = pytest.mark.asyncio

METADATA = CommitMetadata(stream_time_us=7, worker=__version__)
PLACES = [TopicPartition("context-requests", number) for number in (0, 1)]
KNOWN = {
    PLACES[0]: OffsetAndMetadata(5, encode_metadata(METADATA)),
    PLACES[1]: OffsetAndMetadata(-1, ""),
}


class Admin:
    """A client with scripted answers."""

    answers: list[Any]

    def __init__(self, **_: Any) -> None:
        """Connect to nothing."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def list_consumer_group_offsets(self, group: str, partitions: list[TopicPartition] | None) -> Any:
        assert group == "apportion"
        assert partitions in (PLACES, PLACES[:1], None)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def _answering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "AIOKafkaAdminClient", Admin)
    monkeypatch.setattr(commits, "_AGAIN_S", 0.0)


async def test_offsets_come_with_their_commit_metadata() -> None:
    Admin.answers = [KNOWN]
    assert await read_commits(Settings(), [0, 1]) == {
        0: CommittedOffset(5, METADATA),
        1: CommittedOffset(None, NOTHING_KNOWN),
    }


@pytest.mark.parametrize("first", [{}, {PLACES[0]: KNOWN[PLACES[0]]}, GroupCoordinatorNotAvailableError()])
async def test_a_loading_coordinator_is_asked_again(first: Any) -> None:
    """The client takes an answer without partitions for one without errors: as if nothing were committed."""
    Admin.answers = [first, KNOWN]
    assert (await read_commits(Settings(), [0, 1]))[0].offset == 5


async def test_a_group_belongs_to_one_installation() -> None:
    Admin.answers = [KNOWN, KNOWN]
    assert await require_group(Settings()) == {0: CommittedOffset(5, METADATA)}
    staging = TopicPartition("staging.context-requests", 3)
    Admin.answers = [KNOWN, KNOWN | {staging: OffsetAndMetadata(0, "")}]
    with pytest.raises(SharedGroupError, match=r"has committed offsets of staging\.context-requests,"):
        await require_group(Settings())


async def test_deleted_offsets_of_another_topic_are_ignored() -> None:
    Admin.answers = [KNOWN, {TopicPartition("other", 0): OffsetAndMetadata(-1, "")}]
    await require_group(Settings())


async def test_a_refused_read_of_commits_raises() -> None:
    Admin.answers = [GroupAuthorizationFailedError()]
    with pytest.raises(GroupAuthorizationFailedError):
        await read_commits(Settings(), [0, 1])
