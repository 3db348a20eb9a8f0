"""The part that both clients share: HTTP arguments, deadlines and retries."""

from abc import ABC, abstractmethod
from time import monotonic
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from tenacity import retry_if_exception_type, stop_before_delay, wait_exception, wait_random_exponential

from apportion.client.errors import GatewayError, UnansweredError
from apportion.client.protocol import HttpCall

H = TypeVar("H")
_PAUSE_MAX_S = 5.0


class Connection(ABC, Generic[H]):
    """The base of both clients: a gateway's address, the token, an HTTP client, and the deadline of calls."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        deadline_s: float = 30.0,
        backoff_s: float = 0.1,
        http: H | None = None,
    ) -> None:
        """Connect to a gateway at a URL, such as `http://localhost:8080`.

        `deadline_s` bounds a call with all of its repetitions. In the last attempt of `GatewayClient`, it
        bounds each wait for the network, not their sum. `backoff_s` bounds the first random pause; the bound
        doubles up to 5 s. `http` is a client with settings of your own, such as certificates; you close it.

        Raises:
            GatewayError: the URL is not a valid HTTP URL.
        """
        _require_http(url)
        self._url = url.rstrip("/")
        self._token = token
        self._deadline_s = deadline_s
        self._backoff_s = backoff_s
        self._is_own = http is None
        self._http = self._new_http() if http is None else http

    @abstractmethod
    def _new_http(self) -> H:
        """Return an HTTP client."""

    def _end_s(self) -> float:
        """Return the time (monotonic) at which a call that begins now must end."""
        return monotonic() + self._deadline_s

    def _rules(self) -> dict[str, Any]:
        """Return the arguments of tenacity's loops, which repeat unanswered calls after random pauses.

        A pause is at least as long as the gateway's `Retry-After`. No pause ends after the deadline.
        """
        pauses = wait_random_exponential(multiplier=self._backoff_s, max=_PAUSE_MAX_S)
        return {
            "retry": retry_if_exception_type(UnansweredError),
            "wait": wait_exception(_asked_s) + pauses,
            "stop": stop_before_delay(self._deadline_s),
            "reraise": True,
        }

    def _http_request(self, call: HttpCall, left_s: float) -> dict[str, Any]:
        """Return the arguments of an HTTP client. The gateway may wait for `left_s`, but at least 1 s."""
        headers = {"Prefer": f"wait={max(1, int(left_s))}"}
        if call.body:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        return {"method": call.method, "url": self._url + call.path, "content": call.body, "headers": headers}


def left_s(end_s: float) -> float:
    """Return the seconds until the end of a call, at least 0."""
    return max(0.0, end_s - monotonic())


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
