"""Address, token and times of a client's calls."""

from time import monotonic
from typing import TypedDict
from urllib.parse import urlsplit

from tenacity import retry_if_exception_type, stop_before_delay, wait_exception, wait_random_exponential
from tenacity.retry import retry_base
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from apportion.client.errors import GatewayError, UnansweredError
from apportion.client.protocol import HttpCall

_PAUSE_MAX_S = 5.0


class RetryRules(TypedDict):
    """The rules by which a call is repeated, as arguments of tenacity's loops."""

    retry: retry_base
    wait: wait_base
    stop: stop_base
    reraise: bool


class HttpRequest(TypedDict):
    """A call as arguments of an HTTP client."""

    method: str
    url: str
    content: bytes
    headers: dict[str, str]


class Deadline:
    """The end of a call."""

    def __init__(self, seconds: float) -> None:
        self._end_s = monotonic() + seconds

    def left_s(self) -> float:
        """Return the seconds that are left."""
        return max(0.0, self._end_s - monotonic())


class Connection:
    """A gateway, as a client calls it."""

    def __init__(self, url: str, token: str | None, deadline_s: float, backoff_s: float) -> None:
        """Take the arguments of a client.

        Raises:
            GatewayError: the URL is none of HTTP.
        """
        _require_http(url)
        self._url = url.rstrip("/")
        self._token = token
        self._deadline_s = deadline_s
        self._backoff_s = backoff_s

    def deadline(self) -> Deadline:
        """Return the end of a call that begins now."""
        return Deadline(self._deadline_s)

    def rules(self) -> RetryRules:
        """Return the rules: calls without an answer are repeated after growing random pauses.

        A pause is at least what the gateway asks for. No pause ends after the deadline.
        """
        pauses = wait_random_exponential(multiplier=self._backoff_s, max=_PAUSE_MAX_S)
        return RetryRules(
            retry=retry_if_exception_type(UnansweredError),
            wait=wait_exception(_asked_s) + pauses,
            stop=stop_before_delay(self._deadline_s),
            reraise=True,
        )

    def http_request(self, call: HttpCall, left_s: float) -> HttpRequest:
        """Return a call for which the gateway may wait that long."""
        headers = {"Prefer": f"wait={max(1, int(left_s))}"}
        if call.body:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        return HttpRequest(method=call.method, url=self._url + call.path, content=call.body, headers=headers)


def _require_http(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_http = False
    if not is_http:
        raise GatewayError("invalid_url", "give the URL of a gateway, such as http://localhost:8080")


def _asked_s(error: BaseException) -> float:
    assert isinstance(error, UnansweredError), "only these are repeated"
    return error.retry_after_s
