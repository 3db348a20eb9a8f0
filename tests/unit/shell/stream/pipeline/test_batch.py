"""Batches of a partition's events: their outputs and their ends."""

import gc
import json
from typing import Any

import pytest
from aiokafka.structs import ConsumerRecord
from msgspec import Struct
from support.composing import NOW, candidate
from support.running import request

from apportion.core.session.row import EMPTY
from apportion.engine.assembly import create_engine, create_timeline
from apportion.settings import Settings
from apportion.shell.stream.faults import EventFailedError, TooManyDeadLettersError
from apportion.shell.stream.pipeline.answers import Answers
from apportion.shell.stream.pipeline.batch import Batch, BatchBounds, BatchComposer
from apportion.shell.stream.pipeline.breaker import DeadLetterShare
from apportion.shell.stream.state.row_format import Row, encode_row, seen_offset_of
from apportion.shell.stream.state.rows import PartitionRows

SETTINGS = Settings(partitions=1)
KEY = b"default/s"
NOW_MS = 1_772_366_400_000
OUTPUTS = [SETTINGS.composed_topic, SETTINGS.decisions_topic]
BAD = {"type": "nothing"}
LONG = BatchBounds(work_s=60.0)


def read(offset: int, event: Any, timestamp: int | None = NOW_MS, key: bytes = KEY) -> Any:
    value, headers = json.dumps(event).encode(), (("traceparent", b"00-1"),)
    return ConsumerRecord(
        SETTINGS.requests_topic,
        0,
        offset,
        timestamp,
        0,
        key,
        value,
        None,
        0,
        0,
        headers,
    )


class Stored(Struct):
    """A record of the changelog, as a client gives it."""

    offset: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


def composer(bounds: BatchBounds = LONG, window: int = 2, share_max: float = 1.0) -> BatchComposer:
    answers = Answers(SETTINGS, create_engine(SETTINGS), create_timeline(SETTINGS), "w")
    share = DeadLetterShare(window, share_max)
    return BatchComposer(answers, share, bounds)


def rows_with(row: Row | None) -> PartitionRows:
    rows = PartitionRows("changelog 0")
    if row is not None:
        rows.hold(KEY, row)
    return rows


def compose(*records: Any, rows: PartitionRows | None = None, **options: Any) -> Batch:
    return composer(**options).compose(rows_with(None) if rows is None else rows, records, 0)


def counts(batch: Batch) -> dict[str, int]:
    return {topic: len(messages) for topic, messages in batch.messages.items()}


def test_a_batch_has_the_answers_in_order_and_the_last_row_of_each_session() -> None:
    rows = PartitionRows("changelog 0")
    other = request("r1", "t")
    batch = compose(
        read(3, request("r0")), read(4, other, key=b"default/t"), read(7, request("r2")), rows=rows
    )
    assert (batch.offset, batch.next_offset, batch.events) == (3, 8, 3)
    for topic in OUTPUTS:
        assert [json.loads(message.value)["request_id"] for message in batch.messages[topic]] == [
            "r0",
            "r1",
            "r2",
        ]
        assert all(("traceparent", b"00-1") in message.headers for message in batch.messages[topic])
    assert batch.before == {KEY: None, b"default/t": None}
    seen = {key: seen_offset_of(value or b"") for [(key, value, _)] in batch.states}
    assert seen == {KEY: 7, b"default/t": 4}
    row = rows.row(KEY)
    assert row is not None
    assert (row.seen_offset, row.session.prompts) == (7, 2)


def test_an_artifact_gives_a_row_alone() -> None:
    artifact = {
        "type": "context-artifact",
        "session_id": "s",
        "source": "test",
        "published_at": NOW,
        "artifact": candidate("a"),
    }
    batch = compose(read(0, artifact))
    assert batch.messages == {}
    assert len(batch.states) == 1


def test_offsets_that_the_row_has_seen_give_no_output() -> None:
    rows = rows_with(Row(5, EMPTY))
    batch = compose(*(read(offset, request(f"r{offset}")) for offset in (4, 5, 6)), rows=rows)
    assert batch.next_offset == 7
    assert counts(batch) == dict.fromkeys(OUTPUTS, 1)
    assert batch.before == {KEY: Row(5, EMPTY)}


