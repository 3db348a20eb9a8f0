"""OpenTelemetry spans of batches, with a link to the trace of each answered event.

A span has the batch's partition and counts; a link has the attributes of `operations/tracing.py`. A span is
made when its batch is durable, so an abandoned batch has none. No SDK is imported: the operator chooses one.
This module is imported only if tracing is on.
"""

from collections.abc import Iterable, Iterator
from time import monotonic, time_ns

from opentelemetry.trace import Link, SpanContext, SpanKind, TracerProvider, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from apportion.settings import Settings
from apportion.shell.kafka.producer import OutboundRecord
from apportion.shell.operations.tracing import COMPOSING, answer_attributes, create_tracer
from apportion.shell.stream.pipeline.batch import Batch

_OPERATION = "process"
_TRACE = "traceparent"
_ID = "ce_id"


class BatchSpans:
    """Makes the spans of one worker, by OpenTelemetry's messaging conventions."""

    def __init__(self, settings: Settings, provider: TracerProvider | None = None) -> None:
        """Use the process's provider by default, and log if there is none."""
        self._tracer = create_tracer(provider)
        self._composed_in, self._refused_in = settings.composed_topic, settings.dead_letters_topic
        self._name = f"{_OPERATION} {settings.requests_topic}"
        self._attributes = COMPOSING | {
            "messaging.system": "kafka",
            "messaging.operation.type": _OPERATION,
            "messaging.operation.name": _OPERATION,
            "messaging.destination.name": settings.requests_topic,
            "messaging.consumer.group.name": settings.app_id,
            "messaging.client.id": settings.app_id,
        }

    def durable(self, batch: Batch) -> None:
        """Make the span of a durable batch, from the start of its composition until now."""
        now_ns = time_ns()
        composed_ns = now_ns - int((monotonic() - batch.composed_s) * 1e9)
        span = self._tracer.start_span(
            self._name,
            kind=SpanKind.CONSUMER,
            links=tuple(self._links(batch)),
            start_time=composed_ns - int(batch.work_s * 1e9),
            attributes=self._attributes
            | {
                "messaging.destination.partition.id": str(batch.partition),
                "messaging.batch.message_count": batch.events,
                "apportion.dead_letters": len(batch.messages.get(self._refused_in, ())),
            },
        )
        span.add_event("composed", timestamp=composed_ns)
        span.end(now_ns)

    def _links(self, batch: Batch) -> Iterator[Link]:
        for answer, trace in _traced(batch.messages.get(self._composed_in, ())):
            yield Link(trace, _named(answer) | answer_attributes(answer.value))
        for letter, trace in _traced(batch.messages.get(self._refused_in, ())):
            yield Link(trace, _named(letter))


def _named(answer: OutboundRecord) -> dict[str, AttributeValue]:
    return {"messaging.message.id": dict(answer.headers)[_ID].decode()}


def _traced(answers: Iterable[OutboundRecord]) -> Iterator[tuple[OutboundRecord, SpanContext]]:
    """Yield each answer that has a valid trace, with the trace but without its `tracestate`."""
    extract = TraceContextTextMapPropagator().extract
    for answer in answers:
        received = dict(answer.headers).get(_TRACE)
        if received is None or not received.isascii():
            continue
        context = get_current_span(extract({_TRACE: received.decode()})).get_span_context()
        if context.is_valid:
            yield answer, context
