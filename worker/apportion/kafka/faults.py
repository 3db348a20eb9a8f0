"""Errors of Kafka clients, each with a code."""


class StreamError(Exception):
    """The worker stops, because continuing would lose an event, charge it twice, or refuse a valid one."""

    code = "stream_ended"


class OffsetOutOfRangeError(StreamError):
    """The next offset to read is not in its topic: events were deleted, or the topic was replaced."""

    code = "offset_out_of_range"

    def __init__(self, place: str, offset: int, begin: int, end: int) -> None:
        super().__init__(
            f"{place} goes on at offset {offset}, and the topic has those from {begin} to before {end}: what "
            "lay between is gone; docs/operations.md says how to go on without it"
        )
