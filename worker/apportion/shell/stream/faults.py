"""Errors that stop a worker.

Messages never contain the content of events. They name an unexpected exception by its type and code line.
"""

from collections.abc import Iterable

from aiokafka.errors import KafkaError

from apportion.core.wire.record import Record
from apportion.shell.kafka.faults import StreamError


class EventFailedError(StreamError):
    """An event was neither answered nor refused."""

    code = "event_failed"

    def __init__(self, record: Record, error: Exception) -> None:
        self.offset = record.offset
        super().__init__(
            f"stopped at {_where(record)}: {_describe(error)}; "
            "the event is not committed and comes again when a worker starts"
        )


class NotInTurnError(StreamError):
    """An event cannot be answered ahead of others and waits for its turn; this error stops no worker."""

    def __init__(self, record: Record) -> None:
        super().__init__(f"{_where(record)} waits for its turn")


class NotDurableError(StreamError):
    """The records of a batch could not be made durable."""

    code = "event_failed"

    def __init__(self, topic: str, partition: int, offset: int, error: Exception) -> None:
        super().__init__(
            f"stopped at {topic} partition {partition} offset {offset}: {_describe(error)}; "
            "that event and those after it are not committed, and come again when a worker starts"
        )


class FencedError(StreamError):
    """Another worker owns a partition's transactions, or brokers have ended the open transaction."""

    code = "fenced"

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(
            f"stopped at {topic} partition {partition} offset {offset}: another worker writes for that "
            "partition now, or the transaction was open for too long; nothing of it counts, and its events "
            "come again where the partition is"
        )


class GroupFailedError(StreamError):
    """The consumer group refuses this worker, or the client has left the group."""

    code = "group_failed"

    def __init__(self, group: str, why: str) -> None:
        super().__init__(
            f"this worker is not a member of the group {group} any more: {why}; its partitions are free for "
            "other workers. docs/operations/repair.md says for each reason what to do"
        )


class NotFlowingError(StreamError):
    """The events of assigned partitions are not read within `recovery_timeout_s`."""

    code = "not_flowing"

    def __init__(self, partitions: Iterable[int], within_s: float) -> None:
        numbers = ", ".join(map(str, sorted(partitions)))
        super().__init__(
            f"partitions {numbers} were assigned and nothing has moved there for {within_s:g} s "
            "(recovery_timeout_s): offsets or rows could not be read; they are free for other workers now"
        )


class PartitionNotOursError(StreamError):
    """A row of a partition that is not assigned was requested."""

    code = "partition_not_ours"

    def __init__(self, partition: int) -> None:
        super().__init__(
            f"an event of partition {partition} came to be answered when that was not this worker's; "
            "it is not committed, and comes again where the partition is"
        )


class TooManyDeadLettersError(StreamError):
    """Too many events of most tenants were refused, which is a fault of the whole topic."""

    code = "too_many_dead_letters"

    def __init__(self, refused: int, window: int, tenants: tuple[int, int], share_max: float) -> None:
        above, known = tenants
        super().__init__(
            f"{refused} of the last {window} events were dead letters, and {above} of {known} tenants are "
            f"above a share of {share_max:g} (dead_letter_share_max); see why in the dead letter topic "
            "before starting again"
        )


class WorkerFailedError(StreamError):
    """The stream ended by an error without a code, for example of Faust or the Kafka client."""

    code = "worker_failed"

    def __init__(self, error: BaseException | None) -> None:
        super().__init__(f"the stream ended: {_describe(error)}; what was not answered is not committed")


def _where(record: Record) -> str:
    return f"{record.topic} partition {record.partition} offset {record.offset}"


def _describe(error: BaseException | None) -> str:
    if isinstance(error, KafkaError | TimeoutError):
        return f"the broker did not acknowledge ({str(error) or type(error).__name__})"
    if error is None:
        return "no reason was given"
    where, traceback = "unknown", error.__traceback__
    while traceback is not None:
        where = f"{traceback.tb_frame.f_globals.get('__name__')}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return f"an error in the worker ({type(error).__name__} at {where}), please report it"
