"""The sessions of one partition, in memory, and what of them the changelog must be told.

Decides which of two rows of a session counts, which records make durable what changed, and which sessions are
let go. Rows lie here as the bytes that stand in the changelog; those in use are decoded, with their artifacts
prepared. Never does I/O: the writer appends what is told here, a recovery brings what is read.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from apportion.stream.state.artifacts import Artifacts
from apportion.stream.state.expiry import ExpiryIndex
from apportion.stream.state.faults import ArtifactMissingError, ChangelogTruncatedError
from apportion.stream.state.row_cache import RowsInUse
from apportion.stream.state.row_format import (
    NEVER_US,
    NO_HEADERS,
    SEPARATOR,
    Row,
    StateRecord,
    artifact_names,
    decode_row,
    encode_row,
    expires_us_of,
    seen_offset_of,
    seen_offset_of_tombstone,
    timestamp_ms_of,
    tombstone,
    with_names,
)
from apportion.stream.state.stream_time import StreamTime

_UPKEEP_MAX = 500
"""How many sessions are let go, or written again, beside one batch."""


Gap: TypeAlias = tuple[int, int]
"""Offsets of a changelog, from the first to before the second, that this worker has not written."""


class LetGo(Struct, frozen=True):
    """A row that was let go, and its artifacts by name."""

    key: bytes
    value: bytes
    artifacts: Mapping[bytes, bytes]


class Upkeep(Struct):
    """Records that keep the changelog small and right, and what they were made from.

    Each of the `groups` is to be appended in one record batch. `let_go` are rows that are not held any more,
    with their artifacts; `again` are sessions whose rows are written again, `orphans` the keys of
    records that are removed.
    """

    groups: list[list[StateRecord]] = []
    let_go: list[LetGo] = []
    again: list[bytes] = []
    orphans: list[bytes] = []


class ChangelogRecord(Protocol):
    """What is asked of a record of the changelog; a client's own records have it."""

    offset: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class PartitionRows:
    """The rows of a partition by session key."""

    def __init__(self, place: str, max_lateness_s: int = 0) -> None:
        """Hold nothing; `place` names the changelog partition, `max_lateness_s` how late events may be."""
        self.time = StreamTime(max_lateness_s)
        self.changelog_offset = 0
        """Up to where (exclusive) the changelog is contained here."""
        self.changelog_end = 0
        """Up to where (exclusive) something is known to stand in it."""
        self._place = place
        self._values: dict[bytes, bytes] = {}
        self._artifacts = Artifacts()
        self._changed: dict[bytes, Row] = {}
        self._in_use = RowsInUse()
        self._expiry = ExpiryIndex()
        self._gone: dict[bytes, int] = {}
        self._again: dict[bytes, None] = {}
        self._orphans: list[bytes] = []
        self._gaps: list[Gap] = []

    def __len__(self) -> int:
        return len(self._values.keys() | self._changed.keys()) if self._changed else len(self._values)

    @property
    def values(self) -> Mapping[bytes, bytes]:
        """The rows by session key, as they stand in the changelog."""
        return self._values

    @property
    def size_bytes(self) -> int:
        """What the rows and their artifacts have in bytes; looks at each of them."""
        return self._artifacts.size_bytes + sum(map(len, self._values.values()))

    @property
    def last_seen(self) -> tuple[int, int] | None:
        """The last offset that any row has seen and the time of the record there; None: there is no row."""
        last = max(self._values.values(), key=seen_offset_of, default=None)
        return None if last is None else (seen_offset_of(last), timestamp_ms_of(last))

    def row(self, key: bytes) -> Row | None:
        """Return a session's row; None: it has none yet.

        Raises:
            UnreadableRowError: a newer version wrote it.
        """
        row = self._changed.get(key) or self._in_use.get(key)
        if row is None:
            value = self._values.get(key)
            if value is None:
                return None
            row = decode_row(value, self._artifacts.decoded(key, artifact_names(value)))
            self._in_use.put(key, row)
        return row

    def hold(self, key: bytes, row: Row) -> None:
        """Hold a row from now on; it is not durable yet. Its artifacts get their names here."""
        self._changed[key] = with_names(row, self.row(key)) if row.session.pool else row

    def changes(self, keys: Iterable[bytes]) -> list[list[StateRecord]]:
        """Return the records that make durable what changed in these sessions, those of each together.

        Those of a session are to be appended in one record batch: a crash between them would change what is
        composed again.
        """
        changed = self._changed
        return [self._tell(key, row) for key in keys if (row := changed.pop(key, None)) is not None]

    def restore(self, before: Mapping[bytes, Row | None]) -> None:
        """Hold again what was held before: what came since was abandoned."""
        for key, row in before.items():
            self._changed.pop(key, None)
            self._in_use.forget(key)
            if row is None:
                self._values.pop(key, None)
                self._artifacts.remove_all(key)
            else:
                self._put_value(key, encode_row(row))
                self._artifacts.put(key, row)

    def written(self, first_offset: int, last_offset: int, *, alone: bool = False) -> None:
        """Count records of ours as contained, as long as nobody else wrote between.

        Offsets that others wrote are a gap. With `alone` nobody else can: what is between is none of records,
        but the markers of transactions.

        Raises:
            ChangelogTruncatedError: they stand where others stood: the changelog is another, or was cut.
        """
        if first_offset < self.changelog_offset:
            raise ChangelogTruncatedError(self._place, self.changelog_offset, first_offset)
        if alone or first_offset == self.changelog_offset:
            self.changelog_offset = last_offset + 1
        elif first_offset > self.changelog_end:
            self._gaps.append((self.changelog_end, first_offset))
        self.changelog_end = max(self.changelog_end, last_offset + 1)

    def ends(self, end_offset: int) -> None:
        """Note where the changelog ends while nothing of ours is on its way: others wrote what is beyond."""
        if end_offset > self.changelog_end:
            self._gaps.append((self.changelog_end, end_offset))
            self.changelog_end = end_offset

    @property
    def gaps(self) -> Sequence[Gap]:
        """The gaps that were not looked into yet."""
        return tuple(self._gaps)

    def close(self, gap: Gap) -> None:
        """Count a gap as looked into; a recovery reads it all the same."""
        if gap in self._gaps:
            self._gaps.remove(gap)

    def repair(self, records: Iterable[ChangelogRecord]) -> int:
        """Have rows written again behind the late records of a gap, and return how many were late.

        A record is late that has seen less than the row that is held, or that removes an artifact of it. A
        record that has seen as much or more changes nothing: the next rows of its session stand behind it,
        and a recovery reads it.

        Raises:
            UnreadableRowError: a newer version wrote one.
        """
        late = 0
        for record in records:
            session, separator, name = record.key.partition(SEPARATOR)
            held = self._values.get(session)
            if held is None:
                continue
            if separator:
                is_late = record.value is None and name in artifact_names(held)
            elif record.value is None:
                seen_offset = seen_offset_of_tombstone(record.headers)
                is_late = seen_offset is not None and seen_offset < seen_offset_of(held)
            else:
                is_late = seen_offset_of(record.value) < seen_offset_of(held)
            if is_late:
                self._again[session] = None
                late += 1
        return late

    @property
    def has_repairs(self) -> bool:
        """Whether the changelog lacks records that the next upkeep writes or removes."""
        return bool(self._again or self._orphans)

    def read(self, records: Iterable[ChangelogRecord]) -> None:
        """Take in what stands in the changelog, in its order; of a session's rows the one that has seen most.

        What is read is complete only when `join` has been asked.

        Raises:
            UnreadableRowError: a newer version wrote one.
        """
        values, in_use = self._values, self._in_use
        record = None
        for record in records:
            key, value = record.key, record.value
            if SEPARATOR in key:
                self._read_artifact(key, value)
            elif value is None:
                self._read_tombstone(key, seen_offset_of_tombstone(record.headers))
            else:
                held = values.get(key)
                if (held is not None or self._gone) and not self._counts(key, value, held):
                    self._again[key] = None
                    continue
                values[key] = value
                if in_use:
                    in_use.forget(key)
        if record is not None:
            self.changelog_offset = record.offset + 1

    def join(self, end_offset: int, *, afresh: bool = False) -> None:
        """Join the rows that were read up to an offset with their artifacts; let those go that no row has.

        With `afresh`, sessions are let go of which something is missing.

        Raises:
            ArtifactMissingError: a row has an artifact that the changelog has not.
        """
        needed = {key: names for key, value in self._values.items() if (names := artifact_names(value))}
        self._require_artifacts(needed, afresh=afresh)
        self._orphans += self._artifacts.keep(needed)
        self._gone.clear()
        if self.time.is_bounded:
            self._expiry = ExpiryIndex()
            for key, value in self._values.items():
                self._expiry.add(key, expires_us_of(value))
        self.changelog_offset = max(self.changelog_offset, end_offset)
        self.changelog_end = max(self.changelog_end, end_offset)
        self._gaps.clear()

    def upkeep(self) -> Upkeep:
        """Return records that keep the changelog small and right, no more than stand well beside a batch.

        Asked right behind `changes`: the records go with that batch's. Rows are let go that expired before
        any event that may still come. A row behind which a stale one was written is written again, for
        compaction keeps the last one; an artifact that no row has is removed.
        """
        upkeep = Upkeep()
        groups = upkeep.groups
        if self.time.is_bounded:
            until_us = self.time.let_go_until_us
            for key in self._expiry.due(until_us, _UPKEEP_MAX):
                if gone := self._let_go(key, until_us, upkeep):
                    groups.append(gone)
        while self._again and len(groups) < _UPKEEP_MAX:
            key, _ = self._again.popitem()
            upkeep.again.append(key)
            if (value := self._values.get(key)) is not None:
                artifacts = self._artifacts.records(key, artifact_names(value))
                groups.append([*artifacts, (key, value, NO_HEADERS)])
        while self._orphans and len(groups) < _UPKEEP_MAX:
            key = self._orphans.pop()
            upkeep.orphans.append(key)
            if not self._is_needed(key):
                groups.append([(key, None, NO_HEADERS)])
        return upkeep

    def undo(self, upkeep: Upkeep) -> None:
        """Take back what an upkeep has changed: its records were abandoned, and are to be written later.

        Called before `restore` of the same batch.
        """
        for gone in upkeep.let_go:
            self._values[gone.key] = gone.value
            for name, value in gone.artifacts.items():
                self._artifacts.add(gone.key, name, value)
            self._expiry.add(gone.key, expires_us_of(gone.value))
        self._again |= dict.fromkeys(upkeep.again)
        self._orphans += upkeep.orphans

    def _is_needed(self, orphan: bytes) -> bool:
        """Return whether a record without a row has one now: its session began afresh, or names it."""
        session, separator, name = orphan.partition(SEPARATOR)
        return name in self._artifacts.names(session) if separator else orphan in self._values

    def _require_artifacts(self, needed: dict[bytes, tuple[bytes, ...]], *, afresh: bool) -> None:
        for key, names in list(needed.items()):
            missing = set(names).difference(self._artifacts.names(key))
            if missing and not afresh:
                raise ArtifactMissingError(self._place, len(missing))
            if missing:
                del self._values[key], needed[key]
                self._orphans.append(key)

    def _read_artifact(self, key: bytes, value: bytes | None) -> None:
        """Take an artifact in, or let one go; one that its row still has was removed by a worker too late."""
        session, _, name = key.partition(SEPARATOR)
        if value is not None:
            self._artifacts.add(session, name, value)
            return
        row = self._values.get(session)
        if row is not None and name in artifact_names(row):
            self._again[session] = None
        else:
            self._artifacts.remove(session, name)

    def _read_tombstone(self, key: bytes, seen_offset: int | None) -> None:
        held = self._values.get(key)
        if held is not None and seen_offset is not None and seen_offset < seen_offset_of(held):
            self._again[key] = None
            return
        if seen_offset is not None:
            self._gone[key] = seen_offset
        self._values.pop(key, None)
        self._in_use.forget(key)

    def _counts(self, key: bytes, value: bytes, held: bytes | None) -> bool:
        """Return whether a row that was read comes after what was held of its session."""
        if held is None:
            gone = self._gone.get(key)
            return gone is None or seen_offset_of(value) > gone
        return seen_offset_of(value) >= seen_offset_of(held)

    def _tell(self, key: bytes, row: Row) -> list[StateRecord]:
        """Put a changed row among the bytes, and return the records that make it durable."""
        self._in_use.put(key, row)
        new, gone = self._artifacts.change(key, row)
        return [*new, (key, self._put_value(key, encode_row(row)), NO_HEADERS), *gone]

    def _put_value(self, key: bytes, value: bytes) -> bytes:
        if self.time.is_bounded:
            held = self._values.get(key)
            if held is None or expires_us_of(held) == NEVER_US:
                self._expiry.add(key, expires_us_of(value))
        self._values[key] = value
        return value

    def _let_go(self, key: bytes, until_us: int, upkeep: Upkeep) -> list[StateRecord]:
        """Let a row go that has expired until then; one that lives on is looked at again when it expires."""
        value = self._values.get(key)
        if value is None:
            return []
        expires_us = expires_us_of(value)
        if key in self._changed or expires_us > until_us:
            self._expiry.add(key, max(expires_us, until_us + 1))
            return []
        upkeep.let_go.append(LetGo(key, value, self._artifacts.held(key)))
        del self._values[key]
        self._in_use.forget(key)
        return [tombstone(key, seen_offset_of(value)), *self._artifacts.remove_all(key)]
