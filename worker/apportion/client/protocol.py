"""The gateway's protocol without I/O: calls as HTTP requests, and HTTP responses as answers or errors."""

import json as standard_json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, TypeAlias, TypedDict, TypeVar
from urllib.parse import urlencode
from uuid import uuid4

from httpx2 import Response
from msgspec import DecodeError, Raw, Struct, json, to_builtins
from msgspec.structs import replace

from apportion.client.errors import GatewayError, RefusedError, UnansweredError
from apportion.core.errors import ErrorCode
from apportion.core.events import Candidate, ContextArtifact, ContextRequest
from apportion.core.results import ContextComposed, ContextDecision
from apportion.core.wire.codec import encode

A = TypeVar("A")
Body: TypeAlias = Mapping[str, Any] | Sequence[Any]
_BYTES = (bytes, bytearray, memoryview)
_RETRIED = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""Statuses after which the same call can succeed; a proxy before the gateway sends 502."""
_SEGMENT = re.compile(r"[\w~-][\w.~-]*", re.ASCII)
"""An id that clients and proxies pass on unchanged as a part of a path; others go into the query."""


class HttpCall(Struct, frozen=True):
    """A call as an HTTP request: the path has its query. `request_id` is empty for artifacts."""

    method: str
    path: str
    body: bytes = b""
    request_id: str = ""


class FitArguments(TypedDict, total=False):
    """Optional arguments of `fit`."""

    session_id: str | None
    """Without it, the call is a session of its own."""
    model: str | None
    """The model whose tokens are counted. By default the model of the body, if the gateway knows it."""
    artifacts: Sequence[Candidate | Mapping[str, Any]] | None
    options: Struct | Mapping[str, Any] | None
    """`apportion.FitOptions`, or some of its fields."""


class ComposedAnswer(Struct, frozen=True):
    """An answer: the composed event, and the decision if it was asked for.

    `is_repeated` is true if the request was answered before; this is then its first answer.
    """

    composed: ContextComposed
    decision: ContextDecision | None
    is_repeated: bool


class FittedAnswer(Struct, frozen=True, kw_only=True):
    """A fitted body. `sources` has the index of the caller's message for each message; None: it was added.

    `artifacts_decision` is None without artifacts. `is_repeated` is as in `ComposedAnswer`.
    """

    body: Any
    used_tokens: int
    limit_tokens: int
    sources: tuple[int | None, ...]
    decision: ContextDecision
    artifacts_decision: ContextDecision | None = None
    is_repeated: bool = False


class _WithDecision(Struct):
    composed: ContextComposed
    decision: ContextDecision


class _Problem(Struct):
    """The members of a problem (RFC 9457) that errors have."""

    code: str = ""
    detail: str = ""
    pointer: str = ""
    request_id: str = ""


_composed = json.Decoder(ContextComposed)
_with_decision = json.Decoder(_WithDecision)
_fitted = json.Decoder(FittedAnswer)
_problem = json.Decoder(_Problem)


def compose_call(request: ContextRequest, *, with_decision: bool) -> HttpCall:
    """Return the call that composes. The event has its request id, so each repetition has the same key.

    If the request's id or time is empty or None, it is set here, once for all attempts.
    """
    query = "?decision=true" if with_decision else ""
    request = replace(
        request,
        request_id=request.request_id or str(uuid4()),
        requested_at=request.requested_at or datetime.now(UTC),
    )
    return HttpCall("POST", f"/v1/compose{query}", encode(request), request.request_id)


def fit_call(body: Body, limit_tokens: int | None, arguments: FitArguments) -> HttpCall:
    """Return the call that fits a body. Each repetition has the same request id, which is in the options.

    Raises:
        GatewayError: the body has bytes.
    """
    options = arguments.get("options") or {}
    fields = dict(options) if isinstance(options, Mapping) else to_builtins(options)
    fields["request_id"] = fields.get("request_id") or str(uuid4())
    given = {name: value for name, value in arguments.items() if value is not None}
    text = standard_json.dumps(body, default=_without_bytes, ensure_ascii=False)
    written = Raw(text.encode(errors="backslashreplace"))  # escapes halves of surrogate pairs
    limit = {} if limit_tokens is None else {"limit_tokens": limit_tokens}
    call = {"body": written, **limit, **given, "options": fields}
    return HttpCall("POST", "/v1/fit", json.encode(call), fields["request_id"])


def _without_bytes(value: object) -> Any:
    if isinstance(value, _BYTES):
        message = "the body has bytes, which would come back as text; give base64 text, or call apportion.fit"
        raise GatewayError(ErrorCode.NOT_JSON, message, pointer="$.body")
    return to_builtins(value, builtin_types=_BYTES)


def publish_call(artifact: ContextArtifact) -> HttpCall:
    """Return the call that publishes an artifact."""
    return HttpCall("POST", "/v1/artifacts", encode(artifact))


def retract_call(artifact_id: str, *, session_id: str, source: str, tenant: str) -> HttpCall:
    """Return the call that takes an artifact back."""
    query = {"session_id": session_id, "source": source, "tenant": tenant}
    if _SEGMENT.fullmatch(artifact_id):
        return HttpCall("DELETE", f"/v1/artifacts/{artifact_id}?{urlencode(query)}")
    return HttpCall("DELETE", f"/v1/artifacts?{urlencode({'id': artifact_id, **query})}")


def read_answer(response: Response, call: HttpCall, *, with_decision: bool) -> ComposedAnswer:
    """Return the answer of a call that composed.

    Raises:
        GatewayError: the body is not an answer of a gateway.
    """
    is_repeated = _is_repeated(response)
    if with_decision:
        both = _read(_with_decision, response, call)
        return ComposedAnswer(both.composed, both.decision, is_repeated)
    return ComposedAnswer(_read(_composed, response, call), None, is_repeated)


def read_fitted(response: Response, call: HttpCall) -> FittedAnswer:
    """Return the answer of a call that fitted a body; raise GatewayError as `read_answer` does."""
    return replace(_read(_fitted, response, call), is_repeated=_is_repeated(response))


def require_success(response: Response, call: HttpCall) -> Response:
    """Return the response of a call that succeeded.

    Raises:
        UnansweredError: the call failed, and can succeed if it is repeated.
        RefusedError: the event is refused.
        GatewayError: the call failed for another cause.
    """
    status = response.status_code
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return response
    try:
        problem = _problem.decode(response.content)
    except (DecodeError, UnicodeDecodeError):
        problem = _Problem()
    error = _unexpected(status, call.request_id)
    if problem.code:
        request_id = problem.request_id or call.request_id
        error = _error_type(status)(
            problem.code, problem.detail, status=status, pointer=problem.pointer, request_id=request_id
        )
    if isinstance(error, UnansweredError):
        error.retry_after_s = _retry_after_s(response)
    raise error


def no_response(call: HttpCall, kind: str) -> UnansweredError:
    """Return the error of a call without a response; `kind` names the error of the connection."""
    message = f"the gateway did not respond ({kind}); repeat the call with the same event"
    return UnansweredError("no_response", message, request_id=call.request_id)


def _read(decoder: json.Decoder[A], response: Response, call: HttpCall) -> A:
    try:
        return decoder.decode(response.content)
    except (DecodeError, UnicodeDecodeError):
        raise _unexpected(response.status_code, call.request_id) from None


def _is_repeated(response: Response) -> bool:
    return response.headers.get("idempotency-replayed") == "true"


def _error_type(status: int) -> type[GatewayError]:
    if status in (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
        return RefusedError
    return UnansweredError if status in _RETRIED else GatewayError


def _unexpected(status: int, request_id: str) -> GatewayError:
    message = f"status {status} without a body of a gateway; check the URL, and proxies before the gateway"
    return _error_type(status)("unexpected_response", message, status=status, request_id=request_id)


def _retry_after_s(response: Response) -> float:
    """Return the seconds of `Retry-After`; 0 without them, as for a date."""
    value = response.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else 0.0
