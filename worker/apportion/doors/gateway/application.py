"""The HTTP application: paths, limits and deadlines of calls."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from http import HTTPStatus
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from aiohttp import web
from msgspec import UNSET, json
from prometheus_client.exposition import choose_encoder

from apportion.core.bounds import Bounds
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import ContextRequest, Opt
from apportion.core.results import ContextComposed
from apportion.core.wire.codec import encode
from apportion.doors.formats import BODIES, FormatError, shaped
from apportion.doors.gateway import calls, fits
from apportion.doors.gateway.access import Access
from apportion.doors.gateway.admission import Pool
from apportion.doors.gateway.backend import (
    AnswerGoneError,
    Backend,
    BackendAwayError,
    GatewayAnswer,
    NotRecordedError,
    SubmittedEvent,
    TraceHeaders,
)
from apportion.doors.gateway.numbers import GatewayNumbers
from apportion.doors.gateway.problems import ProblemError, internal_error, of_http, refused, response_of
from apportion.engine.assembly import create_engine
from apportion.settings import Settings

if TYPE_CHECKING:  # its library is an extra
    from apportion.doors.gateway.tracing import CallSpan, CallSpans

_JSON = "application/json"
_UNKNOWN_PATH = "other"
_TRACED_PREFIX = "/v1/"
_SPAN: "web.RequestKey[CallSpan]" = web.RequestKey("span")
_composed = json.Decoder(ContextComposed)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
A = TypeVar("A")


class GatewayApp:
    """The paths of a gateway in front of a backend."""

    def __init__(
        self,
        settings: Settings,
        access: Access,
        backend: Backend,
        openapi: bytes,
        spans: "CallSpans | None" = None,
    ) -> None:
        """`openapi` is the document of the paths, in JSON. Without `spans`, calls have no span."""
        self._settings = settings
        self._bounds, self._engine = settings.bounds, create_engine(settings)
        self._access = access
        self._backend = backend
        self._openapi = openapi
        self._spans = spans
        self.numbers = GatewayNumbers()
        self._deadlines: set[asyncio.Timeout] = set()
        numbers, most, size = self.numbers, settings.gateway_in_flight_max, settings.gateway_bodies_max_bytes
        self._places = Pool("gateway_in_flight_max", most, "too_many_calls", numbers.in_flight)
        self._bytes = Pool("gateway_bodies_max_bytes", size, "too_many_bytes", numbers.body_bytes)

    def application(self) -> web.Application:
        """Return the application for aiohttp."""
        app = web.Application(middlewares=[self._answer])
        app.add_routes(
            [
                web.post("/v1/compose", self._compose),
                web.post("/v1/fit", self._fit),
                web.post("/v1/artifacts", self._publish),
                web.delete("/v1/artifacts", self._retract),
                web.delete(r"/v1/artifacts/{id:(?s:.+)}", self._retract),
                web.get("/openapi.json", self._document),
                web.get("/livez", self._livez),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
            ]
        )
        return app

    def end_within(self, seconds: float) -> None:
        """Bring the deadlines of all calls in flight forward, to at most `seconds` from now."""
        latest_s = asyncio.get_running_loop().time() + seconds
        for deadline in self._deadlines:
            if not deadline.expired():
                deadline.reschedule(min(latest_s, deadline.when() or latest_s))

    @web.middleware
    async def _answer(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Answer a call, with a problem if it fails, count it, and make its span."""
        began_s = perf_counter()
        resource = request.match_info.route.resource
        path = _UNKNOWN_PATH if resource is None else resource.canonical
        with ExitStack() as stack:
            if self._spans is not None and path.startswith(_TRACED_PREFIX):
                request[_SPAN] = stack.enter_context(self._spans.of_call(request, path))
            problem = None
            try:
                response = await self._handled(request, handler)
            except ProblemError as error:
                problem = error
                response = response_of(error)
            if span := request.get(_SPAN):
                span.answered(response.status, "" if problem is None else problem.details.code)
        self.numbers.calls.labels(path, str(response.status)).inc()
        self.numbers.seconds.labels(path).observe(perf_counter() - began_s)
        return response

    async def _handled(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except ProblemError:
            raise
        except EventError as error:
            raise refused(error) from None
        except web.HTTPException as error:
            raise of_http(error) from None
        except Exception as error:  # noqa: BLE001 - each call gets a response
            raise internal_error(error) from None

    async def _compose(self, request: web.Request) -> web.Response:
        form, with_decision = calls.compose_query(request.query)
        key = request.headers.get("Idempotency-Key")
        answer = await self._submit(
            request,
            lambda body, bounds, trace: calls.request_of(body, key, bounds, trace),
            partial(self._backend.compose, with_decision=with_decision),
        )
        if span := request.get(_SPAN):
            span.name_answer(answer.composed)
        headers = {"Idempotency-Replayed": "true"} if answer.is_repeated else None
        body = _rendered(answer, form, with_decision=with_decision)
        return web.Response(body=body, content_type=_JSON, headers=headers)

    async def _fit(self, request: web.Request) -> web.Response:
        grant = self._access.grant_of(request.headers.get("Authorization"), _host_of(request))
        with self._bytes.holding(grant) as take_bytes, self._places.holding(grant) as take_places:
            body = await self._body(request, take_bytes, "gateway_fit_max_bytes")
            take_places(1)
            size, key = len(body), request.headers.get("Idempotency-Key")
            call = await fits.off_loop(size, fits.fit_request_of, body, key)
            del body
            self._access.require_names(grant, call.options.tenant, fits.policies_of(call))
            span = request.get(_SPAN)
            if span and call.session_id:
                span.name_session(call.session_id)
            client = fits.BackendClient(self._backend, self._bounds, _trace_of(request), self._engine)
            seconds = calls.wait_s(request.headers.getall("Prefer", ()), self._settings.gateway_wait_s)
            async with self._deadline(seconds, call.options.request_id or UNSET):
                answer = encode(await fits.fitted(call, size, client))
        if span:
            span.name_answer(client.answers[0].composed)
        is_repeated = all(each.is_repeated for each in client.answers)
        headers = {"Idempotency-Replayed": "true"} if is_repeated else None
        return web.Response(body=answer, content_type=_JSON, headers=headers)

    async def _publish(self, request: web.Request) -> web.Response:
        await self._submit(request, calls.artifact_of, self._backend.publish)
        return web.Response(status=HTTPStatus.ACCEPTED)

    async def _retract(self, request: web.Request) -> web.Response:
        named, query = request.match_info.get("id"), request.query
        await self._submit(
            request,
            lambda _, bounds, trace: calls.retraction_of(named, query, bounds, trace),
            self._backend.publish,
        )
        return web.Response(status=HTTPStatus.ACCEPTED)

    async def _submit(
        self,
        request: web.Request,
        read: Callable[[bytes, Bounds, TraceHeaders], SubmittedEvent],
        send: Callable[[SubmittedEvent], Awaitable[A]],
    ) -> A:
        """Admit a call, `read` its event, check that the caller's token covers it, and `send` it.

        Every event takes this way to the backend, except events of `_fit`.
        """
        grant = self._access.grant_of(request.headers.get("Authorization"), _host_of(request))
        with self._bytes.holding(grant) as take_bytes, self._places.holding(grant) as take_places:
            body = b"" if request.method == "DELETE" else await self._body(request, take_bytes)
            take_places(1)
            submitted = read(body, self._bounds, _trace_of(request))
            event = submitted.event
            self._access.require(grant, event)
            if span := request.get(_SPAN):
                span.name_session(event.session_id)
            request_id = event.request_id if isinstance(event, ContextRequest) else UNSET
            sending = send(submitted)
            del body, submitted, event  # so that the backend can free their memory before the answer
            seconds = calls.wait_s(request.headers.getall("Prefer", ()), self._settings.gateway_wait_s)
            async with self._deadline(seconds, request_id):
                return await sending

    async def _body(
        self, request: web.Request, take_bytes: Callable[[int], None], bound: str = "event_max_bytes"
    ) -> bytes:
        if request.content_type != _JSON:
            detail = f"send JSON, with Content-Type {_JSON}"
            raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
        try:
            async with self._at_most(self._settings.gateway_wait_s):
                return await self._read(request, take_bytes, bound)
        except TimeoutError:
            detail = "the body did not arrive within gateway_wait_s"
            raise ProblemError(HTTPStatus.REQUEST_TIMEOUT, "request_timeout", detail) from None
        except web.RequestPayloadError:
            detail = "the body does not have the encoding or the length that the head of the call names"
            raise ProblemError(HTTPStatus.BAD_REQUEST, "invalid_body", detail) from None

    async def _read(self, request: web.Request, take_bytes: Callable[[int], None], bound: str) -> bytes:
        """Return a body. The bytes of Content-Length are taken first, so that no other call takes them.

        aiohttp's own `read` would keep the body until the response. A body that is too large, by the
        setting `bound`, raises ProblemError.
        """
        body, most = bytearray(), getattr(self._settings, bound)
        taken = min(request.content_length or 0, most)
        take_bytes(taken)
        async for piece in request.content.iter_any():
            body += piece
            if len(body) > most:
                detail = f"the body has more than {most} bytes ({bound})"
                raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, ErrorCode.TOO_LARGE, detail)
            if len(body) > taken:
                take_bytes(len(body) - taken)
                taken = len(body)
        return bytes(body)

    @asynccontextmanager
    async def _deadline(self, seconds: float, request_id: Opt[str]) -> AsyncIterator[None]:
        """Bound the time of the backend, and turn its errors into ProblemError."""
        try:
            async with self._at_most(seconds):
                yield
        except TimeoutError:
            detail = "no answer in time; repeat the call with this request_id as Idempotency-Key to get it"
            if request_id is UNSET:
                detail = "the event may not have been delivered; repeat the call"
            raise ProblemError(
                HTTPStatus.GATEWAY_TIMEOUT, "no_answer", detail, request_id=request_id
            ) from None
        except EventError as error:
            raise refused(error, request_id) from None
        except AnswerGoneError:
            detail = "the session has answered this request, and the answer is gone; use a new request_id"
            raise ProblemError(HTTPStatus.GONE, "answer_gone", detail, request_id=request_id) from None
        except NotRecordedError:
            detail = "a file of --events or --decisions cannot be written, and nothing was charged; make room"
            raise ProblemError(
                HTTPStatus.SERVICE_UNAVAILABLE, "not_recorded", detail, request_id=request_id
            ) from None
        except BackendAwayError:
            detail = "the event may not have been delivered; repeat the call with the same request_id"
            raise ProblemError(
                HTTPStatus.SERVICE_UNAVAILABLE, "not_delivered", detail, request_id=request_id
            ) from None

    @asynccontextmanager
    async def _at_most(self, seconds: float) -> AsyncIterator[None]:
        """Bound the time of the block. `end_within` can shorten it."""
        async with asyncio.timeout(seconds) as deadline:
            self._deadlines.add(deadline)
            try:
                yield
            finally:
                self._deadlines.discard(deadline)

    async def _document(self, _: web.Request) -> web.Response:
        return web.Response(body=self._openapi, content_type=_JSON)

    async def _livez(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        reasons = await self._backend.why_not_ready()
        if reasons:
            raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, "not_ready", "; ".join(reasons))
        return web.Response(text="ok\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        encode_all, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode_all(self.numbers.registry), headers={"Content-Type": content_type})


def _trace_of(request: web.Request) -> TraceHeaders:
    """Return the trace context of a call's event: the call's span, or the caller's if there is no span."""
    span = request.get(_SPAN)
    return calls.trace_headers(request) if span is None else span.headers()


def _host_of(request: web.Request) -> str:
    """Return the host that a call names; empty if it is malformed."""
    try:
        return request.url.host or ""
    except ValueError:
        return ""


def _rendered(answer: GatewayAnswer, form: str, *, with_decision: bool) -> bytes:
    body = answer.composed
    if form:
        composed = _composed.decode(body)
        try:
            body = encode(shaped(composed, BODIES[form]))
        except FormatError as error:
            raise refused(error, composed.request_id) from None
    return b'{"composed":%b,"decision":%b}' % (body, answer.decision) if with_decision else body
