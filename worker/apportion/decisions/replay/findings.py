"""Findings of a verification, and their counts. `docs/verify.md` has the meaning and remedy of each kind."""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct

from apportion.core.events import Opt
from apportion.core.wire.record import Record
from apportion.engine.offline.lines import FILE_TOPIC


class FindingKind(StrEnum):
    """The kinds: a difference in a field, or the reason why a decision or dead letter is unverifiable."""

    DIFFERENCE = "difference"
    ENGINE_VERSION = "engine_version"
    UNKNOWN_POLICY = "unknown_policy"
    NO_SECRET = "no_secret"  # noqa: S105 - the name of a reason
    OTHER_SECRET = "other_secret"  # noqa: S105 - the name of a reason
    SESSION_HISTORY = "session_history"
    EVENT_REFUSED = "event_refused"
    EVENT_GONE = "event_gone"
    SET_ASIDE = "set_aside"
    NO_EVENT = "no_event"
    NO_DECISION = "no_decision"
    NO_DEAD_LETTER = "no_dead_letter"
    ALTERED_REPEAT = "altered_repeat"
    NOT_JSON = "not_json"
    CUT_OFF = "cut_off"
    NO_RECORD = "no_record"


class Finding(Struct, frozen=True, omit_defaults=True):
    """A finding about a record of a log, its event or both; `finding_at` makes it.

    - `found`: the kind.
    - `log`: `decisions` or `dead_letters`.
    - `line`, `event_line`: in files, the lines of the record and of its event, from 1.
    - `partition`, `offset`, `event_offset`: in topics, the partition and the offsets of both.
    - `decision_id`: the id of the decision, if it is known.
    - `place`: the first field that differs, such as `$.candidates[3].margin.left`.
    - `recorded`, `composed`: the values of that field; a missing field is unset.
    """

    found: FindingKind
    log: str
    line: Opt[int] = UNSET
    event_line: Opt[int] = UNSET
    partition: Opt[int] = UNSET
    offset: Opt[int] = UNSET
    event_offset: Opt[int] = UNSET
    decision_id: Opt[str] = UNSET
    place: Opt[str] = UNSET
    recorded: Opt[Any] = UNSET
    composed: Opt[Any] = UNSET


def finding_at(
    kind: FindingKind,
    log: str,
    record: Record | None,
    event: Record | None = None,
    decision_id: Opt[str] = UNSET,
) -> Finding:
    """Return a finding about a record and its event; at least one of the two is given."""
    known = record or event
    assert known is not None, "a finding names a record or an event"
    offset, event_offset = (UNSET if each is None else each.offset for each in (record, event))
    if known.topic == FILE_TOPIC:
        line, event_line = (each if each is UNSET else each + 1 for each in (offset, event_offset))
        return Finding(kind, log, line, event_line, decision_id=decision_id)
    return Finding(kind, log, UNSET, UNSET, known.partition, offset, event_offset, decision_id)


class VerificationSummary(Struct, frozen=True):
    """The counts of a verification.

    - `repeated`: records that equal an earlier record of the same decision or dead letter.
    - `unverifiable`: all findings except differences, by kind.
    - `in_flight`: recorded requests that may not be answered yet.
    """

    verified: int = 0
    dead_letters: int = 0
    repeated: int = 0
    differences: int = 0
    unverifiable: dict[str, int] = {}
    in_flight: int = 0

    @property
    def is_right(self) -> bool:
        """True if no record differs and none is unverifiable; requests in flight do not count."""
        return not self.differences and not self.unverifiable

    @property
    def is_empty(self) -> bool:
        """True if there was nothing to compare, and no request is in flight."""
        return self == VerificationSummary()

    def __str__(self) -> str:
        parts = [f"{counted(self.verified, 'decision')} verified"]
        if self.dead_letters:
            parts.append(f"{counted(self.dead_letters, 'dead letter')} verified")
        if self.repeated:
            parts.append(f"{self.repeated:,} repeated")
        parts.append(counted(self.differences, "difference"))
        if self.unverifiable:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.unverifiable.items())
            parts.append(f"{sum(self.unverifiable.values()):,} unverifiable ({reasons})")
        if self.in_flight:
            parts.append(f"{self.in_flight:,} in flight")
        return ", ".join(parts)

    def __add__(self, other: "VerificationSummary") -> "VerificationSummary":
        return VerificationSummary(
            self.verified + other.verified,
            self.dead_letters + other.dead_letters,
            self.repeated + other.repeated,
            self.differences + other.differences,
            by_kind(Counter(self.unverifiable) + Counter(other.unverifiable)),
            self.in_flight + other.in_flight,
        )


def by_kind(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts above 0 in the order of `FindingKind`."""
    return {str(kind): counts[kind] for kind in FindingKind if counts.get(kind)}


def counted(count: int, what: str) -> str:
    """Return `1 decision`, `2 decisions`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
