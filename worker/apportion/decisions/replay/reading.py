"""Readings of recorded events: their extent, their decoding, and the names of their dead letters.

The reading of a file is here; the one of a topic is in `recompose`.
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
from apportion.decisions.replay.recorded import MAX_OFFSET, Parse, parse_dead_letter, value_name
from apportion.engine.offline.answers import event_of_line, refused
from apportion.engine.offline.lines import CutRecord


class Extent(Struct, frozen=True):
    """Range of the events that a run is about, by their offsets.

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

    @property
    def parse_dead_letter(self) -> Parse:
        """What reads the dead letters of these events, and names them."""

    def event_of(self, record: Record) -> Event:
        """Return the event that a record holds.

        Raises:
            EventError: it is refused before its session is known.
        """

    def refused(self, record: Record, error: EventError, engine_version: str) -> ContextDeadLetter:
        """Return the dead letter of a record that is refused."""

    def letter_name(self, record: Record) -> bytes:
        """Return what a record and its dead letter share."""


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

    def event_of(self, record: Record) -> Event:
        """Return the event that a record holds.

        Raises:
            EventError: it holds none, or passes a bound.
        """
        return event_of_line(record, self.bounds)

    def refused(self, record: Record, error: EventError, engine_version: str) -> ContextDeadLetter:
        """Return the dead letter that `apportion compose` writes."""
        return refused(record, error, engine_version)

    def letter_name(self, record: Record) -> bytes:
        """Return the digest of its value, in short."""
        return value_name(record.digest if isinstance(record, CutRecord) else digest(record.value or b""))
