"""The audit of a worker's topics: it finds every planted fault, and none in correct output."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace
from support.audit import Audited, Fault, Partition, Row, audit
from support.composing import ENGINE, NOW, candidate
from support.expected import Expectation

from apportion.core.accountant import NOTHING
from apportion.core.bounds import Bounds
from apportion.core.composer import Composer
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Event, session_key
from apportion.core.memory import CompositionCache, Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.policies.timeline import Timeline
from apportion.core.session.row import EMPTY
from apportion.core.wire import codec
from apportion.core.wire.cloudevents import EventHeaders
from apportion.core.wire.dead_letter import dead_letter
from apportion.core.wire.record import Record
from apportion.engine.policies import builtin_policies

SOURCE = "apportion/test"
PARTITION = 3


def check_place(event: Event, record: Record) -> None:
    if record.key != session_key(event.tenant, event.session_id).encode():
        raise EventError(ErrorCode.WRONG_KEY, "another key")


EXPECTATION = Expectation(
    ENGINE, Timeline(builtin_policies(), "test", 0), "lanes", Bounds(), SOURCE, check_place
)


def event(number: int, session: str, **changes: Any) -> dict[str, Any]:
    return {
        "type": "context-request",
        "request_id": f"r{number}",
        "session_id": session,
        "requested_at": NOW,
        "candidates": [candidate(f"c{number}", 20)],
    } | changes


def recorded(events: Sequence[tuple[str, bytes]]) -> list[Record]:
    return [
        Record("requests", PARTITION, offset, offset, f"default/{session}".encode(), value)
        for offset, (session, value) in enumerate(events)
    ]


ARTIFACT = {
    "type": "context-artifact",
    "session_id": "b",
    "published_at": NOW,
    "source": "test",
    "artifact": candidate("pooled", 5),
}
EVENTS = recorded(
    [
        ("a", json.dumps(event(0, "a")).encode()),
        ("b", json.dumps(event(1, "b")).encode()),
        ("a", b"no event"),
        ("a", json.dumps(event(3, "a")).encode()),
        ("b", json.dumps(ARTIFACT).encode()),
        ("b", json.dumps(event(5, "b")).encode()),
        ("a", json.dumps(event(3, "a")).encode()),
        ("a", json.dumps(event(7, "a")).encode()),
    ]
)


def answered(records: Sequence[Record]) -> Partition:
    """Return the output of a correct worker, composed by the core alone."""
    composer = Composer(ENGINE, Catalogue(builtin_policies()), "lanes", Memory())
    rows: dict[bytes, Any] = {}
    composed: list[Record] = []
    decisions: list[Record] = []
    dead_letters: list[Record] = []
    written: list[Row] = []

    def output(record: Record, topic: list[Record], kind: str, name: str, value: bytes, time: Any) -> None:
        headers = EventHeaders(f"context-{kind}.v1", SOURCE).build(name, record.headers, time)
        topic.append(Record(kind, PARTITION, len(topic), 0, record.key, value, headers))

    for record in records:
        assert record.key is not None
        try:
            decoded = codec.decode(record.value, Bounds())
        except EventError as error:
            letter = codec.encode(dead_letter(record, error, ENGINE.version))
            output(record, dead_letters, "dead-letter", str(record), letter, None)
            continue
        session, outcome = composer.handle(decoded, rows.get(record.key, EMPTY))
        rows[record.key] = session
        written.append(Row(record.key, record.offset, session.digest))
        if outcome is not None:
            name, time = outcome.decision.decision_id, str(to_builtins(outcome.decision.requested_at))
            decision = codec.encode(outcome.decision)[:-1] + b',"run":{"worker":"somebody"}}'
            output(record, composed, "composed", f"{name}-composed", codec.encode(outcome.composed), time)
            output(record, decisions, "decision", f"{name}-decision", decision, time)
    held = {row.key: row for row in written}.values()
    return Partition(PARTITION, records, composed, decisions, dead_letters, written, list(held), len(records))


RIGHT = answered(EVENTS)


def without(records: Any, *places: int) -> list[Any]:
    return [one for place, one in enumerate(records) if place not in places]


def found(partition: Partition, *, once: bool = False, by_turns: bool = False) -> Audited:
    return audit(partition, EXPECTATION, once=once, by_turns=by_turns)


def test_complete_outputs_pass_the_audit() -> None:
    for once in (False, True):
        audited = found(RIGHT, once=once)
        assert audited.is_right, audited
        assert (audited.events, audited.outputs, audited.dead_letters) == (8, 13, 1)
        assert (audited.repeated, audited.late_rows) == (0, 0)


def test_the_audit_takes_no_composition_from_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    again = recorded([("a", json.dumps(event(0, "a", request_id=name)).encode()) for name in ("r0", "r1")])
    right = answered(again)
    put = CompositionCache.put

    def put_nothing(
        cache: CompositionCache, policy: str, key: str, event_us: int, *_: Any, **how: int
    ) -> None:
        put(cache, policy, key, event_us, NOTHING, **how)

    monkeypatch.setattr(CompositionCache, "put", put_nothing)
    assert found(right).is_right


def test_rows_are_written_for_the_last_event_of_a_batch_alone_and_that_is_right() -> None:
    assert found(replace(RIGHT, rows=without(RIGHT.rows, 0, 2, 3))).is_right


def test_with_turns_order_is_required_only_within_a_session() -> None:
    first, second, third, *rest = RIGHT.composed
    assert first.key == third.key != second.key
    ahead = replace(RIGHT, composed=[second, first, third, *rest])
    assert found(ahead, by_turns=True).is_right
    swapped = replace(RIGHT, composed=[third, second, first, *rest])
    assert found(swapped, by_turns=True).faults == {Fault.REORDERED: 1}


def test_a_repeated_output_is_a_fault_only_if_exactly_once() -> None:
    decisions = list(RIGHT.decisions)
    again = decisions[2].value or b""
    twice = replace(decisions[2], value=again.replace(b"somebody", b"somebody else"))
    written = replace(RIGHT, decisions=[*decisions, twice])
    assert found(written).is_right
    assert found(written).repeated == 1
    assert found(written, once=True).faults == {Fault.DOUBLED: 1}


def test_a_late_row_is_a_fault_only_if_exactly_once() -> None:
    rows = list(RIGHT.rows)
    written = replace(RIGHT, rows=[*rows, rows[0]])
    assert found(written).is_right
    assert found(written).late_rows == 1
    assert found(written, once=True).faults == {Fault.DOUBLED: 1}


def test_a_row_removed_after_its_last_event_is_correct() -> None:
    rows, held = list(RIGHT.rows), list(RIGHT.held)
    gone = Row(held[0].key, held[0].seen_offset, None)
    assert found(replace(RIGHT, rows=[*rows, gone], held=held[1:])).is_right
    too_early = Row(held[0].key, rows[0].seen_offset, None)
    assert set(found(replace(RIGHT, rows=[*rows, too_early], held=held[1:])).faults) == {Fault.ROW_LOST}


def changed(records: Any, place: int, **changes: Any) -> list[Any]:
    return [replace(one, **changes) if at == place else one for at, one in enumerate(records)]


def planted() -> Iterator[tuple[str, Partition, set[Fault]]]:
    composed, decisions, letters = list(RIGHT.composed), list(RIGHT.decisions), list(RIGHT.dead_letters)
    rows = list(RIGHT.rows)
    yield "a lost answer", replace(RIGHT, composed=without(composed, 2)), {Fault.LOST}
    yield "a lost decision", replace(RIGHT, decisions=without(decisions, 0)), {Fault.LOST}
    yield "a lost dead letter", replace(RIGHT, dead_letters=[]), {Fault.LOST}
    else_value = (composed[2].value or b"").replace(b'"status":"composed"', b'"status":"other"')
    doubled = replace(composed[2], value=else_value)
    assert doubled != composed[2]
    yield "one doubled with other bytes", replace(RIGHT, composed=[*composed, doubled]), {Fault.ALTERED}
    swapped = changed(composed, 1, value=composed[4].value)
    yield "an answer swapped for another", replace(RIGHT, composed=swapped), {Fault.ALTERED}
    elsewhere = changed(decisions, 1, key=b"default/a")
    yield "a decision under another key", replace(RIGHT, decisions=elsewhere), {Fault.ALTERED}
    headers = changed(decisions, 1, headers=(*decisions[1].headers, ("more", b"")))
    yield "a decision with another header", replace(RIGHT, decisions=headers), {Fault.ALTERED}
    moved = [composed[1], composed[0], *composed[2:]]
    yield "answers in another order", replace(RIGHT, composed=moved), {Fault.REORDERED}
    unasked = [*composed, replace(composed[0], headers=())]
    yield "an answer to nothing", replace(RIGHT, composed=unasked), {Fault.UNASKED}
    wrong = [*letters, replace(letters[0], value=b"{}")]
    yield "a dead letter of other bytes", replace(RIGHT, dead_letters=wrong), {Fault.ALTERED}
    held = list(RIGHT.held)
    a = [row for row in rows if row.key == b"default/a"]
    stale = changed(held, 0, seen_offset=a[-2].seen_offset, digest=a[-2].digest)
    yield "a stale row that a recovery takes", replace(RIGHT, held=stale), {Fault.ROW_BEHIND}
    other = changed(held, 0, digest=a[-2].digest)
    yield "a stale session under a late offset", replace(RIGHT, held=other), {Fault.ROW_ALTERED}
    yield "a session without a row", replace(RIGHT, held=held[:1]), {Fault.ROW_LOST}
    wrong_row = changed(rows, 2, digest=rows[0].digest)
    yield "a row that was wrong for a while", replace(RIGHT, rows=wrong_row), {Fault.ROW_ALTERED}
    early = [*rows, Row(b"default/a", 2, rows[0].digest)]
    yield "a row of a refused event", replace(RIGHT, rows=early), {Fault.ROW_UNASKED}
    yield "an end that is not committed", replace(RIGHT, committed=7), {Fault.UNCOMMITTED}
    yield "no commit at all", replace(RIGHT, committed=None), {Fault.UNCOMMITTED}


@pytest.mark.parametrize(("written", "faults"), [pytest.param(*rest, id=name) for name, *rest in planted()])
def test_a_planted_fault_is_found(written: Partition, faults: set[Fault]) -> None:
    audited = found(written)
    assert set(audited.faults) == faults
    assert {finding.fault for finding in audited.found} == faults
    assert {finding.partition for finding in audited.found} == {PARTITION}


def test_an_event_that_was_charged_twice_shows_in_all_that_follows() -> None:
    twice = answered([*EVENTS[:1], *recorded([("a", json.dumps(event(9, "a")).encode())]), *EVENTS[1:]])
    audited = found(replace(twice, requests=EVENTS, committed=len(EVENTS)))
    assert {Fault.LOST, Fault.UNASKED, Fault.ROW_ALTERED} <= set(audited.faults)


def test_partitions_add_up() -> None:
    both = found(RIGHT) + found(replace(RIGHT, dead_letters=[]))
    assert (both.events, both.outputs, both.faults) == (16, 25, {Fault.LOST: 1})
    assert "16 events, 25 outputs (1 dead letters, 0 repeated), 0 late rows; faults: lost 1" in str(both)
