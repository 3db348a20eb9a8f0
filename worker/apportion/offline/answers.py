"""Answers to the events in the lines of a file, in the order of the lines.

Every line counts as a record of topic `-`, partition 0, with its number as the offset. So the same lines give
the same bytes, whatever the name of the file.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from apportion.core.bounds import Bounds
from apportion.core.compose import Answered
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Event
from apportion.core.results import ContextDeadLetter
from apportion.core.wire import codec
from apportion.core.wire.dead_letter import dead_letter
from apportion.core.wire.record import Record
from apportion.offline.lines import Line
from apportion.offline.sessions import Sessions

TOPIC = "-"
"""Name that no topic of Kafka has, used for lines of any file."""
UNKNOWN_MS = -1
"""Timestamp of every line, in ms; a file does not say when its lines were recorded."""


def answer_lines(
    lines: Iterable[Line], sessions: Sessions, bounds: Bounds
) -> Iterator[Answered | ContextDeadLetter]:
    """Yield the answer to every request, and the dead letter of every event that is refused."""
    for line in lines:
        try:
            outcome = sessions.handle(event_of(line, bounds))
        except EventError as error:
            yield refused(line, error, sessions.engine.version)
        else:
            if outcome is not None:
                yield outcome


def event_of(line: Line, bounds: Bounds) -> Event:
    """Return the event that a line holds.

    Raises:
        EventError: it holds none, or exceeds a bound.
    """
    if line.cut is not None:
        message = f"the event has {line.cut.size_bytes} bytes, more than {bounds.event_max_bytes}"
        raise EventError(ErrorCode.TOO_LARGE, message)
    return codec.decode(line.value, bounds)


def refused(line: Line, error: EventError, engine_version: str) -> ContextDeadLetter:
    """Return the dead letter of a line."""
    record = Record(TOPIC, 0, line.number, UNKNOWN_MS, None, line.value)
    letter = dead_letter(record, error, engine_version)
    if line.cut is None:
        return letter
    return replace(
        letter, value_bytes=line.cut.size_bytes, value_digest=line.cut.digest, value_complete=False
    )
