"""The trace context that a call's event carries on, and the span of a call."""

from collections.abc import Iterator
from typing import Any

import pytest
from multidict import CIMultiDict
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from support.composing import candidate
from support.gateways import artifact_body, body, gateway, local

from apportion.doors.gateway.backend import (
    BackendAwayError,
    GatewayAnswer,
    SubmittedEvent,
    TraceHeaders,
)
from apportion.doors.gateway.tracing import CallSpans

pytestmark = pytest.mark.asyncio

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE_ID}-{SPAN_ID}-01"
MARK = "zqx"


class Watched:
    """The backend of `--local`, which keeps the trace of each event."""

    def __init__(self) -> None:
        self.backend = local()
        self.traces: list[TraceHeaders] = []

    async def compose(self, request: SubmittedEvent, *, with_decision: bool) -> GatewayAnswer:
        self.traces.append(request.trace)
        return await self.backend.compose(request, with_decision=with_decision)

    async def publish(self, event: SubmittedEvent) -> None:
        self.traces.append(event.trace)
        await self.backend.publish(event)

    async def why_not_ready(self) -> tuple[str, ...]:
        return ()


class Away(Watched):
    """A backend that loses its brokers before it answers."""

    async def compose(self, request: SubmittedEvent, *, with_decision: bool) -> GatewayAnswer:
        await super().compose(request, with_decision=with_decision)
        raise BackendAwayError


class Recorder:
    """A gateway's tracer, and its ended spans."""

    def __init__(self) -> None:
        self.exporter, self.provider = InMemorySpanExporter(), TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.spans = CallSpans(self.provider)

    def ended(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.provider.shutdown()


async def traces_of(headers: Any) -> list[dict[str, bytes]]:
    """Return the trace of the event of each kind of call, made with these headers."""
    backend = Watched()
    async with gateway(backend) as client:
        await client.post("/v1/compose", json=body(), headers=headers)
        fits = {"body": [{"role": "user", "content": "x"}], "limit_tokens": 99}
        await client.post("/v1/fit", json=fits, headers=headers)
        await client.post("/v1/artifacts", json=artifact_body(), headers=headers)
        await client.delete("/v1/artifacts/c?session_id=s&source=tests", headers=headers)
    assert len(backend.traces) == 4
    return [dict(trace) for trace in backend.traces]


async def test_events_carry_the_trace_of_their_call_on() -> None:
    trace = {"traceparent": GOOD.encode(), "tracestate": b"a=1,b=2"}
    sent = CIMultiDict([("Traceparent", GOOD), ("tracestate", "a=1"), ("tracestate", "b=2")])
    assert await traces_of(sent) == [trace] * 4


@pytest.mark.parametrize(
    "parents",
    [
        [],
        ["00-1"],
        [GOOD, GOOD],
        [GOOD.upper()],
        ["ff" + GOOD[2:]],
        [GOOD.replace(TRACE_ID, "0" * 32)],
        [GOOD.replace(SPAN_ID, "0" * 16)],
        [GOOD + "-more"],
    ],
)
async def test_a_malformed_trace_is_left_out_with_its_state(parents: list[str]) -> None:
    sent = CIMultiDict([("tracestate", "a=1"), *(("traceparent", parent) for parent in parents)])
    assert await traces_of(sent) == [{}] * 4


async def test_a_state_that_is_too_long_is_left_out() -> None:
    sent = {"traceparent": GOOD, "tracestate": "a=" + "x" * 511}
    assert await traces_of(sent) == [{"traceparent": GOOD.encode()}] * 4


async def test_the_span_of_a_call_names_the_answer_by_the_conventions(recorder: Recorder) -> None:
    async with gateway(spans=recorder.spans) as client:
        answer = await (await client.post("/v1/compose", json=body(), headers={"traceparent": GOOD})).json()
    [span] = recorder.ended()
    assert (span.name, span.kind, span.status.status_code) == (
        "POST /v1/compose",
        SpanKind.SERVER,
        StatusCode.UNSET,
    )
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id) == (int(TRACE_ID, 16), int(SPAN_ID, 16))
    assert dict(span.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/v1/compose",
        "http.response.status_code": 200,
        "url.scheme": "http",
        "gen_ai.operation.name": "compose_context",
        "gen_ai.conversation.id": "s",
        "apportion.decision.id": answer["decision_id"],
        "apportion.status": "composed",
        "apportion.context.limit_tokens": answer["tokens"]["limit"],
        "apportion.context.used_tokens": answer["tokens"]["used"],
    }


async def test_an_event_names_the_span_of_its_call_as_its_parent(recorder: Recorder) -> None:
    backend = Watched()
    async with gateway(backend, recorder.spans) as client:
        for headers in ({"traceparent": GOOD, "tracestate": "a=1"}, {"traceparent": "00-1"}):
            await client.post("/v1/compose", json=body(), headers=headers)
    [of_caller, of_gateway] = recorder.ended()
    [first, second] = map(dict, backend.traces)
    for span, trace in ((of_caller, first), (of_gateway, second)):
        assert span.context is not None
        named = f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-"
        assert trace["traceparent"].decode().startswith(named)
    assert first["tracestate"] == b"a=1"
    assert of_gateway.parent is None


async def test_a_problem_is_the_error_type_of_the_span(recorder: Recorder) -> None:
    async with gateway(spans=recorder.spans) as client:
        await client.post("/v1/compose", json=body(policy="nobody's"))
        await client.get("/v1/compose")
    async with gateway(Away(), recorder.spans) as client:
        await client.post("/v1/compose", json=body())
    found = [
        (dict(span.attributes or {}), span.status.status_code is StatusCode.ERROR)
        for span in recorder.ended()
    ]
    assert [
        (attributes["http.response.status_code"], attributes["error.type"], is_error)
        for attributes, is_error in found
    ] == [(422, "unknown_policy", False), (503, "not_delivered", True)]
    assert all(attributes["gen_ai.conversation.id"] == "s" for attributes, _ in found)


async def test_only_calls_of_the_interface_have_spans(recorder: Recorder) -> None:
    async with gateway(spans=recorder.spans) as client:
        for path in ("/livez", "/readyz", "/metrics", "/openapi.json", f"/v1/{MARK}"):
            await client.get(path)
    assert recorder.ended() == ()


async def test_a_span_holds_no_content_no_path_and_no_id_but_the_sessions(recorder: Recorder) -> None:
    private = candidate(f"{MARK}/a.py", 9) | {"content": f"{MARK} content", "path": f"{MARK}/a.py"}
    headers = {"Idempotency-Key": f"{MARK}-1", "traceparent": GOOD, "tracestate": f"{MARK}=1"}
    artifact = artifact_body() | {"artifact": private, "source": MARK, "tenant": MARK}
    async with gateway(spans=recorder.spans) as client:
        composed = await client.post(
            "/v1/compose", json=body(candidates=[private], tenant=MARK), headers=headers
        )
        published = await client.post("/v1/artifacts", json=artifact, headers=headers)
        path = f"/v1/artifacts/{MARK}%2Fa.py?session_id=s&source={MARK}&tenant={MARK}"
        retracted = await client.delete(path, headers=headers)
    assert (composed.status, published.status, retracted.status) == (200, 202, 202)
    spans = recorder.ended()
    assert [span.name for span in spans] == [
        "POST /v1/compose",
        "POST /v1/artifacts",
        "DELETE /v1/artifacts/{id}",
    ]
    for span in spans:
        # the context of a span has the caller's `tracestate`, as W3C Trace Context asks
        assert MARK not in str(dict(span.attributes or {})) + span.name
