"""Answers to the lines of a file, in order: each event is answered, stored or refused."""

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
from apportion.engine.offline.lines import CutRecord
from apportion.engine.offline.sessions import Sessions


def answer_lines(
    lines: Iterable[Record], sessions: Sessions, bounds: Bounds
) -> Iterator[Answered | ContextDeadLetter]:
    """Yield the answer to each request and the dead letter of each refused event; artifacts yield nothing."""
    for line in lines:
        try:
            outcome = sessions.handle(event_of_line(line, bounds))
        except EventError as error:
            yield refused(line, error, sessions.engine.version)
        else:
            if outcome is not None:
                yield outcome


def event_of_line(line: Record, bounds: Bounds) -> Event:
    """Return the event in a line; raise EventError if it is not an event, or exceeds a bound."""
    if isinstance(line, CutRecord):
        message = f"the event has {line.size_bytes} bytes, more than {bounds.event_max_bytes}"
        raise EventError(ErrorCode.TOO_LARGE, message)
    return codec.event_of(line, bounds)


def refused(line: Record, error: EventError, engine_version: str) -> ContextDeadLetter:
    """Return the dead letter of a refused line."""
    letter = dead_letter(line, error, engine_version)
    if not isinstance(line, CutRecord):
        return letter
    return replace(letter, value_bytes=line.size_bytes, value_digest=line.digest, value_complete=False)
