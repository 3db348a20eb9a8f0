"""Findings of a verification: a field that differs, or a reason for which nothing could be compared.

`docs/verify.md` says what each name means and what to do.
"""

from collections import Counter
from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.events import Opt
from apportion.core.wire.record import Record
from apportion.engine.offline.lines import FILE_TOPIC


class Found(StrEnum):
    """What is wrong: that a field differs, or why a decision or a dead letter is unverifiable."""

    DIFFERENCE = "difference"
    ENGINE_VERSION = "engine_version"
    UNKNOWN_POLICY = "unknown_policy"
    NO_SECRET = "no_secret"  # noqa: S105 - the name of a reason
    OTHER_SECRET = "other_secret"  # noqa: S105 - likewise
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
    """Something that is not as it should be, made by `finding_at`.

    Its place and that of its event: in files `line` and `event_line`, which count from 1; in topics `offset`
    and `event_offset` of a `partition`. `log` is the file or topic of decisions, or of dead letters.
    `place` is the first field that differs, as `$.candidates[3].margin.left`, with what was `recorded` there
    and what is `composed` now; a field that one of them lacks is left out.
    """

    found: Found
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
    found: Found,
    log: str,
    record: Record | None,
    event: Record | None = None,
    decision_id: Opt[str] = UNSET,
) -> Finding:
    """Return a finding about a record and its event, at their places; at least one of them is known."""
    place = record or event
    assert place is not None, "a finding has a place"
    offset = UNSET if record is None else record.offset
    event_offset = UNSET if event is None else event.offset
    if place.topic == FILE_TOPIC:
        line, event_line = _line(offset), _line(event_offset)
        return Finding(found, log, line, event_line, decision_id=decision_id)
    return Finding(
        found,
        log,
        partition=place.partition,
        offset=offset,
        event_offset=event_offset,
        decision_id=decision_id,
    )


def _line(offset: Opt[int]) -> Opt[int]:
    return UNSET if offset is UNSET else offset + 1


class VerificationSummary(Struct, frozen=True):
    """What was counted. `repeated` decisions were recorded more than once, alike each time.

    Requests `in_flight` were recorded, and are not known to be answered yet.
    """

    verified: int = 0
    dead_letters: int = 0
    repeated: int = 0
    differences: int = 0
    unverifiable: dict[str, int] = {}
    in_flight: int = 0

    @property
    def is_right(self) -> bool:
        """Whether all that was recorded was composed again, the same."""
        return not self.differences and not self.unverifiable

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to compare."""
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
        reasons = Counter(self.unverifiable) + Counter(other.unverifiable)
        return VerificationSummary(
            self.verified + other.verified,
            self.dead_letters + other.dead_letters,
            self.repeated + other.repeated,
            self.differences + other.differences,
            {str(found): reasons[found] for found in Found if reasons[found]},
            self.in_flight + other.in_flight,
        )


def summary(verified: int, dead_letters: int, repeated: int, counts: "Counter[Found]") -> VerificationSummary:
    """Return what was counted, the reasons in the order of their declaration."""
    unverifiable = {
        str(found): counts[found] for found in Found if found is not Found.DIFFERENCE and counts[found]
    }
    whole = VerificationSummary(verified, dead_letters, repeated, counts[Found.DIFFERENCE])
    return replace(whole, unverifiable=unverifiable)


def counted(count: int, what: str) -> str:
    """Return `1 decision`, `2 decisions`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
