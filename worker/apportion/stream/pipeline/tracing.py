"""A span of each batch, by OpenTelemetry's API, with a link to the trace of each event that was answered.

Decides what a span says: Kafka's places, numbers, and the ids that a trace context consists of; nothing else
that a client wrote. Knows no SDK: whether a span is recorded and where it goes is the operator's. It is made
when the batch is durable, so one that was abandoned has none. Without the setting nobody imports this.
"""

from collections.abc import Iterable, Iterator
from time import monotonic, time_ns

from opentelemetry.trace import (
    Link,
    ProxyTracerProvider,
    SpanKind,
    Tracer,
    TracerProvider,
    get_current_span,
    get_tracer_provider,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from apportion import ENGINE_VERSION
from apportion.kafka.outbound import OutboundRecord
from apportion.operations.log import log_fact
from apportion.settings import Settings
from apportion.stream.pipeline.batch import Batch

_CONVENTIONS = "https://opentelemetry.io/schemas/1.37.0"
_OPERATION = "process"
_TRACE = "traceparent"
_ID = "ce_id"


class BatchSpans:
    """Makes the spans of one worker; names and attributes are those of the messaging conventions."""

    def __init__(self, settings: Settings, provider: TracerProvider | None = None) -> None:
        """Make them with the provider of the process; log it if there is none."""
        provider = provider or get_tracer_provider()
        if isinstance(provider, ProxyTracerProvider):
            log_fact("spans go nowhere", reason="no OpenTelemetry SDK is set up")
        self._tracer: Tracer = provider.get_tracer("apportion", ENGINE_VERSION, _CONVENTIONS)
        self._answered_in = settings.composed_topic, settings.dead_letters_topic
        self._refused_in = settings.dead_letters_topic
        self._name = f"{_OPERATION} {settings.requests_topic}"
        self._attributes = {
            "messaging.system": "kafka",
            "messaging.operation.type": _OPERATION,
            "messaging.operation.name": _OPERATION,
            "messaging.destination.name": settings.requests_topic,
            "messaging.consumer.group.name": settings.app_id,
            "messaging.client.id": settings.app_id,
        }

    def durable(self, batch: Batch) -> None:
        """Make the span of a batch that is durable: from when its first event was taken until now."""
        now_ns = time_ns()
        composed_ns = now_ns - int((monotonic() - batch.composed_s) * 1e9)
        answers = [answer for topic in self._answered_in for answer in batch.messages.get(topic, ())]
        span = self._tracer.start_span(
            self._name,
            kind=SpanKind.CONSUMER,
            links=tuple(_links(answers)),
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


def _links(answers: Iterable[OutboundRecord]) -> Iterator[Link]:
    """Yield a link to the trace of each event, which its answer carries on; none where that is malformed.

    `tracestate` is left out: a link is found without it, and it is the client's to write.
    """
    extract = TraceContextTextMapPropagator().extract
    for answer in answers:
        headers = dict(answer.headers)
        received = headers.get(_TRACE)
        if received is None or not received.isascii():
            continue
        context = get_current_span(extract({_TRACE: received.decode()})).get_span_context()
        if context.is_valid:
            yield Link(context, {"messaging.message.id": headers[_ID].decode()})
