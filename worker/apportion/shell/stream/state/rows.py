"""Session rows of one partition, and the records that bring its changelog up to date.

Rows are kept as their bytes in the changelog; recently used rows are also kept decoded. There is no I/O: the
writer appends the returned records, and a recovery passes in the records that it reads.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from aiokafka.structs import ConsumerRecord
from msgspec import Struct, ValidationError

from apportion.shell.stream.state.artifacts import Artifacts
from apportion.shell.stream.state.expiry import ExpiryIndex
from apportion.shell.stream.state.faults import (
    ArtifactMissingError,
    ChangelogTruncatedError,
    ForeignRecordError,
    UnreadableStateError,
)
from apportion.shell.stream.state.row_cache import RowsInUse
from apportion.shell.stream.state.row_format import (
    NEVER_US,
    NO_HEADERS,
    SEPARATOR,
    Row,
    StateRecord,
    artifact_names,
    decode_row,
    encode_row,
    expires_us_of,
    is_row,
    seen_offset_of,
    seen_offset_of_tombstone,
    timestamp_ms_of,
    tombstone,
    with_names,
)
from apportion.shell.stream.state.stream_time import StreamTime

_UPKEEP_MAX = 500
"""Maximum number of sessions that are removed, or written again, with one batch."""

Gap: TypeAlias = tuple[int, int]
"""Offsets of a changelog that this worker has not written, from the first to before the second."""


class LetGo(Struct, frozen=True):
    """A removed row, and its artifacts by name."""

    key: bytes
    value: bytes
    artifacts: Mapping[bytes, bytes]


class Upkeep(Struct):
    """Records that keep the changelog small and correct; each of the `groups` must be in one record batch.

    `let_go` has the removed rows, `again` the sessions whose rows are written again, and `orphans` the keys
    of artifacts and rows to remove.
    """

    groups: list[list[StateRecord]] = []
    let_go: list[LetGo] = []
    again: list[bytes] = []
    orphans: list[bytes] = []


class PartitionRows:
    """The rows of a partition by session key."""

    def __init__(self, where: str, max_lateness_s: int = 0) -> None:
        """Start empty; `where` names the changelog partition in errors."""
        self.time = StreamTime(max_lateness_s)
        self.changelog_offset = 0
        """The offset before which these rows contain all records of the changelog."""
        self.changelog_end = 0
        """The known end of the changelog (exclusive)."""
        self.committed_by = ""
        """The version of the worker that committed last; empty if unknown."""
        self._where = where
        self.values: dict[bytes, bytes] = {}
        """The rows by session key, as their bytes in the changelog."""
        self._artifacts = Artifacts()
        self._changed: dict[bytes, Row] = {}
        self._in_use = RowsInUse()
        self._expiry = ExpiryIndex()
        self._gone: dict[bytes, int] = {}
        self._again: dict[bytes, None] = {}
        self._orphans: list[bytes] = []
        self._gaps: list[Gap] = []
        self._foreign: dict[bytes, int] = {}
        """Offsets of records that are no rows, by keys for which nothing of ours was read."""

    def __len__(self) -> int:
        return len(self.values.keys() | self._changed.keys()) if self._changed else len(self.values)

    @property
    def size_bytes(self) -> int:
        """Total encoded bytes of rows and artifacts, without unwritten changes; each call visits all."""
        return self._artifacts.size_bytes + sum(map(len, self.values.values()))

    @property
    def last_seen(self) -> tuple[int, int] | None:
        """The greatest processed offset of all rows, and its record's time in ms; None without rows."""
        last = max(self.values.values(), key=seen_offset_of, default=None)
        return None if last is None else (seen_offset_of(last), timestamp_ms_of(last))

    def row(self, key: bytes) -> Row | None:
        """Return a session's row or None; raise UnreadableStateError if a newer version wrote it."""
        row = self._changed.get(key) or self._in_use.get(key)
        if row is None:
            value = self.values.get(key)
            if value is None:
                return None
            try:
                row = decode_row(value, self._artifacts.decoded(key, artifact_names(value)))
            except ValidationError as error:  # the same format version, but unknown fields
                raise self.unreadable(f"a row or an artifact that cannot be read ({error})") from None
            self._in_use.put(key, row)
        return row

    def unreadable(self, why: object) -> UnreadableStateError:
        """Return the error of a record that a newer version wrote."""
        return UnreadableStateError(self._where, str(why), self.committed_by)

    def hold(self, key: bytes, row: Row) -> None:
        """Store a row that is not durable yet, and name its artifacts."""
        self._changed[key] = with_names(row, self.row(key)) if row.session.pool else row

    def changes(self, keys: Iterable[bytes]) -> list[list[StateRecord]]:
        """Return a group of records for each changed session.

        A group must be in one record batch: after a crash between its records, answers would differ.
        """
        changed = self._changed
        return [self._records(key, row) for key in keys if (row := changed.pop(key, None)) is not None]

    def restore(self, before: Mapping[bytes, Row | None]) -> None:
        """Restore these rows, because later changes were abandoned; None removes a row."""
        for key, row in before.items():
            self._changed.pop(key, None)
            self._in_use.forget(key)
            if row is None:
                self.values.pop(key, None)
                self._artifacts.remove_all(key)
            else:
                self._put_value(key, encode_row(row))
                self._artifacts.change(key, row)

    def written(self, first_offset: int, last_offset: int, *, alone: bool = False) -> None:
        """Record that our records are in the changelog, from the first to the last offset.

        Unknown offsets before them are a gap that others wrote, or transaction markers if we write `alone`.
        Raises ChangelogTruncatedError if the offsets were used before.
        """
        if first_offset < self.changelog_offset:
            raise ChangelogTruncatedError(self._where, self.changelog_offset, first_offset)
        if alone or first_offset == self.changelog_offset:
            self.changelog_offset = last_offset + 1
        elif first_offset > self.changelog_end:
            self._gaps.append((self.changelog_end, first_offset))
        self.changelog_end = max(self.changelog_end, last_offset + 1)

    def ends(self, end_offset: int) -> None:
        """Record the changelog's end while no own record is in flight; new offsets before it are a gap."""
        if end_offset > self.changelog_end:
            self._gaps.append((self.changelog_end, end_offset))
            self.changelog_end = end_offset

    @property
    def gaps(self) -> Sequence[Gap]:
        """The unread gaps."""
        return tuple(self._gaps)

    def close(self, gap: Gap) -> None:
        """Record that a gap was read; a recovery still reads it again."""
        if gap in self._gaps:
            self._gaps.remove(gap)

    def repair(self, records: Iterable[ConsumerRecord]) -> int:
        """Schedule rows to be written again after late records of a gap; return the number of late records.

        A record is late if its processed offset is lower than the current row's, if it removes an artifact of
        that row, or if it is no row. Other records change nothing: the session's next rows come after them.

        Raises:
            UnreadableRowError: a newer version wrote a record.
        """
        late = 0
        for record in records:
            session, separator, name = record.key.partition(SEPARATOR)
            current = self.values.get(session)
            if current is None:
                continue
            if separator:
                is_late = record.value is None and name in artifact_names(current)
            elif record.value is None:
                seen_offset = seen_offset_of_tombstone(record.headers)
                is_late = seen_offset is not None and seen_offset < seen_offset_of(current)
            else:
                is_late = not is_row(record.value) or seen_offset_of(record.value) < seen_offset_of(current)
            if is_late:
                self._again[session] = None
                late += 1
        return late

    @property
    def has_repairs(self) -> bool:
        """Whether the next upkeep has records to write again or to remove."""
        return bool(self._again or self._orphans)

    def read(self, records: Iterable[ConsumerRecord]) -> None:
        """Add changelog records, in order; a session's row with the greatest processed offset counts.

        Of equal offsets, the later row counts. Call `join` at the end. Raises UnreadableRowError.
        """
        record = None
        for record in records:
            key, value = record.key, record.value
            self._foreign.pop(key, None)
            if SEPARATOR in key:
                self._read_artifact(key, value)
            elif value is None:
                self._read_tombstone(key, seen_offset_of_tombstone(record.headers))
            elif not is_row(value):
                if key in self.values:
                    self._again[key] = None
                else:
                    self._foreign[key] = record.offset
            elif self._counts(key, value, self.values.get(key)):
                self.values[key] = value
                self._in_use.forget(key)
            else:
                self._again[key] = None
        if record is not None:
            self.changelog_offset = record.offset + 1

    def join(self, end_offset: int, *, afresh: bool = False) -> None:
        """Join the rows with their artifacts after a read up to an offset; drop artifacts without a row.

        Raises ArtifactMissingError, or drops the row if `afresh`, and ForeignRecordError.
        """
        if self._foreign:
            key, offset = next(iter(self._foreign.items()))
            raise ForeignRecordError(self._where, offset, key)
        needed = {key: names for key, value in self.values.items() if (names := artifact_names(value))}
        self._require_artifacts(needed, afresh=afresh)
        self._orphans += self._artifacts.keep(needed)
        self._gone.clear()
        if self.time.is_bounded:
            self._expiry = ExpiryIndex()
            for key, value in self.values.items():
                self._expiry.add(key, expires_us_of(value))
        self.changelog_offset = max(self.changelog_offset, end_offset)
        self.changelog_end = max(self.changelog_end, end_offset)
        self._gaps.clear()

    def upkeep(self) -> Upkeep:
        """Return records that keep the changelog small and correct, to write with the batch of `changes`.

        They remove expired rows and artifacts without a row. They write a row again if a late record follows
        it, because compaction keeps only the last record.
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
            if (value := self.values.get(key)) is not None:
                artifacts = self._artifacts.records(key, artifact_names(value))
                groups.append([*artifacts, (key, value, NO_HEADERS)])
        while self._orphans and len(groups) < _UPKEEP_MAX:
            key = self._orphans.pop()
            upkeep.orphans.append(key)
            if not self._is_needed(key):
                groups.append([(key, None, NO_HEADERS)])
        return upkeep

    def undo(self, upkeep: Upkeep) -> None:
        """Undo an abandoned upkeep, before `restore` of the same batch; a later upkeep repeats it."""
        for gone in upkeep.let_go:
            self.values[gone.key] = gone.value
            for name, value in gone.artifacts.items():
                self._artifacts.add(gone.key, name, value)
            self._expiry.add(gone.key, expires_us_of(gone.value))
        self._again |= dict.fromkeys(upkeep.again)
        self._orphans += upkeep.orphans

    def _is_needed(self, orphan: bytes) -> bool:
        """Return whether an orphan belongs to a row now."""
        session, separator, name = orphan.partition(SEPARATOR)
        return name in self._artifacts.by_name(session) if separator else orphan in self.values

    def _require_artifacts(self, needed: dict[bytes, tuple[bytes, ...]], *, afresh: bool) -> None:
        for key, names in list(needed.items()):
            missing = set(names).difference(self._artifacts.by_name(key))
            if missing and not afresh:
                raise ArtifactMissingError(self._where, len(missing))
            if missing:
                del self.values[key], needed[key]
                self._orphans.append(key)

    def _read_artifact(self, key: bytes, value: bytes | None) -> None:
        """Add or drop an artifact. A tombstone is late if the row still names the artifact."""
        session, _, name = key.partition(SEPARATOR)
        if value is not None:
            self._artifacts.add(session, name, value)
            return
        row = self.values.get(session)
        if row is not None and name in artifact_names(row):
            self._again[session] = None
        else:
            self._artifacts.remove(session, name)

    def _read_tombstone(self, key: bytes, seen_offset: int | None) -> None:
        current = self.values.get(key)
        if current is not None and seen_offset is not None and seen_offset < seen_offset_of(current):
            self._again[key] = None
            return
        if seen_offset is not None:
            self._gone[key] = seen_offset
        self.values.pop(key, None)
        self._in_use.forget(key)

    def _counts(self, key: bytes, value: bytes, current: bytes | None) -> bool:
        if current is None:
            gone = self._gone.get(key)
            return gone is None or seen_offset_of(value) > gone
        return seen_offset_of(value) >= seen_offset_of(current)

    def _records(self, key: bytes, row: Row) -> list[StateRecord]:
        self._in_use.put(key, row)
        new, gone = self._artifacts.change(key, row)
        return [*new, (key, self._put_value(key, encode_row(row)), NO_HEADERS), *gone]

    def _put_value(self, key: bytes, value: bytes) -> bytes:
        if self.time.is_bounded:
            current = self.values.get(key)
            if current is None or expires_us_of(current) == NEVER_US:
                self._expiry.add(key, expires_us_of(value))
        self.values[key] = value
        return value

    def _let_go(self, key: bytes, until_us: int, upkeep: Upkeep) -> list[StateRecord]:
        """Remove a row that expired by `until_us`, and return its tombstones; otherwise check it later."""
        value = self.values.get(key)
        if value is None:
            return []
        expires_us = expires_us_of(value)
        if key in self._changed or expires_us > until_us:
            self._expiry.add(key, max(expires_us, until_us + 1))
            return []
        upkeep.let_go.append(LetGo(key, value, self._artifacts.by_name(key)))
        del self.values[key]
        self._in_use.forget(key)
        return [tombstone(key, seen_offset_of(value)), *self._artifacts.remove_all(key)]
