"""From a record to what leaves, without a broker."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import replace
from support.composing import NOW, candidate
from support.running import request

from apportion.core.errors import EventError
from apportion.core.results import ContextDecision, DeadLetterValue, Detail
from apportion.core.session.row import ROW_MAX_BYTES
from apportion.core.text.tokens import TokenCounter
from apportion.core.wire.cloudevents import EventHeaders
from apportion.core.wire.codec import encode
from apportion.core.wire.record import Record
from apportion.engine.assembly import create_engine, create_timeline
from apportion.engine.counters import COUNTERS
from apportion.settings import Settings
from apportion.shell.kafka.producer import OutboundRecord
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES
from apportion.shell.stream.pipeline.answers import VALUE_MAX_BYTES, Answer, Answers
from apportion.shell.stream.state.row_format import encode_artifact, encode_row, with_names
from apportion.testing import Harness

SETTINGS = Settings(partitions=1)


def answers(worker: str = "w", settings: Settings = SETTINGS) -> Answers:
    return Answers(settings, create_engine(settings), create_timeline(settings), worker)


def record(event: dict[str, Any], offset: int = 0, key: bytes = b"default/s") -> Record:
    return Record("context-requests", 0, offset, 1_000, key, json.dumps(event).encode())


def event_of(message: OutboundRecord) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(message.value)
    return found


def messages(made: Answers, sent: Record) -> tuple[OutboundRecord, ...]:
    return made.answer(sent, None).messages


def without_run(answer: Answer) -> tuple[Any, ...]:
    composed, decision = answer.messages
    bare = {name: value for name, value in event_of(decision).items() if name != "run"}
    return composed, bare, decision.headers, answer.row


def test_an_answer_is_a_composed_event_a_decision_and_the_next_row() -> None:
    made = answers()
    answer = made.answer(record(request("r1"), offset=7), None)
    composed, decision = sent = answer.messages
    assert [message.topic for message in sent] == [SETTINGS.composed_topic, SETTINGS.decisions_topic]
    assert {(message.key, message.partition) for message in sent} == {(b"default/s", 0)}
    identity = event_of(composed)["decision_id"]
    assert event_of(decision)["decision_id"] == identity
    for kind, message in (("composed", composed), ("decision", decision)):
        headers = dict(message.headers)
        assert headers["ce_type"] == f"context-{kind}.v1".encode()
        assert headers["ce_id"] == f"{identity}-{kind}".encode()
        assert headers["ce_time"] == b"2026-03-01T12:00:00Z"
    row = answer.row
    assert row.seen_offset == 7
    assert row.session.spent_tokens == event_of(composed)["tokens"]["used"]


class LoadedCounters(dict[str, TokenCounter]):
    """Counters that load on lookup, and the names of loaded counters."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: set[str] = set()

    def __missing__(self, name: str) -> TokenCounter:
        self.loaded.add(name)
        return COUNTERS[name]


def test_the_counters_of_all_policies_load_before_the_first_record() -> None:
    timeline, counters = create_timeline(SETTINGS), LoadedCounters()
    Answers(SETTINGS, replace(create_engine(SETTINGS), counters=counters), timeline, "w")
    assert counters.loaded == {policy.counter for policy in timeline} - {"model"}
    assert "cl100k_base" not in counters.loaded


def test_the_same_record_from_the_same_row_gives_the_same_bytes_in_every_worker() -> None:
    first = answers().answer(record(request("r1")), None).row
    one, other = answers("v"), answers("w")
    again = [made.answer(record(request("r2"), offset=1), first) for made in (one, other)]
    assert without_run(again[0]) == without_run(again[1])


def test_the_run_section_names_worker_and_source() -> None:
    decision = event_of(messages(answers("apportion@host:1"), record(request("r1"), offset=3))[1])
    run = decision["run"]
    assert run["source"] == {"topic": "context-requests", "partition": 0, "offset": 3}
    assert run["worker"] == "apportion@host:1"
    assert [phase["name"] for phase in run["phases"]] == ["decode", "prepare", "choose", "record"]
    assert run["cache_hit"] is False


def test_a_decision_leaves_as_its_type_is_encoded_with_run_at_its_end() -> None:
    worker = 'a "worker"\\ %d \u2713\n'
    value = messages(answers(worker), record(request("r")))[1].value
    decision = msgspec.json.decode(value, type=ContextDecision)
    assert encode(decision) == value
    assert decision.run is not UNSET
    assert decision.run.worker == worker


def test_a_decision_leaves_in_the_detail_of_the_settings() -> None:
    sent = record(request("r1", candidates=[candidate("a"), candidate("b", content="")]))
    told = {}
    for detail in Detail:
        made = answers(settings=Settings(partitions=1, decision_detail=detail))
        told[detail] = event_of(messages(made, sent)[1])
        assert told[detail]["run"]["worker"] == "w"
    listed = [[one["id"] for one in each.get("candidates", ())] for each in told.values()]
    assert listed == [["a", "b"], ["a"], []]
    assert [each.get("detail") for each in told.values()] == [None, "selected", "summary"]


