"""Errors of calls as problem details (RFC 9457), and their status codes."""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType

from aiohttp import web
from msgspec import UNSET, Struct, json

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Opt
from apportion.doors.fitting import FitError
from apportion.doors.formats import FormatError
from apportion.shell.operations.log import log_warning

PROBLEM_JSON = "application/problem+json"
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class ProblemDetails(Struct, frozen=True, kw_only=True):
    """A problem of type `about:blank`: `title` is the phrase of the status, and `code` names the error."""

    title: str
    status: int
    code: str
    """The code of the error, as in a dead letter if the event was refused."""
    detail: str
    """The error and its remedy, for people."""
    pointer: Opt[str] = UNSET
    """The place in the event, such as `$.candidates[3].lane`."""
    request_id: Opt[str] = UNSET
    """The id of the request, with which the same call can be repeated."""


class ProblemError(Exception):
    """A call that gets a problem as its response."""

    def __init__(
        self,
        status: HTTPStatus,
        kind: str,
        detail: str,
        *,
        pointer: Opt[str] = UNSET,
        request_id: Opt[str] = UNSET,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> None:
        super().__init__(kind)
        self.headers = headers
        self.details = ProblemDetails(
            title=status.phrase,
            status=status,
            code=kind,
            detail=detail,
            pointer=pointer,
            request_id=request_id,
        )


def response_of(error: ProblemError) -> web.Response:
    """Return the response of a problem."""
    headers = {**error.headers, "Content-Type": PROBLEM_JSON}
    return web.Response(status=error.details.status, body=json.encode(error.details), headers=headers)


def refused(error: EventError | FitError | FormatError, request_id: Opt[str] = UNSET) -> ProblemError:
    """Return the problem of a refused event or chat, or of an answer that a format cannot express."""
    is_too_large = error.code == ErrorCode.TOO_LARGE
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE if is_too_large else HTTPStatus.UNPROCESSABLE_ENTITY
    return ProblemError(status, error.code, error.message, pointer=error.pointer, request_id=request_id)


def internal_error(error: BaseException | None) -> ProblemError:
    """Log a defect by its type, and return its problem."""
    log_warning("call failed", error=type(error).__name__)
    detail = "an internal error; the log of the gateway names its type"
    return ProblemError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", detail)


def of_http(error: web.HTTPException) -> ProblemError:
    """Return the problem of an error that aiohttp found, such as an unknown path or a wrong method."""
    status = HTTPStatus(error.status)
    allowed = error.headers.get("Allow")
    detail = f"the path takes {allowed}" if allowed else "see /openapi.json"
    headers = {"Allow": allowed} if allowed else _NO_HEADERS
    return ProblemError(status, status.phrase.lower().replace(" ", "_"), detail, headers=headers)
