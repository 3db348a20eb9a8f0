"""A caller's connection: HTTP by aiohttp, with bounds that aiohttp does not have."""

import asyncio
import resource
from http import HTTPStatus
from itertools import chain
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import ContentEncodingError, HttpProcessingError, LineTooLong

from apportion.doors.gateway.numbers import GatewayNumbers
from apportion.doors.gateway.problems import ProblemError, internal_error, of_http, response_of

_HEAD_S = 10.0
_HEAD_MAX_BYTES = 1 << 16
_IDLE_S = 75.0
"""Time for which a connection stays open between two calls. A proxy's own time must be shorter."""
_OPTIONS: dict[str, Any] = {"access_log": None, "keepalive_timeout": _IDLE_S}


def connections_max(wanted: int) -> int:
    """Return the number of connections that a process can have, at most `wanted`.

    Half of the descriptors stay free. asyncio accepts hundreds of connections before the first one is
    counted, and without a free descriptor it repeats `accept` without a pause.
    """
    return min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


class CallerConnection(web.RequestHandler):
    """A connection with bounds on the time and the size of a head, and on the number of connections.

    A connection whose head is not complete after 10 s, or has more than 64 KiB, is closed. At the largest
    number, a new connection replaces the oldest one that waits for a head, or else for the rest of a body. If
    none waits, the new connection is closed.
    """

    def __init__(self, server: web.Server, numbers: GatewayNumbers, most: int) -> None:
        """`most` is the largest number of the server's connections."""
        super().__init__(server, loop=asyncio.get_running_loop(), **_OPTIONS)
        self._server, self._numbers, self._most = server, numbers, most
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    @property
    def awaits_head(self) -> bool:
        """True while no call is handled."""
        return self._waiter is not None and not self._waiter.done()

    @property
    def awaits_body(self) -> bool:
        """True while the body of a call is not whole."""
        return self._current_request is not None and not self._current_request.content.is_eof()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless there are too many connections."""
        others = self._server.connections
        if len(others) >= self._most:
            callers = [other for other in others if isinstance(other, CallerConnection)]
            waiting = chain(
                (caller for caller in callers if caller.awaits_head),
                (caller for caller in callers if caller.awaits_body),
            )
            oldest = next(waiting, None)
            if oldest is None:
                assert isinstance(transport, asyncio.Transport), "of a socket"
                transport.abort()
                return
            oldest.force_close()
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End."""
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a head or of a body."""
        super().data_received(data)
        if not self.awaits_head:
            self._end_head()
        elif data:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_MAX_BYTES:
                self.force_close()
            elif self._head_timer is None:
                self._expect_head()

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002 - as in aiohttp
        status: int = 500,  # noqa: ARG002
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it quotes the caller
    ) -> web.StreamResponse:
        """Return the problem of a head that cannot be read, or of a defect before the middleware."""
        is_unread = isinstance(exc, HttpProcessingError)
        return self._problem(_unread(exc) if is_unread else internal_error(exc))

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send a response. aiohttp answers an unknown `Expect` without middleware; this becomes a problem."""
        if isinstance(resp, web.HTTPException):
            resp = self._problem(of_http(resp))
        return await super().finish_response(request, resp, start_time)

    def _problem(self, error: ProblemError) -> web.StreamResponse:
        response = response_of(error)
        response.force_close()
        self._numbers.calls.labels("other", str(response.status)).inc()
        return response

    def _expect_head(self) -> None:
        self._head_timer = self._loop.call_later(_HEAD_S, self.force_close)

    def _end_head(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _unread(error: BaseException | None) -> ProblemError:
    if isinstance(error, ContentEncodingError):
        detail = "send the body without Content-Encoding, or by gzip or deflate"
        return ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
    if isinstance(error, LineTooLong):
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        return ProblemError(status, "head_too_large", "a line of the head has 8,190 bytes at most")
    detail = "the head of the call is not HTTP/1.1, or has an unknown method"
    return ProblemError(HTTPStatus.BAD_REQUEST, "invalid_head", detail)