def test_a_refused_event_gives_a_dead_letter_and_changes_no_row() -> None:
    batch = compose(read(7, BAD), rows=rows_with(Row(6, EMPTY)))
    assert counts(batch) == {SETTINGS.dead_letters_topic: 1}
    assert batch.states == []
    [letter] = batch.messages[SETTINGS.dead_letters_topic]
    source = json.loads(letter.value)["source"]
    assert source == {
        "topic": SETTINGS.requests_topic,
        "partition": 0,
        "offset": 7,
        "timestamp_ms": NOW_MS,
    }


def test_a_record_of_no_known_time_has_none_in_its_dead_letter() -> None:
    batch = compose(read(0, BAD, None))
    [letter] = batch.messages[SETTINGS.dead_letters_topic]
    assert json.loads(letter.value)["source"]["timestamp_ms"] == -1


def test_rows_are_restored_if_a_batch_is_undone() -> None:
    rows = rows_with(Row(2, EMPTY))
    batch = compose(read(3, request("r0")), rows=rows)
    rows.restore(batch.before)
    assert rows.row(KEY) == Row(2, EMPTY)


def test_an_undone_batch_leaves_its_repairs_to_the_next() -> None:
    other, new, late = b"default/t", encode_row(Row(2, EMPTY)), encode_row(Row(1, EMPTY))
    rows = PartitionRows("changelog 0")
    rows.read([Stored(0, other, new), Stored(1, other, late)])
    rows.join(2)
    records = [read(3, request("r0"))]
    first = composer().compose(rows, records, 0)
    first.undo(rows)
    again = composer().compose(rows, records, 0)
    assert [(other, new, ())] in again.states
    assert again.states == first.states


@pytest.mark.parametrize(
    "bounds",
    [
        BatchBounds(records=1, work_s=60.0),
        BatchBounds(bytes=1, work_s=60.0),
        BatchBounds(work_s=0.0),
    ],
    ids=["records", "bytes", "time"],
)
def test_a_batch_ends_at_each_bound_and_has_one_event_at_least(bounds: BatchBounds) -> None:
    batch = compose(read(0, request("r0")), read(1, request("r1")), bounds=bounds)
    assert batch.events == 1


def test_a_batch_begins_at_the_end_of_the_batch_before() -> None:
    rows, made = PartitionRows("changelog 0"), composer()
    records = [read(offset, request(f"r{offset}")) for offset in range(3)]
    assert made.compose(rows, records, 2).offset == 2


def test_a_batch_ends_before_an_event_that_cannot_be_dealt_with(monkeypatch: pytest.MonkeyPatch) -> None:
    made, rows = composer(), PartitionRows("changelog 0")
    real = made._answers.answer

    def answer(record: Any, *rest: Any) -> Any:
        if record.offset == 1:
            raise ZeroDivisionError
        return real(record, *rest)

    monkeypatch.setattr(made._answers, "answer", answer)
    batch = made.compose(rows, [read(offset, request(f"r{offset}")) for offset in range(3)], 0)
    assert (batch.events, batch.next_offset) == (1, 1)
    assert isinstance(batch.failure, EventFailedError)
    assert "offset 1: an error in the worker (ZeroDivisionError" in str(batch.failure)


def test_the_last_of_too_many_refused_events_is_in_the_batch() -> None:
    good = [request(f"r{number}") for number in range(18)]
    events = [*good, BAD, BAD, request("next")]
    batch = compose(*(read(offset, event) for offset, event in enumerate(events)), share_max=0.5)
    assert batch.events == 20
    assert isinstance(batch.failure, TooManyDeadLettersError)


def test_a_refused_event_releases_its_fetched_data() -> None:
    """An error that is kept holds its frames, and they the records: a cycle, which is seldom looked for."""
    bad = [BAD, request("r", "another session"), request("r") | {"candidates": 1}, "no event"]
    gc.collect()
    gc.disable()
    try:
        made = compose(*(read(offset, event) for offset, event in enumerate(bad)))
        assert made.events == len(bad) == sum(counts(made).values())
        del made
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_model_that_counts_otherwise_is_logged_once_for_a_policy(caplog: pytest.LogCaptureFixture) -> None:
    events = [request(f"r{number}", model="claude-opus-4-7") for number in range(3)]
    compose(*(read(offset, event) for offset, event in enumerate(events)))
    told = [record.fields for record in caplog.records if record.message == "counter_mismatch"]  # type: ignore[attr-defined]
    assert told == [{"policy": "lanes", "counter": "o200k_base", "model": "claude-opus-4-7"}]
