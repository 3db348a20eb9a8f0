"""Verification of a worker's topics, with every kind of change to a topic."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from pydantic import SecretStr
from support.composing import ENGINE, SECRET, candidate
from support.recording import altered, asked, published

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import session_key
from apportion.core.policies.timeline import Timeline, policy_key, policy_value
from apportion.core.strategies import parse_policy
from apportion.core.text.tokens import CounterName
from apportion.core.wire.record import Record
from apportion.decisions.recompose.partition import PartitionRun, partition_run
from apportion.decisions.recompose.ranges import PartitionRange
from apportion.decisions.recompose.snapshot import StartRows
from apportion.decisions.replay.findings import Finding, FindingKind, VerificationSummary
from apportion.decisions.replay.reading import Extent
from apportion.decisions.replay.replaying import WhatIf
from apportion.decisions.replay.sums import Sum
from apportion.decisions.replay.verify import Verification
from apportion.decisions.replay.whatif import Change, DecisionDifference
from apportion.engine.assembly import create_timeline
from apportion.engine.policies import builtin_policies
from apportion.settings import Settings
from apportion.shell.kafka.records import OffsetSpan
from apportion.shell.stream.pipeline.answers import Answers
from apportion.shell.stream.state.row_format import Row
from apportion.shell.stream.state.stream_time import StreamTime

SETTINGS = Settings(partitions=1, fingerprint_secret=SecretStr(SECRET.decode()))
ALL = Extent()
RECORDED_MS = 1_772_366_400_000
COUNTER = CounterName.O200K_BASE
"""A counter of the built-in policies."""
LATER = "2026-03-01T13:00:00Z"


@dataclass(frozen=True)
class Topics:
    """The records of one partition of all topics, and the rows of its sessions."""

    requests: tuple[Record, ...]
    decisions: tuple[Record, ...]
    dead_letters: tuple[Record, ...]
    rows: dict[bytes, Row]


def at(offset: int, event: dict[str, Any] | bytes, time_ms: int = RECORDED_MS) -> Record:
    """Return an event as a record of the requests topic."""
    if isinstance(event, bytes):
        return Record(SETTINGS.requests_topic, 0, offset, time_ms, b"default/s", event)
    key = session_key(event.get("tenant", "default"), event["session_id"]).encode()
    return Record(SETTINGS.requests_topic, 0, offset, time_ms, key, json.dumps(event).encode())


def answered(
    records: Sequence[Record], settings: Settings = SETTINGS, timeline: Timeline | None = None
) -> Topics:
    """Answer records as a worker does."""
    answers = Answers(settings, ENGINE, timeline or create_timeline(settings), "w")
    rows: dict[bytes, Row] = {}
    out: dict[str, list[Record]] = {settings.decisions_topic: [], settings.dead_letters_topic: []}
    time = StreamTime(settings.max_lateness_s)
    for record in records:
        assert record.key is not None
        try:
            answer = answers.answer(record, rows.get(record.key), time)
            rows[record.key] = answer.row
            messages = answer.messages
        except EventError as error:
            messages = (answers.refuse(record, error),)
        for message in messages:
            if message.topic in out:
                out[message.topic].append(
                    Record(message.topic, 0, len(out[message.topic]), 2_000, message.key, message.value)
                )
    decisions, letters = out.values()
    return Topics(tuple(records), tuple(decisions), tuple(letters), rows)


class Reader:
    """Gives the records of spans, as the client of a broker does."""

    def __init__(self, topics: Topics, settings: Settings) -> None:
        self._records = {
            settings.requests_topic: topics.requests,
            settings.decisions_topic: topics.decisions,
            settings.dead_letters_topic: topics.dead_letters,
        }

    def read(self, *spans: OffsetSpan) -> tuple[Iterator[Record], ...]:
        return tuple(
            iter([record for record in self._records[span.topic] if span.first <= record.offset < span.end])
            for span in spans
        )


@dataclass(frozen=True)
class Audited:
    summary: VerificationSummary
    findings: tuple[Finding, ...]

    @property
    def found(self) -> list[FindingKind]:
        return [finding.found for finding in self.findings]


def end_of(records: Sequence[Record]) -> int:
    return records[-1].offset + 1 if records else 0


def run_of(
    topics: Topics,
    extent: Extent,
    start: StartRows | None = None,
    settings: Settings = SETTINGS,
    timeline: Timeline | None = None,
    what_if: WhatIf | None = None,
) -> PartitionRun:
    ranges = PartitionRange(
        0,
        OffsetSpan(settings.requests_topic, 0, extent.first, min(extent.end, end_of(topics.requests))),
        OffsetSpan(settings.decisions_topic, 0, 0, end_of(topics.decisions)),
        OffsetSpan(settings.dead_letters_topic, 0, 0, end_of(topics.dead_letters)),
        extent,
    )
    reader: Any = Reader(topics, settings)
    return partition_run(settings, timeline or create_timeline(settings), reader, ranges, start, what_if)


def audited(topics: Topics, extent: Extent = ALL, **arguments: Any) -> Audited:
    """Verify the records of the topics."""
    run = run_of(topics, extent, **arguments)
    assert isinstance(run.runner, Verification)
    findings = tuple(run.runner.run(run.events))
    return Audited(run.runner.summary, findings)


EVENTS = (
    at(0, asked("r1")),
    at(1, b"no json"),
    at(2, published(candidate("p", 30))),
    at(3, asked("r2")),
    at(4, asked("r3", "t")),
    at(5, asked("r4")),
)


@pytest.fixture(scope="module")
def topics() -> Topics:
    return answered(EVENTS)


def test_a_workers_output_is_verified_with_its_dead_letters(topics: Topics) -> None:
    assert audited(topics) == Audited(VerificationSummary(verified=4, dead_letters=1), ())


def test_an_altered_decision_is_found_at_its_offset_and_its_events(topics: Topics) -> None:
    value = topics.decisions[1].value or b""
    changed = msgspec.structs.replace(topics.decisions[1], value=altered(value, "tokens", "used", value=7))
    [finding] = audited(
        replace(topics, decisions=(topics.decisions[0], changed, *topics.decisions[2:]))
    ).findings
    assert (finding.found, finding.place, finding.recorded) == (FindingKind.DIFFERENCE, "$.tokens.used", 7)
    assert (finding.partition, finding.offset, finding.event_offset) == (0, 1, 3)
    assert (finding.line, finding.event_line) == (UNSET, UNSET)


def test_a_dead_letter_is_compared_with_its_place_too(topics: Topics) -> None:
    [letter] = topics.dead_letters
    changed = msgspec.structs.replace(letter, value=altered(letter.value or b"", "key", value="AAAA"))
    [finding] = audited(replace(topics, dead_letters=(changed,))).findings
    assert (finding.found, finding.log, finding.place) == (FindingKind.DIFFERENCE, "dead_letters", "$.key")


def test_a_committed_request_without_decision_is_missing_and_a_later_one_in_flight(
    topics: Topics,
) -> None:
    cut = replace(topics, decisions=topics.decisions[:2])
    assert audited(cut, Extent(decided=5)).found == [FindingKind.NO_DECISION]
    assert audited(cut, Extent(decided=5)).summary.in_flight == 1
    assert audited(cut, Extent(decided=4)).summary.in_flight == 2
    assert audited(cut, Extent(decided=6)).found == [FindingKind.NO_DECISION, FindingKind.NO_DECISION]


def test_without_commits_the_last_decision_bounds_the_answered_offsets(topics: Topics) -> None:
    first, _, third, fourth = topics.decisions
    assert audited(replace(topics, decisions=(first, third)), Extent(decided=0)).found == [
        FindingKind.NO_DECISION
    ]
    assert audited(replace(topics, decisions=(first, third)), Extent(decided=0)).summary.in_flight == 1
    assert audited(replace(topics, decisions=(first, third, fourth)), Extent(decided=0)).found == [
        FindingKind.NO_DECISION
    ]


def test_with_turns_a_later_decision_does_not_prove_an_earlier_answer(
    topics: Topics,
) -> None:
    first, _, third, _ = topics.decisions
    by_turns = audited(replace(topics, decisions=(first, third)), Extent(decided=0, in_order=False))
    assert (by_turns.found, by_turns.summary.in_flight) == ([], 2)


def test_only_the_requested_range_is_compared_and_earlier_events_make_rows(topics: Topics) -> None:
    assert audited(topics, Extent(asked=3)).summary == VerificationSummary(verified=3)
    assert audited(topics, Extent(asked=3, end=4)).summary == VerificationSummary(verified=1)
    without = replace(topics, decisions=topics.decisions[1:], dead_letters=())
    assert audited(without, Extent(asked=3)) == Audited(VerificationSummary(verified=3), ())


def test_decisions_without_event_or_session_history_are_unverifiable(
    topics: Topics,
) -> None:
    result = audited(topics, Extent(first=3))
    assert result.found.count(FindingKind.EVENT_GONE) == 2
    assert result.found.count(FindingKind.SESSION_HISTORY) == 2
    assert result.summary.verified == 1
    [last] = [
        finding
        for finding in result.findings
        if finding.found is FindingKind.EVENT_GONE and finding.log == "dead_letters"
    ]
    assert last.offset == 0


def test_a_decision_without_any_event_is_reported(topics: Topics) -> None:
    without = replace(topics, requests=(*topics.requests[:4], *topics.requests[5:]))
    assert audited(without).found == [FindingKind.NO_EVENT]
    assert audited(without, Extent(asked=5)).found == []


def test_sessions_start_with_rows_and_pass_over_what_those_have_seen(topics: Topics) -> None:
    before = answered(EVENTS[:4])
    rows = {key.decode(): msgspec.json.encode(row.session) for key, row in before.rows.items()}
    seen = {key.decode(): row.seen_offset for key, row in before.rows.items()}
    start = StartRows(rows, seen)
    assert audited(topics, Extent(first=1, asked=1), start=start) == Audited(
        VerificationSummary(verified=2, dead_letters=0), ()
    )


@pytest.mark.parametrize("evolve", [False, True], ids=["from rows", "evolving"])
def test_a_replay_reports_the_requested_range_from_the_same_rows(
    topics: Topics,
    evolve: bool,  # noqa: FBT001 - parametrized
) -> None:
    before = answered(EVENTS[:4])
    rows = {key.decode(): msgspec.json.encode(row.session) for key, row in before.rows.items()}
    start = StartRows(rows, {key.decode(): row.seen_offset for key, row in before.rows.items()})
    unchanged = WhatIf(Change(counter=COUNTER), evolve)
    changed = WhatIf(Change(budget_tokens=0), evolve)
    for extent, rows_there, expected in (
        (ALL, None, 4),
        (Extent(asked=3, end=5), None, 2),
        (Extent(first=1, asked=1), start, 2),
    ):
        same = run_of(topics, extent, rows_there, what_if=unchanged)
        assert not any(
            result.is_change
            for result in same.runner.run(same.events)
            if isinstance(result, DecisionDifference)
        )
        run = run_of(topics, extent, rows_there, what_if=changed)
        assert [type(result) for result in run.runner.run(run.events)] == [DecisionDifference] * expected
        assert isinstance(run.runner.summary, Sum)
        assert (run.runner.summary.replayed, run.runner.summary.changed, run.runner.summary.is_whole) == (
            expected,
            expected,
            True,
        )


def test_a_replay_counts_events_in_flight_and_locates_unverifiable_ones(
    topics: Topics,
) -> None:
    cut = replace(topics, decisions=(topics.decisions[1],))
    run = run_of(cut, Extent(decided=3), what_if=WhatIf(Change(budget_tokens=0)))
    finding, difference = run.runner.run(run.events)
    assert isinstance(finding, Finding)
    assert (finding.found, finding.partition, finding.event_offset) == (FindingKind.NO_DECISION, 0, 0)
    assert isinstance(difference, DecisionDifference)
    total = run.runner.summary
    assert isinstance(total, Sum)
    assert (total.replayed, total.in_flight, total.unverifiable) == (1, 2, {"no_decision": 1})
    assert str(total).endswith("\n2 in flight")


def test_an_event_skipped_by_the_worker_is_reported_and_the_session_continues() -> None:
    answers = Answers(SETTINGS, ENGINE, create_timeline(SETTINGS), "w")
    kept = answered([event for event in EVENTS if event.offset != 3])
    message = answers.refuse(EVENTS[3], EventError(ErrorCode.EVENT_FAILED, "it ended the worker"))
    letter = Record(message.topic, 0, 1, 2_000, message.key, message.value)
    those = replace(kept, requests=EVENTS, dead_letters=(*kept.dead_letters, letter))
    result = audited(those)
    assert result.found == [FindingKind.SET_ASIDE]
    assert result.findings[0].event_offset == 3
    assert result.summary.verified == 3


def test_a_late_event_is_refused_as_the_worker_did() -> None:
    settings = SETTINGS.model_copy(update={"max_lateness_s": 60})
    late = answered([at(0, asked("r1", at=LATER)), at(1, asked("r2", "t"))], settings)
    assert audited(late, settings=settings) == Audited(VerificationSummary(verified=1, dead_letters=1), ())


def test_policies_come_from_the_topic_at_the_time_of_the_record() -> None:
    shipped = next(shipped for shipped in builtin_policies() if shipped.name == SETTINGS.default_policy)
    raw = shipped.model_dump(mode="json", exclude_unset=True) | {"version": "2", "budget_tokens": 4_000}
    policy = parse_policy(raw)
    record = Record(
        SETTINGS.policies_topic, 0, 0, RECORDED_MS, policy_key(policy).encode(), policy_value(policy)
    )
    timeline, refusals = create_timeline(SETTINGS).extended([record], SETTINGS.bounds)
    assert not refusals
    settle_ms = round(SETTINGS.policy_settle_s * 1000)
    records = [
        at(0, asked("r1"), RECORDED_MS + settle_ms - 1),
        at(1, asked("r2"), RECORDED_MS + settle_ms),
    ]
    made = answered(records, timeline=timeline)
    limits = [json.loads(decision.value or b"")["tokens"]["limit"] for decision in made.decisions]
    assert limits == [8_000, 4_000]
    assert audited(made, timeline=timeline).summary == VerificationSummary(verified=2)
    assert audited(made).found == [FindingKind.UNKNOWN_POLICY]


def test_a_dead_letter_of_a_policy_is_of_no_event(topics: Topics) -> None:
    place = {"topic": SETTINGS.policies_topic, "partition": 0, "offset": 9, "timestamp_ms": 1}
    [letter] = topics.dead_letters
    other = msgspec.structs.replace(
        letter, offset=1, value=altered(letter.value or b"", "source", value=place)
    )
    assert audited(replace(topics, dead_letters=(letter, other))).findings == ()
