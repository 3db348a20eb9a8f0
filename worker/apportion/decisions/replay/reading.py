"""Readings of recorded events: which events a run covers, and how it decodes them and names dead letters.

This module has the reading of a file; `recompose` has the reading of a topic.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from apportion.core.bounds import Bounds
from apportion.core.digests import digest
from apportion.core.errors import EventError
from apportion.core.events import Event
from apportion.core.results import ContextDeadLetter
from apportion.core.wire.record import Record
from apportion.decisions.replay.recorded import MAX_OFFSET, Parse, parse_dead_letter, refusal_name
from apportion.engine.offline.answers import event_of_line, refused
from apportion.engine.offline.lines import CutRecord


class Extent(Struct, frozen=True):
    """The events of a run, as offsets. By default, all of them.

    - `first`: the first event that is composed. If it is above `asked`, the events between are deleted.
    - `asked`: the first event with a compared decision. Earlier events only rebuild the sessions' rows.
    - `end`: the event after the last one that is composed.
    - `decided`: every event before it is decided.
    - `in_order`: events are decided in their order, so a later decision proves that earlier ones exist.
    - `seen`: by session key, the last event that the session's first row includes.
    """

    first: int = 0
    asked: int = 0
    end: int = MAX_OFFSET + 1
    decided: int = MAX_OFFSET + 1
    in_order: bool = True
    seen: Mapping[str, int] = {}


class Reading(Protocol):
    """A way to read the events of one log."""

    @property
    def extent(self) -> Extent:
        """The events of the run."""

    @property
    def parse_dead_letter(self) -> Parse:
        """The parser of these events' dead letters."""

    def event_of(self, record: Record) -> Event:
        """Return the event of a record; raise EventError if it is refused before its session is known."""

    def refused(self, record: Record, error: EventError, engine_version: str) -> ContextDeadLetter:
        """Return the dead letter of a refused record."""

    def letter_name(self, record: Record) -> bytes:
        """Return the name that a record and its dead letter share."""


class FileReading(Struct, frozen=True):
    """All lines of a file. A dead letter is found by the digest of its event's value."""

    bounds: Bounds
    extent: Extent = Extent()
    parse_dead_letter: Parse = parse_dead_letter

    def event_of(self, record: Record) -> Event:
        """Return the event of a line; see `Reading`."""
        return event_of_line(record, self.bounds)

    def refused(self, record: Record, error: EventError, engine_version: str) -> ContextDeadLetter:
        """Return the dead letter that `apportion compose` writes."""
        return refused(record, error, engine_version)

    def letter_name(self, record: Record) -> bytes:
        """Return a short digest of the line; of a cut line, too."""
        return refusal_name(record.digest if isinstance(record, CutRecord) else digest(record.value or b""))
