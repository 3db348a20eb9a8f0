"""The synchronous client of a gateway."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import httpx2
from tenacity import Retrying

from apportion.client import protocol
from apportion.client.connection import Connection, left_s
from apportion.client.protocol import ComposedAnswer, FitFields, FittedAnswer, HttpCall
from apportion.core.events import Candidate, ContextArtifact, ContextRequest


class GatewayClient:
    """A client of a gateway, which threads may share. It repeats calls that got no answer."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        deadline_s: float = 30.0,
        backoff_s: float = 0.1,
        http: httpx2.Client | None = None,
    ) -> None:
        """Connect to a gateway at a URL, such as `http://localhost:8080`.

        `deadline_s` bounds a call with all of its repetitions. In the last attempt it bounds each wait for
        the network, not their sum. `backoff_s` bounds the first random pause; the bound doubles up to 5 s.
        `http` is a client with settings of your own, such as certificates; you close it.

        Raises:
            GatewayError: the URL is not a valid HTTP URL.
        """
        self._connection = Connection(url, token, deadline_s, backoff_s)
        self._is_own = http is None
        self._http = httpx2.Client() if http is None else http

    def compose(self, request: ContextRequest, /, *, with_decision: bool = False) -> ComposedAnswer:
        """Return the answer to a request.

        Raises:
            RefusedError: the request is refused.
            UnansweredError: there was no answer before the deadline.
            GatewayError: the call failed for another cause.
        """
        call = protocol.compose_call(request, with_decision=with_decision)
        return protocol.read_answer(self._send(call), call, with_decision=with_decision)

    def fit(
        self,
        body: Mapping[str, Any] | Sequence[Any],
        limit_tokens: int,
        *,
        session_id: str | None = None,
        artifacts: Sequence[Candidate | Mapping[str, Any]] | None = None,
        options: FitFields = None,
    ) -> FittedAnswer:
        """Return a provider's body, or its list of messages, fitted to a limit of tokens.

        `body` is JSON of at most the gateway's `gateway_fit_max_bytes`; files in it do not leave the gateway.
        `options` are `apportion.FitOptions`, or some of its fields. Without a session id, the call is a
        session of its own.

        Raises:
            RefusedError: the body is refused, or cannot be fitted.
            GatewayError: as for `compose`.
        """
        given = {"session_id": session_id, "artifacts": artifacts}
        call = protocol.fit_call(body, limit_tokens, options, given)
        return protocol.read_fitted(self._send(call), call)

    def publish(self, artifact: ContextArtifact, /) -> None:
        """Publish an artifact for later requests of its session.

        Raises:
            GatewayError: as for `compose`.
        """
        self._send(protocol.publish_call(artifact))

    def retract(self, artifact_id: str, /, *, session_id: str, source: str, tenant: str = "default") -> None:
        """Take a published artifact back.

        Raises:
            GatewayError: as for `compose`.
        """
        self._send(protocol.retract_call(artifact_id, session_id=session_id, source=source, tenant=tenant))

    def close(self) -> None:
        """Close the connections."""
        if self._is_own:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, call: HttpCall) -> httpx2.Response:
        repeat = Retrying(**self._connection.rules())
        return repeat(self._attempt, call, self._connection.end_s())

    def _attempt(self, call: HttpCall, end_s: float) -> httpx2.Response:
        seconds = left_s(end_s)
        request = self._connection.http_request(call, seconds)
        try:
            response = self._http.request(**request, timeout=seconds)
        except httpx2.TransportError as error:
            raise protocol.no_response(call, type(error).__name__) from error
        return protocol.require_success(response, call)
