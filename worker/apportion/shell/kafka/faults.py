"""Errors that stop a process because of its offsets, its topics or its cluster."""

from collections.abc import Iterable


class StreamError(Exception):
    """The process stops, because continuing would lose an event, charge it twice, or refuse a valid one."""

    code = "stream_ended"


class OffsetOutOfRangeError(StreamError):
    """The next offset to read is not in its topic: events were deleted, or the topic was replaced."""

    code = "offset_out_of_range"

    def __init__(self, where: str, offset: int, begin: int, end: int) -> None:
        super().__init__(
            f"{where} goes on at offset {offset}, and the topic has those from {begin} to before {end}: what "
            "lay between is gone; docs/operations/repair.md says how to go on without it"
        )


class TopicGoneError(StreamError):
    """A topic was deleted while this process used it."""

    code = "topic_gone"

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"the topic {topic} is gone: somebody deleted it. Restore it; or `apportion topics create` makes "
            "an empty topic, and docs/operations/repair.md says what is lost with the old one"
        )


class TopicRecreatedError(StreamError):
    """A topic was deleted and created again while this process used it."""

    code = "topic_replaced"

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"the topic {topic} was deleted and made anew while this process ran, so its offsets count other "
            "records now; start again, and see docs/operations/repair.md for what was lost with the old one"
        )


class AnotherClusterError(StreamError):
    """Another cluster answers at the brokers' addresses: the cluster's id differs."""

    code = "another_cluster"

    def __init__(self, brokers: Iterable[str], was: str, now: str) -> None:
        super().__init__(
            f"another cluster answers at {', '.join(brokers)}: its id is {now}, and was {was} at the start. "
            "Correct the address; or, if the new cluster is meant, create its topics and start again"
        )
