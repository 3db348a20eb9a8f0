"""Why a worker stops by itself.

Decides when too many events were refused, and what is told: never content, for an exception that is not
the client's is named by its type and its place in the code.
"""

from collections import deque

from aiokafka.errors import KafkaError
from faust.exceptions import ProducerSendError

from apportion.core.record import Record


class StreamError(Exception):
    """The worker stops: going on would lose an event, charge it twice, or refuse what is right."""

    code = "stream_ended"


class EventFailedError(StreamError):
    """An event was neither answered nor refused."""

    code = "event_failed"

    def __init__(self, record: Record, error: Exception) -> None:
        super().__init__(
            f"stopped at {_place(record)}: {_told(error)}; "
            "the event is not committed and comes again when a worker starts"
        )


class EventLostError(StreamError):
    """An event before this one was read from the topic, and did not reach the agent."""

    code = "event_lost"

    def __init__(self, record: Record) -> None:
        super().__init__(
            f"stopped at {_place(record)}: an event before it was lost on the way through Faust; "
            "it is not committed and comes again when a worker starts"
        )


class TopicReplacedError(StreamError):
    """A session has seen an offset that the topic has not reached: its row is of another topic."""

    code = "topic_replaced"

    def __init__(self, record: Record, seen_offset: int, changelog: str) -> None:
        super().__init__(
            f"stopped at {_place(record)}: its session has seen offset {seen_offset} of a topic of that name "
            f"that is gone; delete {changelog}, too, or start with another app_id: then sessions start anew"
        )


class TooManyDeadLettersError(StreamError):
    """Of the last events too many were refused: rather a fault of the whole topic than of its events."""

    code = "too_many_dead_letters"

    def __init__(self, refused: int, window: int, share_max: float) -> None:
        super().__init__(
            f"{refused} of the last {window} events were dead letters, more than a share of {share_max:g} "
            "(dead_letter_share_max); see why in the dead letter topic before starting again"
        )


class WorkerFailedError(StreamError):
    """The stream ended between events, through Faust or the Kafka client."""

    code = "worker_failed"

    def __init__(self, error: BaseException | None) -> None:
        super().__init__(f"the stream ended: {_told(error)}; what was not answered is not committed")


class DeadLetterShare:
    """How many of the last events were refused; says nothing before it has seen `window` of them."""

    def __init__(self, window: int, share_max: float) -> None:
        """Start with no event seen."""
        self._last: deque[bool] = deque(maxlen=window)
        self._window = window
        self._share_max = share_max

    def count(self, *, refused: bool) -> None:
        """Count an event.

        Raises:
            TooManyDeadLettersError: with it the share is above its maximum.
        """
        self._last.append(refused)
        if not refused or len(self._last) < self._window:
            return
        total = sum(self._last)
        if total > self._share_max * self._window:
            raise TooManyDeadLettersError(total, self._window, self._share_max)


def _place(record: Record) -> str:
    return f"{record.topic} partition {record.partition} offset {record.offset}"


def _told(error: BaseException | None) -> str:
    if isinstance(error, KafkaError | ProducerSendError | TimeoutError):
        return f"the broker did not acknowledge ({str(error) or type(error).__name__})"
    if error is None:
        return "no reason was given"
    place, traceback = "unknown", error.__traceback__
    while traceback is not None:
        place = f"{traceback.tb_frame.f_globals.get('__name__')}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return f"an error in the worker ({type(error).__name__} at {place}), please report it"
