"""One partition of the topics, verified: its requests composed again, and what was made of them compared.

Or replayed: composed once more, under a change. Decides how a record is read as an event: as the worker reads
it. Partitions know nothing of each other.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from apportion.core.errors import EventError
from apportion.core.events import Event
from apportion.core.policies.timeline import Timeline
from apportion.core.results import ContextDeadLetter
from apportion.core.wire import codec
from apportion.core.wire.dead_letter import dead_letter
from apportion.core.wire.record import Record
from apportion.decisions.recompose.ranges import PartitionRange
from apportion.decisions.recompose.snapshot import StartRows
from apportion.decisions.replay.findings import VerificationSummary
from apportion.decisions.replay.reading import Extent
from apportion.decisions.replay.recomposing import Recomposer
from apportion.decisions.replay.recorded import Parse, parse_placed_dead_letter, source_name
from apportion.decisions.replay.replaying import Replay, ReplayResult, WhatIf
from apportion.decisions.replay.sums import Sum
from apportion.decisions.replay.verify import Verification
from apportion.engine.assembly import create_engine
from apportion.engine.offline.rows import SessionRows
from apportion.settings import Settings
from apportion.shell.kafka.partitioning import check_place
from apportion.shell.kafka.records import RecordReader
from apportion.shell.stream.state.stream_time import StreamTime


class TopicReading:
    """The records of one partition of the requests topic."""

    def __init__(self, settings: Settings, extent: Extent) -> None:
        self._settings = settings
        self._bounds = settings.bounds
        self.extent = extent
        """Which events the run is about, by their offsets."""
        self._time = StreamTime(settings.max_lateness_s)

    @property
    def parse_dead_letter(self) -> Parse:
        """By the place of the event."""
        return parse_placed_dead_letter

    def event_of(self, record: Record) -> Event:
        """Return the event of a record, as the worker reads it.

        Raises:
            EventError: it holds none, passes a bound, stands elsewhere than its session, or is too late.
        """
        event = codec.event_of(record, self._bounds)
        check_place(event, record, self._settings.partitioner, self._settings.partitions)
        self._time.see(event, record)
        return event

    def refused(self, record: Record, error: EventError, engine_version: str) -> ContextDeadLetter:
        """Return the dead letter of a record."""
        return dead_letter(record, error, engine_version)

    def letter_name(self, record: Record) -> bytes:
        """Return the record's place, in short."""
        return source_name(str(record))


class PartitionRun(Struct, frozen=True):
    """A partition's events, and what verifies the decisions that were made of them, or replays them."""

    partition: int
    events: Iterator[Record]
    verification: Verification
    replay: Replay | None = None

    def results(self, events: Iterable[Record]) -> Iterator[ReplayResult]:
        """Yield the results of these events and their decisions."""
        yield from (self.replay or self.verification).run(events)

    @property
    def summary(self) -> VerificationSummary | Sum:
        """What was counted so far."""
        return (self.replay or self.verification).summary


def partition_run(
    settings: Settings,
    timeline: Timeline,
    reader: RecordReader,
    those: PartitionRange,
    start: StartRows | None = None,
    what_if: WhatIf | None = None,
) -> PartitionRun:
    """Return the run over a partition, which the reader reads until it is given another.

    Sessions start empty, or with the rows at the `start`. Decisions are verified, or replayed under a change.

    Raises:
        SettingsError: the secrets cannot be read.
    """
    events, decisions, dead_letters = reader.read(those.requests, those.decisions, those.dead_letters)
    extent = those.extent if start is None else replace(those.extent, seen=start.seen)
    rows = None if start is None else SessionRows(start.rows)
    verification = Verification(
        Recomposer(create_engine(settings), timeline, settings.default_policy, rows),
        TopicReading(settings, extent),
        decisions,
        (letter for letter in dead_letters if _is_of_requests(letter, settings)),
    )
    replay = None
    if what_if is not None:
        replay = Replay(verification, what_if, None if start is None else SessionRows(dict(start.rows)))
    return PartitionRun(those.partition, _unseen(events, extent), verification, replay)


def _unseen(records: Iterable[Record], extent: Extent) -> Iterator[Record]:
    """Yield the records that the rows have not seen with which sessions start."""
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
    """Tell whether a dead letter is of an event; one of the policies topic is of no session."""
    try:
        return _letter_decoder.decode(record.value or b"").source.topic != settings.policies_topic
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True  # who reads it tells what it is
