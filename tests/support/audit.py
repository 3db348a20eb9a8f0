"""An audit of a worker's topics against a pure replay of its input.

It separates faults from the effects of at-least-once delivery: repeated outputs, and late rows that lose
against rows with a higher seen offset. It reads no topic; callers pass the records.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from apportion.core.wire.record import Record, header
from support.expected import Expectation, Kind, Output, Seen, fingerprint

_TOLD_MAX = 20
"""The number of faults listed one by one; all are counted."""


class Fault(StrEnum):
    """The kinds of faults."""

    LOST = "lost"
    """an event without its answer, or a refused one without its dead letter"""
    ALTERED = "altered"
    """an output that differs from the result of its event and earlier events"""
    UNASKED = "unasked"
    """an output of no event of this partition"""
    REORDERED = "reordered"
    """an output that came for the first time behind one of a later event"""
    DOUBLED = "doubled"
    """a repeated output or a late row, although each must be there once"""
    ROW_LOST = "row_lost"
    """a session without a row"""
    ROW_ALTERED = "row_altered"
    """a row that differs from the events up to its offset: an event lost or charged twice"""
    ROW_BEHIND = "row_behind"
    """a session with a row that has not seen its last event"""
    ROW_UNASKED = "row_unasked"
    """a row of no event of this partition"""
    UNCOMMITTED = "uncommitted"
    """an end of the partition that is not committed"""


class Found(Struct, frozen=True):
    """A fault and where it is: of an output its id, of a row its session's key, and an offset."""

    fault: Fault
    partition: int
    offset: int
    what: str = ""


class Row(Struct, frozen=True):
    """A row: the last seen offset, and the digest of its session; None for a removed row."""

    key: bytes
    seen_offset: int
    digest: str | None


class Partition(Struct, frozen=True):
    """The records of one partition of all topics at the end, in the order of offsets.

    `rows` are the rows written to the changelog, and `held` the rows after a recovery from it. `committed` is
    the group's offset in the requests topic, None without a commit.
    """

    number: int
    requests: Iterable[Record]
    composed: Iterable[Record]
    decisions: Iterable[Record]
    dead_letters: Iterable[Record]
    rows: Iterable[Row]
    held: Iterable[Row]
    committed: int | None


class Audited(Struct, frozen=True):
    """The counts of an audit; at-least-once delivery allows `repeated` outputs and `late_rows`."""

    events: int = 0
    outputs: int = 0
    dead_letters: int = 0
    repeated: int = 0
    late_rows: int = 0
    faults: dict[Fault, int] = {}
    found: tuple[Found, ...] = ()

    @property
    def is_right(self) -> bool:
        """Whether there is no fault."""
        return not self.faults

    def __add__(self, other: "Audited") -> "Audited":
        return Audited(
            self.events + other.events,
            self.outputs + other.outputs,
            self.dead_letters + other.dead_letters,
            self.repeated + other.repeated,
            self.late_rows + other.late_rows,
            dict(Counter(self.faults) + Counter(other.faults)),
            (self.found + other.found)[:_TOLD_MAX],
        )

    def __str__(self) -> str:
        faults = ", ".join(f"{fault} {count:,}" for fault, count in self.faults.items()) or "none"
        return (
            f"{self.events:,} events, {self.outputs:,} outputs ({self.dead_letters:,} dead letters, "
            f"{self.repeated:,} repeated), {self.late_rows:,} late rows; faults: {faults}"
        )


def audit(
    partition: Partition, expectation: Expectation, *, once: bool = False, by_turns: bool = False
) -> Audited:
    """Compare the records of a partition with the expectation.

    With `once`, repeated outputs and late rows are faults: for topics read committed, of a worker with
    exactly-once delivery. With `by_turns`, order is required only within a session, because one tenant may go
    ahead of another.
    """
    return _Audit(partition.number, once=once, by_turns=by_turns).of(partition, expectation)


