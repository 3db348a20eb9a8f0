"""A log of decisions or dead letters, read as far as the events need it.

The record of an event is the first of its name. A log in the order of its events is read record by record; in
another order, records that are read too early wait. A second record of an identity is a repeat, as
at-least-once delivery allows: it is counted if it is alike, and else a finding.
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
from apportion.decisions.replay.findings import Finding, Found, finding_at
from apportion.decisions.replay.recorded import Parse, Recorded
from apportion.decisions.replay.waiting import Waiting
from apportion.engine.offline.lines import CutRecord

LINE_MAX_BYTES = 64 << 20
_ANSWERED_MAX = 1 << 16
"""How many of the latest answers are known when one comes again; some 16 MB."""
_TRUNCATED = "truncated"
"""What msgspec says of JSON that ends too early."""


class RecordedLog:
    """The records of one log, each given once."""

    def __init__(
        self,
        name: str,
        records: Iterable[Record],
        parse: Parse,
        beside: Collection[str],
        tell: Callable[[Finding], None],
        takes: Callable[["RecordedLog", Recorded], bool] = lambda _, __: True,
    ) -> None:
        """`beside` are the fields that are not compared; `tell` takes what is wrong with the log itself.

        What it does not take is as if it were not there.
        """
        self.name = name
        self.repeated = 0
        self.last_event_offset = -1
        """The furthest event of all records that were read."""
        self._records = iter(records)
        self._parse = parse
        self._beside = beside
        self._tell = tell
        self._takes = takes
        self._next: Recorded | None = None
        self._waiting = Waiting()
        self._answered: Bounded[str, bytes] = Bounded(_ANSWERED_MAX)

    def at_hand(self, name: bytes) -> Recorded | None:
        """Return the first record of a name if it was read already, or is the next; it stays."""
        waiting = self._waiting.first(name)
        if waiting is not None:
            return self._parse(waiting)
        if self._next is None:
            self._next = self._read()
        return self._next if self._next is not None and self._next.name == name else None

    def find(self, name: bytes) -> Recorded | None:
        """Return the first record of a name, however far one must read; it stays."""
        while (found := self.at_hand(name)) is None and self._next is not None:
            self._waiting.put(self._next.name, self._next.record)
            self._next = None
        return found

    def answered(self, recorded: Recorded, composed: Struct | None) -> None:
        """Let a record go that was found, and know any that repeats it, now or later.

        A repeat must be as it was composed; where that is not known, as it was recorded.
        """
        if self._next is recorded:
            self._next = None
        else:
            self._waiting.drop(recorded.name)
        self._answered.put(
            recorded.identity, _digest(self._content(recorded) if composed is None else composed)
        )
        if self._next is not None and self._is_repeat(self._next):
            self._next = None
        while (waiting := self._waiting.first(recorded.name)) is not None:
            again = self._parse(waiting)
            if not self._is_repeat(again):
                return
            self._waiting.drop(recorded.name)

    def rest(self) -> Iterator[Recorded]:
        """Yield all records that no event was found for."""
        yield from map(self._parse, self._waiting)
        if self._next is not None:
            yield self._next
        while (recorded := self._read()) is not None:
            yield recorded

    def close(self) -> None:
        """Let go of what waits."""
        self._waiting.close()

    def _read(self) -> Recorded | None:
        """Return the next record that can be read and is no repeat."""
        for record in self._records:
            recorded = self._recorded(record)
            if recorded is None:
                continue
            self.last_event_offset = max(self.last_event_offset, recorded.event_offset)
            if self._takes(self, recorded) and not self._is_repeat(recorded):
                return recorded
        return None

    def _recorded(self, record: Record) -> Recorded | None:
        found = Found.NO_RECORD
        try:
            if not isinstance(record, CutRecord):
                return self._parse(record)
        except msgspec.ValidationError:
            pass
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            found = Found.CUT_OFF if _TRUNCATED in str(error) else Found.NOT_JSON
        self._tell(finding_at(found, self.name, record))
        return None

    def _is_repeat(self, recorded: Recorded) -> bool:
        """Tell whether a record repeats an answered one, and count it, or say that it is not alike."""
        answered = self._answered.get(recorded.identity)
        if answered is None:
            return False
        if _digest(self._content(recorded)) == answered:
            self.repeated += 1
        else:
            identity = recorded.identity
            self._tell(finding_at(Found.ALTERED_REPEAT, self.name, recorded.record, decision_id=identity))
        return True

    def _content(self, recorded: Recorded) -> dict[str, Any]:
        """Return the fields of a record that are compared; none if it cannot be read."""
        try:
            return {key: value for key, value in read(recorded.value).items() if key not in self._beside}
        except NotJsonError:
            return {}


def _digest(content: Any) -> bytes:
    return hashlib.blake2b(canonical_json(content), digest_size=16).digest()
