"""Calls of `/v1/fit`: their bodies, their events, and their answers.

A fitted chat is an event of its session, like a call of `/v1/compose`; with an
`artifacts_policy` it is two events.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from msgspec import UNSET, DecodeError, Meta, Struct, ValidationError, json
from msgspec.structs import replace

from apportion.core.bounds import Bounds
from apportion.core.engine import Engine
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import ContextRequest, Opt
from apportion.core.nesting import is_deeper
from apportion.core.results import ContextComposed, ContextDecision
from apportion.core.wire.codec import decode, encode
from apportion.core.wire.not_json import why_not_json
from apportion.core.wire.refusal import refusal
from apportion.core.wire.repair import decode_whole
from apportion.doors.fitting import FitError, FitOptions, fit_async
from apportion.doors.fitting.shapes import read_chat
from apportion.doors.gateway import calls
from apportion.doors.gateway.backend import Backend, GatewayAnswer, SubmittedEvent, TraceHeaders
from apportion.doors.gateway.problems import refused

_CALL_FIELDS = re.compile(r"\$\.(limit_tokens|model|session_id|options|artifacts)\b")
_POINTER = re.compile(r"\$\.[\w.\[\]]*[\w\]]")
_DEPTH_MAX = 200
"""The depth of a body that can be read and written in any call stack. Messages have the events' bound."""
_LARGE_BYTES = 1 << 20
T = TypeVar("T")


class FitRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call of `/v1/fit`."""

    body: dict[str, Any] | list[Any]
    """A provider's body, or its list of messages."""
    limit_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Without it, the window of the model less its answer."""
    model: str | None = None
    """The same as the option `model`."""
    session_id: str | None = None
    """Without it, the call is a session of its own."""
    tenant: str | None = None
    """The same as the option `tenant`."""
    options: FitOptions = FitOptions()
    artifacts: list[dict[str, Any]] | None = None
    """Candidates, or parts of candidates with at least `content`."""


class FitResponse(Struct, frozen=True, kw_only=True):
    """The answer to a call of `/v1/fit`."""

    body: dict[str, Any] | list[Any]
    """The caller's body with its messages replaced."""
    used_tokens: int
    limit_tokens: int
    sources: tuple[int | None, ...]
    """The index of the caller's message for each message; null for a message that was added."""
    decision: ContextDecision
    artifacts_decision: Opt[ContextDecision] = UNSET


class _DecodedAnswer(Struct, frozen=True):
    composed: ContextComposed
    decision: ContextDecision


_FIELDS = {"$": FitRequest.__struct_fields__, "$.options": FitOptions.__struct_fields__}
_request = json.Decoder(FitRequest)
_composed = json.Decoder(ContextComposed)
_decision = json.Decoder(ContextDecision)


class BackendClient:
    """A gateway's backend as the client of `fit`. It keeps the answers in their order."""

    def __init__(self, backend: Backend, bounds: Bounds, trace: TraceHeaders, engine: Engine) -> None:
        self._backend, self._bounds, self._trace = backend, bounds, trace
        self.models, self.counters = engine.models, engine.counters
        self.answers: list[GatewayAnswer] = []

    async def compose(self, request: ContextRequest, /, *, with_decision: bool) -> _DecodedAnswer:
        """Return the answer of the backend, which raises its own errors.

        Raises:
            EventError: the event exceeds a bound, or is refused.
        """
        value = encode(request)
        event = SubmittedEvent(decode(value, self._bounds), value, self._trace)
        answer = await self._backend.compose(event, with_decision=with_decision)
        self.answers.append(answer)
        return _DecodedAnswer(_composed.decode(answer.composed), _decision.decode(answer.decision))


async def off_loop(size: int, read: Callable[..., T], *arguments: Any) -> T:
    """Return the result of a function; above 1 MiB of body, other calls go on meanwhile."""
    return await asyncio.to_thread(read, *arguments) if size > _LARGE_BYTES else read(*arguments)


def fit_request_of(body: bytes, key: str | None) -> FitRequest:
    """Return a call of `/v1/fit`, with its tenant and its request id in its options.

    Raises:
        EventError: the body is no such call.
        ProblemError: `key`, the call's `Idempotency-Key`, differs from the request id, or is not UTF-8.
    """
    call, named = _decoded(body), calls.idempotency_key(key)
    options = call.options
    calls.require_key(named, options.request_id or named or "", "$.options.request_id")
    tenant = options.tenant if call.tenant is None else call.tenant
    if options.tenant not in (FitOptions().tenant, tenant):
        message = "tenant and options.tenant differ; leave one of them out"
        raise EventError(ErrorCode.INVALID_VALUE, message, "$.options.tenant")
    request_id = options.request_id or named or calls.new_id()
    return replace(call, options=replace(options, request_id=request_id, tenant=tenant))


def policies_of(call: FitRequest) -> dict[str, str]:
    """Return the policies that a call uses, by their pointers in it."""
    policies = {"$.options.policy": call.options.policy}
    if call.artifacts is not None and call.options.artifacts_policy is not None:
        policies["$.options.artifacts_policy"] = call.options.artifacts_policy
    return policies


async def fitted(call: FitRequest, size: int, client: BackendClient) -> FitResponse:
    """Return the answer to a call; `size` is its bytes. The backend's errors, but EventError, pass.

    Raises:
        ProblemError: the chat cannot be fitted, or is refused.
    """
    try:
        result = await fit_async(
            await off_loop(size, read_chat, call.body),
            call.limit_tokens,
            client=client,
            model=call.model,
            session_id=call.session_id,
            artifacts=call.artifacts,
            options=call.options,
        )
    except FitError as error:
        error.pointer = _in_call(error.pointer, call)
        error.message = _POINTER.sub(lambda found: _in_call(found[0], call), error.message)
        raise refused(error, call.options.request_id or UNSET) from None
    return FitResponse(
        body=result.body,
        used_tokens=result.used_tokens,
        limit_tokens=result.limit_tokens,
        sources=result.sources,
        decision=result.decision,
        artifacts_decision=result.artifacts_decision or UNSET,
    )


def _decoded(body: bytes) -> FitRequest:
    try:
        call = decode_whole(_request, body)
        is_too_deep = is_deeper(call.body, _DEPTH_MAX)
    except ValidationError as error:
        raise refusal(str(error), _FIELDS) from None
    except (DecodeError, UnicodeDecodeError) as error:
        raise EventError(ErrorCode.NOT_JSON, why_not_json(body, str(error))) from None
    except RecursionError:
        is_too_deep = True
    if is_too_deep:
        raise EventError(ErrorCode.TOO_DEEP, f"nested deeper than {_DEPTH_MAX}")
    return call


def _in_call(pointer: str, call: FitRequest) -> str:
    """Return a pointer of `fit` as a pointer in the body of the call."""
    if pointer == "$.options.tenant" and call.tenant is not None:
        return "$.tenant"
    if _CALL_FIELDS.match(pointer):
        return pointer
    root = "$.messages" if isinstance(call.body, list) else "$"
    return "$.body" + pointer.removeprefix(root).removeprefix("$")
