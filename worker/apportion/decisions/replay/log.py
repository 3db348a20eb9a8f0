"""A log of decisions or dead letters, read lazily: only as far as the events require.

The record of an event is the first record with its name. Records that are read before their event wait. A
second record of an identity is a repeat, which at-least-once delivery allows. An equal repeat is counted, an
altered repeat is a finding.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from apportion.core.canonical_json import canonical_json
from apportion.core.comparison import NotJsonError, read
from apportion.core.lru import Bounded
from apportion.core.wire.record import Record
from apportion.decisions.replay.findings import Finding, FindingKind, finding_at
from apportion.decisions.replay.recorded import Parse, Recorded
from apportion.decisions.replay.waiting import Waiting
from apportion.engine.offline.lines import CutRecord

LINE_MAX_BYTES = 64 << 20
_ANSWERED_MAX = 1 << 16
"""Number of the latest records that are recognised when they repeat; some 16 MB."""


class RecordedLog:
    """The records of one log, each returned once."""

    def __init__(
        self,
        name: str,
        records: Iterable[Record],
        parse: Parse,
        not_compared: Collection[str],
        report: Callable[[Finding], None],
        is_wanted: Callable[["RecordedLog", Recorded], bool],
    ) -> None:
        """Report findings. Records count if `is_wanted`; repeats may differ in `not_compared`."""
        self.name = name
        self.repeated = 0
        self.last_event_offset = -1
        """The highest offset of an event among the records that were read; -1 if none is known."""
        self._records = iter(records)
        self._parse = parse
        self._not_compared = not_compared
        self._report = report
        self._is_wanted = is_wanted
        self._next: Recorded | None = None
        self._waiting = Waiting()
        self._answered: Bounded[str, bytes] = Bounded(_ANSWERED_MAX)

    def peek(self, name: bytes) -> Recorded | None:
        """Return the first record of a name if it is waiting or the next one. It stays in the log."""
        waiting = self._waiting.first(name)
        if waiting is not None:
            return self._parse(waiting)
        if self._next is None:
            self._next = self._read()
        return self._next if self._next is not None and self._next.name == name else None

    def find(self, name: bytes) -> Recorded | None:
        """Return the first record of a name, which stays in the log, or None after reading the whole log."""
        while (found := self.peek(name)) is None and self._next is not None:
            self._waiting.put(self._next.name, self._next.record)
            self._next = None
        return found

    def remove(self, recorded: Recorded, composed: Struct | None) -> None:
        """Remove a record that `peek` or `find` returned, and recognise its repeats from now on.

        A repeat must equal `composed`; if that is None, it must equal the record.
        """
        if self._next is recorded:
            self._next = None
        else:
            self._waiting.drop(recorded.name)
        expected = self._content(recorded) if composed is None else composed
        self._answered.put(recorded.identity, _digest(expected))
        if self._next is not None and self._is_repeat(self._next):
            self._next = None
        while (waiting := self._waiting.first(recorded.name)) is not None:
            again = self._parse(waiting)
            if not self._is_repeat(again):
                return
            self._waiting.drop(recorded.name)

    def rest(self) -> Iterator[Recorded]:
        """Yield all records that no event removed."""
        yield from map(self._parse, self._waiting)
        if self._next is not None:
            yield self._next
        while (recorded := self._read()) is not None:
            yield recorded

    def close(self) -> None:
        """Close the file of waiting records."""
        self._waiting.close()

    def _read(self) -> Recorded | None:
        """Return the next record that is readable, wanted and not a repeat; None at the end of the log."""
        for record in self._records:
            recorded = self._recorded(record)
            if recorded is None:
                continue
            self.last_event_offset = max(self.last_event_offset, recorded.event_offset)
            if self._is_wanted(self, recorded) and not self._is_repeat(recorded):
                return recorded
        return None

    def _recorded(self, record: Record) -> Recorded | None:
        kind = FindingKind.NO_RECORD
        try:
            if not isinstance(record, CutRecord):
                return self._parse(record)
        except msgspec.ValidationError:
            pass
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            kind = FindingKind.CUT_OFF if "truncated" in str(error) else FindingKind.NOT_JSON
        self._report(finding_at(kind, self.name, record))
        return None

    def _is_repeat(self, recorded: Recorded) -> bool:
        """Return whether a record repeats a removed one. Count an equal repeat, report an altered one."""
        expected = self._answered.get(recorded.identity)
        if expected is None:
            return False
        if _digest(self._content(recorded)) == expected:
            self.repeated += 1
        else:
            kind, identity = FindingKind.ALTERED_REPEAT, recorded.identity
            self._report(finding_at(kind, self.name, recorded.record, decision_id=identity))
        return True

    def _content(self, recorded: Recorded) -> dict[str, Any]:
        """Return the fields of a record that are compared; none if it is unreadable."""
        try:
            fields = read(recorded.value)
        except NotJsonError:
            return {}
        return {key: value for key, value in fields.items() if key not in self._not_compared}


def _digest(content: Any) -> bytes:
    return hashlib.blake2b(canonical_json(content), digest_size=16).digest()