class _Audit:
    """One run over a partition."""

    def __init__(self, partition: int, *, once: bool, by_turns: bool) -> None:
        self._partition = partition
        self._once = once
        self._by_turns = by_turns
        self._faults: Counter[Fault] = Counter()
        self._found: list[Found] = []
        self._repeated = self._late_rows = self._outputs = self._dead_letters = 0

    def of(self, partition: Partition, expectation: Expectation) -> Audited:
        seen = list(map(_Expected.of, expectation.of(partition.requests)))
        written = {  # dead letters first: an event that was refused by mistake explains all faults behind it
            Kind.DEAD_LETTER: partition.dead_letters,
            Kind.COMPOSED: partition.composed,
            Kind.DECISION: partition.decisions,
        }
        for kind, records in written.items():
            self._compare_outputs(kind, records, seen)
        self._compare_rows(partition, seen)
        end = seen[-1].offset + 1 if seen else 0
        if seen and (partition.committed or 0) < end:
            self._tell(Fault.UNCOMMITTED, partition.committed or 0)
        return Audited(
            len(seen),
            self._outputs,
            self._dead_letters,
            self._repeated,
            self._late_rows,
            dict(self._faults),
            tuple(self._found),
        )

    def _tell(self, fault: Fault, offset: int, what: str = "") -> None:
        self._faults[fault] += 1
        if len(self._found) < _TOLD_MAX:
            self._found.append(Found(fault, self._partition, offset, what))

    def _compare_outputs(self, kind: Kind, records: Iterable[Record], seen: "list[_Expected]") -> None:
        wanted = {
            output.identity: (row.offset, output.fingerprint)
            for row in seen
            for output in row.outputs
            if output.kind is kind
        }
        first: set[str] = set()
        latest: dict[bytes | None, int] = {}
        for record in records:
            self._outputs += 1
            self._dead_letters += kind is Kind.DEAD_LETTER
            identity = (header(record.headers, "ce_id") or b"").decode(errors="replace")
            if identity not in wanted:
                self._tell(Fault.UNASKED, record.offset, identity)
                continue
            asked_at, expected = wanted[identity]
            if fingerprint(record.key, record.value or b"", record.headers) != expected:
                self._tell(Fault.ALTERED, record.offset, identity)
            if identity in first:
                self._repeated += 1
                if self._once:
                    self._tell(Fault.DOUBLED, record.offset, identity)
                continue
            of = record.key if self._by_turns else None
            if asked_at < latest.get(of, -1):
                self._tell(Fault.REORDERED, record.offset, identity)
            latest[of] = max(latest.get(of, -1), asked_at)
            first.add(identity)
        for identity in wanted.keys() - first:
            self._tell(Fault.LOST, wanted[identity][0], identity)

    def _compare_rows(self, partition: Partition, seen: "list[_Expected]") -> None:
        digests = {(row.key, row.offset): row.row_digest for row in seen if row.row_digest}
        last = dict(digests.keys())
        latest: dict[bytes, int] = {}
        for row in partition.rows:
            self._compare_row(row, digests)
            if row.seen_offset <= latest.get(row.key, -1) and row.digest is not None:
                self._late_rows += 1
                if self._once:
                    self._tell(Fault.DOUBLED, row.seen_offset, _name(row.key))
            latest[row.key] = max(row.seen_offset, latest.get(row.key, -1))
            if row.digest is None and row.seen_offset >= last.get(row.key, -1):
                last.pop(row.key, None)  # removed, and not used again
        held = {row.key: row for row in partition.held}
        for key, offset in last.items():
            if key not in held:
                self._tell(Fault.ROW_LOST, offset, _name(key))
            elif held[key].seen_offset < offset:
                self._tell(Fault.ROW_BEHIND, held[key].seen_offset, _name(key))
        for row in held.values():
            self._compare_row(row, digests)

    def _compare_row(self, row: Row, digests: dict[tuple[bytes, int], str]) -> None:
        digest = digests.get((row.key, row.seen_offset))
        if digest is None:
            self._tell(Fault.ROW_UNASKED, row.seen_offset, _name(row.key))
        elif row.digest not in (digest, None):
            self._tell(Fault.ROW_ALTERED, row.seen_offset, _name(row.key))


def _name(key: bytes) -> str:
    return key.decode(errors="replace")


class _Expected(Struct, frozen=True):
    """The expectation for a record, without the record, because many are kept."""

    offset: int
    key: bytes
    outputs: tuple[Output, ...]
    row_digest: str | None

    @classmethod
    def of(cls, seen: Seen) -> "_Expected":
        return cls(seen.record.offset, seen.record.key or b"", seen.outputs, seen.row_digest)
