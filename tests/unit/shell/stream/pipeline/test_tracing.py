"""Spans as an exporter gets them: one a batch, linked to the traces that events came with."""

import json
import logging
from typing import Any

import pytest
from aiokafka.structs import ConsumerRecord
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from support.running import request

from apportion.engine.assembly import create_engine, create_timeline
from apportion.settings import Settings
from apportion.shell.stream.faust_app.app import create_app
from apportion.shell.stream.pipeline.answers import Answers
from apportion.shell.stream.pipeline.batch import Batch, BatchBounds, BatchComposer
from apportion.shell.stream.pipeline.breaker import DeadLetterShare
from apportion.shell.stream.pipeline.tracing import BatchSpans
from apportion.shell.stream.state.rows import PartitionRows

SETTINGS = Settings(partitions=1)
TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE_ID}-{SPAN_ID}-01".encode()
SECRET = "of a client"  # noqa: S105 - it protects nothing


def batch_of(*traces: bytes | None, events: list[Any] | None = None) -> Batch:
    """Compose a batch of requests that came with these traces, all of them with the same `tracestate`."""
    answers = Answers(SETTINGS, create_engine(SETTINGS), create_timeline(SETTINGS), "w")
    composer = BatchComposer(answers, DeadLetterShare(2, 1.0), BatchBounds(work_s=60.0))
    events = events or [request(f"{SECRET} {number}") for number in range(len(traces))]
    records: list[Any] = []
    for offset, (event, trace) in enumerate(zip(events, traces, strict=True)):
        headers = () if trace is None else (("traceparent", trace), ("tracestate", b"client=" + b"x" * 9))
        value = json.dumps(event).encode()
        time_ms = 1_772_366_400_000
        records.append(
            ConsumerRecord(
                SETTINGS.requests_topic, 0, offset, time_ms, 0, b"default/s", value, None, 0, 0, headers
            )
        )
    return composer.compose(PartitionRows("c"), records, 0)


def span_of(batch: Batch) -> ReadableSpan:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    BatchSpans(SETTINGS, provider).durable(batch)
    provider.shutdown()
    [span] = exporter.get_finished_spans()
    return span


def test_a_batch_span_follows_the_messaging_conventions() -> None:
    span = span_of(batch_of(GOOD, None, events=[request("r"), {"type": "nothing"}]))
    assert (span.name, span.kind, span.parent) == ("process context-requests", SpanKind.CONSUMER, None)
    assert dict(span.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": "context-requests",
        "messaging.destination.partition.id": "0",
        "messaging.consumer.group.name": "apportion",
        "messaging.client.id": "apportion",
        "messaging.batch.message_count": 2,
        "apportion.dead_letters": 1,
        "gen_ai.operation.name": "compose_context",
    }


def test_a_span_lasts_until_all_is_durable_and_marks_the_composition() -> None:
    span = span_of(batch_of(GOOD))
    [composed] = span.events
    assert composed.name == "composed"
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.start_time <= composed.timestamp <= span.end_time


def test_each_event_that_came_with_a_trace_is_linked_by_the_id_of_its_answer() -> None:
    other = GOOD.replace(b"b7ad", b"c7ad")
    batch = batch_of(GOOD, None, other, events=[request("a"), request("b"), {"type": "nothing"}])
    first, second = span_of(batch).links
    assert f"{first.context.trace_id:032x}-{first.context.span_id:016x}" == f"{TRACE_ID}-{SPAN_ID}"
    assert (first.context.is_remote, first.context.trace_flags) == (True, 1)
    [composed, _] = batch.messages[SETTINGS.composed_topic]
    answer = json.loads(composed.value)
    assert dict(first.attributes or {}) == {
        "messaging.message.id": dict(composed.headers)["ce_id"].decode(),
        "gen_ai.conversation.id": "s",
        "apportion.decision.id": answer["decision_id"],
        "apportion.status": answer["status"],
        "apportion.context.limit_tokens": answer["tokens"]["limit"],
        "apportion.context.used_tokens": answer["tokens"]["used"],
    }
    assert dict(second.attributes or {}) == {"messaging.message.id": "context-requests/0/2"}


@pytest.mark.parametrize(
    "trace",
    [
        b"00-1",
        b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01",
        b"00-0af7651916cd43dd8448eb211c80319c-" + b"0" * 16 + b"-01",
        b"ff" + GOOD[2:],
        GOOD + b"-of a client",
        GOOD.upper(),
        "00-ٱ".encode(),
        b"\xff\xfe",
        b"0" * 257,
    ],
)
def test_a_malformed_trace_is_passed_over(trace: bytes) -> None:
    assert [link.context.span_id for link in span_of(batch_of(trace, GOOD)).links] == [int(SPAN_ID, 16)]


def test_nothing_that_a_client_wrote_but_the_sessions_id_is_in_a_span() -> None:
    span = span_of(batch_of(GOOD, GOOD + b"-of a client"))
    assert SECRET not in span.to_json()
    assert "client=" not in span.to_json(), "tracestate is the client's to write"
    assert "default/s" not in span.to_json()


def test_spans_change_no_bytes_or_headers_of_answers() -> None:
    batch, other = batch_of(GOOD), batch_of(GOOD)
    span_of(batch)
    for topic in (SETTINGS.composed_topic, SETTINGS.decisions_topic):
        [one], [same] = batch.messages[topic], other.messages[topic]
        assert one.headers == same.headers
        assert dict(one.headers)["traceparent"] == GOOD


def test_a_missing_sdk_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "apportion"):
        BatchSpans(SETTINGS).durable(batch_of(GOOD))
    assert [record.message for record in caplog.records] == ["spans go nowhere"]


def test_a_worker_makes_spans_only_where_it_is_set() -> None:
    are_traced = []
    for tracing in (False, True):
        durable = create_app(Settings(partitions=1, tracing=tracing)).pipeline._durable
        are_traced.append(getattr(durable, "__name__", "") == "count_and_trace")
    assert are_traced == [False, True]
