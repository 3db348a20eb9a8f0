"""Errors in the state of sessions: the topics do not match the commits, or a record cannot be read.

No message asks the operator to destroy data that may still be needed.
"""

from apportion.core.digests import digest
from apportion.shell.kafka.faults import StreamError
from apportion.version import __version__

_AFRESH = "to let its sessions start afresh, run with --sessions-afresh"


class ArtifactMissingError(StreamError):
    """A session's row names an artifact that is missing from the changelog."""

    code = "artifact_missing"

    def __init__(self, where: str, missing: int) -> None:
        super().__init__(
            f"{where} has a row of a session and lacks {missing} of its artifacts: records were deleted, or "
            f"its cleanup.policy is not compact; restore them, or {_AFRESH}"
        )


class ChangelogDamagedError(StreamError):
    """A record of the changelog cannot be read, so rows of sessions are lost."""

    code = "changelog_damaged"

    def __init__(self, where: str, offset: int, why: str) -> None:
        super().__init__(
            f"{where} has a record at offset {offset} that cannot be read: {why}; restore the topic from a "
            "copy that is whole; if batch_decompressed_max_bytes was larger before, raise it again"
        )


class ChangelogTruncatedError(StreamError):
    """A changelog ends before an offset that was durable in it."""

    code = "changelog_truncated"

    def __init__(self, where: str, written: int, end: int) -> None:
        super().__init__(
            f"{where} ends at offset {end}, and workers have written up to {written}: it was made anew, cut, "
            f"or lost with its broker; bring that back before anything is answered, or {_AFRESH}"
        )


class ForeignRecordError(StreamError):
    """Another program has written to the changelog."""

    code = "changelog_foreign"

    def __init__(self, where: str, offset: int, key: bytes) -> None:
        super().__init__(
            f"{where} has a record at offset {offset} that is no row of a session, under a key with the "
            f"digest {digest(key)}. Find out who wrote it, write a tombstone for that key to that partition, "
            "and start again"
        )


class RequestsReplacedError(StreamError):
    """A processed record is not in the requests topic any more: the topic was replaced or cut."""

    code = "topic_replaced"

    def __init__(self, where: str, seen_offset: int, why: str) -> None:
        super().__init__(
            f"sessions have seen {where} up to offset {seen_offset}, and {why}: the topic was made anew or "
            "cut. What comes at offsets that they have seen would be passed over: so run with another "
            "app_id, or point requests_topic to the old topic"
        )


class ForeignCommitError(StreamError):
    """Another client has committed an offset of the group, ahead of the sessions' last processed offset."""

    code = "foreign_commit"

    def __init__(self, where: str, committed: int, first: int) -> None:
        super().__init__(
            f"{where}: another client than a worker has committed offset {committed}, and sessions have seen "
            f"nothing from {first} on: requests from there to {committed - 1} would get no answer. Reset the "
            "group's offset with kafka-consumer-groups.sh, or, to go on without them, run once with "
            "--accept-foreign-commits"
        )


class RecoveryFailedError(StreamError):
    """The rows of assigned partitions could not be read to the end, or no transaction could begin."""

    code = "recovery_failed"

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"{where} could not be read to the end: {why} (recovery_timeout_s); are the leaders and the "
            "group's coordinator there? Nothing is lost: a worker that starts goes on where this one stood"
        )


class UnreadableStateError(StreamError):
    """A record of the changelog has a format that this version does not know: a newer version wrote it."""

    code = "state_unreadable"

    def __init__(self, where: str, why: str, committed_by: str) -> None:
        last = f", and the last commit is of version {committed_by}" if committed_by else ""
        super().__init__(
            f"{where} has {why}. This worker is version {__version__}{last}; run the newer version, whose "
            "rows these are"
        )
