"""OpenTelemetry's tracer, and the attributes of an answer that the spans of worker and gateway share.

A span holds no content, path, key, tenant or `tracestate`. It holds the session's id, as a decision does.
Import this only if `tracing` is set, because its library is an extra.
"""

from msgspec import Struct, json
from opentelemetry.trace import ProxyTracerProvider, Tracer, TracerProvider, get_tracer_provider
from opentelemetry.util.types import AttributeValue

from apportion.core.results import ComposedTokens
from apportion.shell.operations.log import log_fact
from apportion.version import ENGINE_VERSION

_CONVENTIONS = "https://opentelemetry.io/schemas/1.41.0"
"""The last version that has the attributes of messaging, HTTP and GenAI in one schema."""
COMPOSING = {"gen_ai.operation.name": "compose_context"}
"""The operation's name. No name in the conventions applies, and they allow other names."""


class _TracedAnswer(Struct, frozen=True):
    session_id: str
    decision_id: str
    status: str
    tokens: ComposedTokens


_answer = json.Decoder(_TracedAnswer)


def create_tracer(provider: TracerProvider | None = None) -> Tracer:
    """Return a tracer of this provider, by default the process's; log a line if nothing records spans."""
    provider = provider or get_tracer_provider()
    if isinstance(provider, ProxyTracerProvider):
        log_fact("spans go nowhere", reason="no OpenTelemetry SDK is set up")
    return provider.get_tracer("apportion", ENGINE_VERSION, _CONVENTIONS)


def session_attributes(session_id: str) -> dict[str, AttributeValue]:
    """Return the attributes of an event of this session."""
    return {"gen_ai.conversation.id": session_id}


def answer_attributes(composed: bytes) -> dict[str, AttributeValue]:
    """Return the attributes of an answer, given as its composed event in JSON."""
    answer = _answer.decode(composed)
    return {
        **session_attributes(answer.session_id),
        "apportion.decision.id": answer.decision_id,
        "apportion.status": answer.status,
        "apportion.context.limit_tokens": answer.tokens.limit,
        "apportion.context.used_tokens": answer.tokens.used,
    }
