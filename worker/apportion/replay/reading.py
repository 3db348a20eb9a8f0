"""How recorded events are read: as the lines of a file, or, by who knows topics, as their records.

Decides what an event of a file is called, and which events a run is about. What an event is, the core says.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from apportion.core.bounds import Bounds
from apportion.core.errors import EventError
from apportion.core.events import Event
from apportion.core.identity import digest
from apportion.core.results import ContextDeadLetter
from apportion.offline.answers import UNKNOWN_MS, event_of, refused
from apportion.offline.lines import Line
from apportion.replay.recorded import MAX_OFFSET, Parse, parse_dead_letter, value_name


class Extent(Struct, frozen=True):
    """Which events a run is about, by their numbers in their log.

    Those from `first` to before `end` are composed; what was decided about those from `asked` on is compared,
    and known to be decided for those before `decided`. Where `asked` lies before `first`, what lay between is
    gone. `in_order` tells that an event is decided when a later one is. `seen` tells of a session up to where
    (inclusive) its first row has seen the events.
    """

    first: int = 0
    asked: int = 0
    end: int = MAX_OFFSET + 1
    decided: int = MAX_OFFSET + 1
    in_order: bool = True
    seen: Mapping[str, int] = {}


class Reading(Protocol):
    """How the events of one log are read."""

    @property
    def extent(self) -> Extent:
        """Which events the run is about."""
        ...

    @property
    def parse_dead_letter(self) -> Parse:
        """What reads the dead letters of these events, and names them."""
        ...

    def event_of(self, line: Line) -> Event:
        """Return the event that a line holds.

        Raises:
            EventError: it is refused before its session is known.
        """
        ...

    def refused(self, line: Line, error: EventError, engine_version: str) -> ContextDeadLetter:
        """Return the dead letter of a line that is refused."""
        ...

    def letter_name(self, line: Line) -> bytes:
        """Return what a line and its dead letter share."""
        ...

    def recorded_ms(self, line: Line) -> int:
        """Return when a line was recorded; -1: not known."""
        ...


class FileReading(Struct, frozen=True):
    """The lines of a file, all of them."""

    bounds: Bounds

    @property
    def extent(self) -> Extent:
        """All."""
        return Extent()

    @property
    def parse_dead_letter(self) -> Parse:
        """By the digest of the event's value: a file does not tell where its lines stood."""
        return parse_dead_letter

    def event_of(self, line: Line) -> Event:
        """Return the event that a line holds.

        Raises:
            EventError: it holds none, or passes a bound.
        """
        return event_of(line, self.bounds)

    def refused(self, line: Line, error: EventError, engine_version: str) -> ContextDeadLetter:
        """Return the dead letter that `apportion compose` writes."""
        return refused(line, error, engine_version)

    def letter_name(self, line: Line) -> bytes:
        """Return the digest of its value, in short."""
        return value_name(digest(line.value) if line.cut is None else line.cut.digest)

    def recorded_ms(self, _: Line) -> int:
        """Return that nobody knows."""
        return UNKNOWN_MS
