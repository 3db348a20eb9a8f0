"""The verification or replay of one partition. Records are decoded and checked as a worker does it."""

from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from apportion.core.errors import EventError
from apportion.core.events import Event
from apportion.core.policies.timeline import Timeline
from apportion.core.results import ContextDeadLetter
from apportion.core.wire.dead_letter import dead_letter
from apportion.core.wire.record import Record
from apportion.decisions.recompose.ranges import PartitionRange
from apportion.decisions.recompose.snapshot import StartRows
from apportion.decisions.replay.reading import Extent
from apportion.decisions.replay.recomposing import Recomposer
from apportion.decisions.replay.recorded import Parse, parse_placed_dead_letter, refusal_name
from apportion.decisions.replay.replaying import Replay, WhatIf
from apportion.decisions.replay.verify import Verification
from apportion.engine.assembly import create_engine
from apportion.engine.offline.rows import SessionRows
from apportion.settings import Settings
from apportion.shell.kafka.records import RecordReader
from apportion.shell.stream.state.stream_time import StreamTime, event_of


class TopicReading:
    """The records of one partition of the requests topic. A dead letter is found by its event's offset."""

    parse_dead_letter: Parse = staticmethod(parse_placed_dead_letter)

    def __init__(self, settings: Settings, extent: Extent) -> None:
        self.extent = extent
        self._settings = settings
        self._bounds = settings.bounds
        self._time = StreamTime(settings.max_lateness_s)

    def event_of(self, record: Record) -> Event:
        """Return the event of a record, or raise EventError, as a worker does."""
        partitioner, partitions = self._settings.partitioner, self._settings.partitions
        return event_of(record, self._time, self._bounds, partitioner=partitioner, partitions=partitions)

    def refused(self, record: Record, error: EventError, engine_version: str) -> ContextDeadLetter:
        """Return the dead letter of a record."""
        return dead_letter(record, error, engine_version)

    def letter_name(self, record: Record) -> bytes:
        """Return a short digest of the record's topic, partition and offset."""
        return refusal_name(str(record))


class PartitionRun(Struct, frozen=True):
    """A partition's events, and their verification or replay."""

    events: Iterator[Record]
    runner: Verification | Replay


def partition_run(
    settings: Settings,
    timeline: Timeline,
    reader: RecordReader,
    selected: PartitionRange,
    start: StartRows | None = None,
    what_if: WhatIf | None = None,
) -> PartitionRun:
    """Return the run over a partition, or raise SettingsError. The reader reads for one run at a time.

    Sessions start empty or with the rows of `start`. With `what_if`, decisions are replayed under the change.
    """
    events, decisions, dead_letters = reader.read(
        selected.requests, selected.decisions, selected.dead_letters
    )
    extent = selected.extent if start is None else replace(selected.extent, seen=start.seen)
    rows = None if start is None else SessionRows(start.rows)
    verification = Verification(
        Recomposer(create_engine(settings), timeline, settings.default_policy, rows),
        TopicReading(settings, extent),
        decisions,
        (letter for letter in dead_letters if _is_of_requests(letter, settings)),
    )
    unseen = _unseen(events, extent)
    if what_if is None:
        return PartitionRun(unseen, verification)
    rows = None if start is None else SessionRows(dict(start.rows))
    return PartitionRun(unseen, Replay(verification, what_if, rows))


def reporting(
    events: Iterator[Record], first: int, advance: Callable[[int], None], every: int = 1
) -> Iterator[Record]:
    """Yield the events; after every `every` events, call `advance` with the offsets done from `first` on."""
    for count, event in enumerate(events, 1):
        yield event
        if count % every == 0:
            advance(event.offset + 1 - first)


def _unseen(records: Iterable[Record], extent: Extent) -> Iterator[Record]:
    """Yield the records that the first rows of their sessions do not include."""
    seen = {key.encode(): offset for key, offset in extent.seen.items()}
    for record in records:
        if record.offset > seen.get(record.key or b"", -1):
            yield record


class _EventSource(Struct, frozen=True):
    topic: str


class _Letter(Struct, frozen=True):
    source: _EventSource


_letter_decoder = msgspec.json.Decoder(_Letter)


def _is_of_requests(record: Record, settings: Settings) -> bool:
    """Return whether a dead letter is from the requests, and not from the policies topic."""
    try:
        return _letter_decoder.decode(record.value or b"").source.topic != settings.policies_topic
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True  # the verification reports it