def test_each_phase_has_its_own_time_in_whole_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks_ns = iter([5_000, 6_999, 9_000, 13_000, 21_000, 37_000])
    monkeypatch.setattr("apportion.shell.stream.pipeline.answers.perf_counter_ns", lambda: next(ticks_ns))
    decision = event_of(messages(answers(), record(request("r")))[1])
    assert [phase["duration_us"] for phase in decision["run"]["phases"]] == [1, 2, 4, 8]


def test_a_record_under_another_key_than_its_sessions_is_refused() -> None:
    with pytest.raises(EventError) as caught:
        answers().answer(record(request("r"), key=b"default/another"), None)
    assert caught.value.code == "wrong_key"


def test_requests_without_a_policy_get_the_default_one() -> None:
    settings = Settings(partitions=1, default_policy="categories")
    one = candidate("a", lane=None, category="work", kind=None)
    with pytest.raises(EventError) as caught:
        answers(settings=settings).answer(record(request("r", candidates=[one], vitals={})), None)
    assert caught.value.pointer == "$.vitals"


def test_an_artifact_gives_a_row_and_no_event() -> None:
    artifact = {
        "type": "context-artifact",
        "session_id": "s",
        "source": "test",
        "published_at": NOW,
        "artifact": candidate("a"),
    }
    made = answers()
    answer = made.answer(record(artifact, offset=4), None)
    assert answer.messages == ()
    row = answer.row
    assert row.seen_offset == 4
    assert [artifact.id for artifact in row.session.pool] == ["a"]


def test_no_row_passes_what_its_topic_takes_and_the_command_holds_the_same() -> None:
    made, row = answers(), None
    harness = Harness()

    def artifact(name: str) -> dict[str, Any]:
        tags = ["\0" * 64] * 32
        return {
            "type": "context-artifact",
            "session_id": "s",
            "source": "test",
            "published_at": NOW,
            "artifact": candidate(name, path="é" * 4_096, tags=tags),
        }

    for offset in range(120):
        event = artifact(f"{offset}")
        answered = made.answer(record(event, offset=offset), row)
        row = with_names(answered.row, row)
        artifacts = map(encode_artifact, row.session.pool)
        assert len(encode_row(row)) + sum(map(len, artifacts)) < ROW_MAX_BYTES + 100
        harness.send(event)
    answered = made.answer(record(request("r"), offset=120), row)
    outcome = harness.compose(request("r"))
    assert event_of(answered.messages[1])["evicted"] == list(outcome.decision.evicted)
    assert outcome.decision.evicted
    assert answered.row.session == outcome.session


def test_the_largest_value_leaves_room_for_the_longest_key_and_headers() -> None:
    key = f"{'t' * 64}/{'😀' * 256}".encode()
    trace = ("traceparent", b"0" * 256), ("tracestate", b"0" * 512)
    replies = tuple(f"{number:064}" for number in range(16))
    received = (*trace, *((name, b"0" * 256) for name in replies))
    built = EventHeaders("context-composed.v1", f"apportion/{'a' * 249}", (), replies)
    headers = built.build("0" * 41, received, NOW)
    made = answers("\0" * 400)
    answer = made.answer(record(request("r"), offset=1 << 62), None)
    assert answer.outcome is not None
    run = len(answer.messages[1].value) - len(encode(answer.outcome.decision))
    beside = run + len(key) + sum(len(name.encode()) + len(value) for name, value in headers)
    assert set(replies) <= {name for name, _ in headers}
    assert VALUE_MAX_BYTES + 2 * beside < MESSAGE_MAX_BYTES


def test_listed_headers_are_on_composed_event_decision_and_dead_letter() -> None:
    made = answers(settings=Settings(partitions=1, reply_headers=("kafka_correlationId",)))
    correlated = replace(record(request("r")), headers=(("kafka_correlationId", b"\7"), ("other", b"x")))
    refused = made.refuse(correlated, _refusal(replace(correlated, value=b"no event")))
    sent = (*made.answer(correlated, None).messages, refused)
    assert [message.headers[-1] for message in sent] == [("kafka_correlationId", b"\7")] * 3


def test_a_refused_record_becomes_a_dead_letter_named_by_its_place() -> None:
    bad = Record("context-requests", 2, 9, 1_000, b"key", b"no event", (("traceparent", b"00-1"),))
    message = answers().refuse(bad, _refusal(bad))
    assert (message.topic, message.partition, message.key) == (SETTINGS.dead_letters_topic, 2, b"key")
    headers = dict(message.headers)
    assert headers["ce_id"] == b"context-requests/2/9"
    assert headers["ce_type"] == b"context-dead-letter.v1"
    assert headers["traceparent"] == b"00-1"
    assert event_of(message)["error"]["code"] == "not_json"
    assert message == answers("another").refuse(bad, _refusal(bad))


def _refusal(bad: Record) -> EventError:
    with pytest.raises(EventError) as caught:
        answers().answer(bad, None)
    return caught.value


def test_a_dead_letter_holds_only_the_set_part_of_the_event() -> None:
    settings = Settings(partitions=1, dead_letter_value=DeadLetterValue.DIGEST)
    bad = Record("context-requests", 2, 9, 1_000, b"key", b"no event", (("x", b"private"),))
    held = event_of(answers(settings=settings).refuse(bad, _refusal(bad)))
    assert (held["value"], held["headers"], held["value_bytes"]) == (None, [], 8)
