"""Why a worker stops over its sessions' state: what is in Kafka is not what commits say, or cannot be read.

Decides what is told. What to do is said so that nothing that may be needed yet is destroyed.
"""

from apportion.kafka.faults import StreamError

_AFRESH = "to let its sessions start afresh, run with --sessions-afresh"


class ArtifactMissingError(StreamError):
    """A session's row has an artifact in its pool that the changelog has not."""

    code = "artifact_missing"

    def __init__(self, place: str, missing: int) -> None:
        super().__init__(
            f"{place} has a row of a session and lacks {missing} of its artifacts: records were deleted, or "
            f"its cleanup.policy is not compact; restore them, or {_AFRESH}"
        )


class ChangelogDamagedError(StreamError):
    """A record of the changelog cannot be read: rows of sessions are lost with it."""

    code = "changelog_damaged"

    def __init__(self, place: str, offset: int, why: str) -> None:
        super().__init__(
            f"{place} has a record at offset {offset} that cannot be read: {why}; restore the topic from a "
            "copy that is whole; if batch_decompressed_max_bytes was larger before, raise it again"
        )


class ChangelogTruncatedError(StreamError):
    """A changelog is shorter than what was durable in it."""

    code = "changelog_truncated"

    def __init__(self, place: str, written: int, end: int) -> None:
        super().__init__(
            f"{place} ends at offset {end}, and workers have written up to {written}: it was made anew, cut, "
            f"or lost with its broker; bring that back before anything is answered, or {_AFRESH}"
        )


class RequestsReplacedError(StreamError):
    """Rows have seen a record of the requests topic that is not there: their topic is another."""

    code = "topic_replaced"

    def __init__(self, place: str, seen_offset: int, why: str) -> None:
        super().__init__(
            f"sessions have seen {place} up to offset {seen_offset}, and {why}: the topic was made anew or "
            "cut. What comes at offsets that they have seen would be passed over: so run with another "
            "app_id, or point requests_topic to the old topic"
        )


class RecoveryFailedError(StreamError):
    """Partitions were assigned, and their state could not be read to its end."""

    code = "recovery_failed"

    def __init__(self, places: str, why: str) -> None:
        super().__init__(
            f"{places} could not be read to the end: {why} (recovery_timeout_s); are the leaders and the "
            "group's coordinator there? Nothing is lost: a worker that starts goes on where this one stood"
        )


class UnreadableStateError(StreamError):
    """A record of the changelog is none that this version knows."""

    code = "state_unreadable"

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place} has {why}; run the newer version, whose rows these are")
