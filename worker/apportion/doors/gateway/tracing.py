"""Spans of calls by OpenTelemetry's API. The event of a call names its span as the parent.

Names and attributes follow the HTTP conventions; `shell/operations/tracing.py` has the attributes of
answers. A span has the template of the path, because the path can contain an artifact's id.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web
from opentelemetry.trace import Span, SpanKind, StatusCode, TracerProvider, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from apportion.doors.gateway.backend import TraceHeaders
from apportion.doors.gateway.calls import trace_headers
from apportion.shell.operations.tracing import COMPOSING, answer_attributes, create_tracer, session_attributes

_SERVER_ERROR = 500


class CallSpan:
    """The span of one call, while the call is answered."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def headers(self) -> TraceHeaders:
        """Return the headers of an event whose parent is this span."""
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier, set_span_in_context(self._span))
        return tuple((name, text.encode()) for name, text in carrier.items())

    def name_session(self, session_id: str) -> None:
        """Add the session of an event that the caller may send."""
        self._span.set_attributes(session_attributes(session_id))

    def name_answer(self, composed: bytes) -> None:
        """Add the answer, given as its composed event in JSON."""
        self._span.set_attributes(COMPOSING | answer_attributes(composed))

    def answered(self, status: int, error_code: str) -> None:
        """Add the status of the response, and the code of its problem, or an empty string."""
        self._span.set_attribute("http.response.status_code", status)
        if error_code:
            self._span.set_attribute("error.type", error_code)
        if status >= _SERVER_ERROR:
            self._span.set_status(StatusCode.ERROR)


class CallSpans:
    """The spans of one gateway."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        """Use this provider, by default the process's; log it if spans are not recorded."""
        self._tracer = create_tracer(provider)

    @contextmanager
    def of_call(self, request: web.Request, path: str) -> Iterator[CallSpan]:
        """Yield the span of a call, as a child of the caller's span, and end it; `path` is the template."""
        carrier = {name: text.decode(errors="replace") for name, text in trace_headers(request)}
        span = self._tracer.start_span(
            f"{request.method} {path}",
            TraceContextTextMapPropagator().extract(carrier),
            SpanKind.SERVER,
            {"http.request.method": request.method, "http.route": path, "url.scheme": request.scheme},
        )
        try:
            yield CallSpan(span)
        finally:
            span.end()
