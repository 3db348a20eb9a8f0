"""The synchronous client of a gateway."""

from typing import Self, Unpack

import httpx2
from tenacity import Retrying

from apportion.client import protocol
from apportion.client.connection import Connection, left_s
from apportion.client.protocol import Body, ComposedAnswer, FitArguments, FittedAnswer, HttpCall
from apportion.core.events import ContextArtifact, ContextRequest


class GatewayClient(Connection[httpx2.Client]):
    """A client of a gateway, which threads may share. It repeats calls that got no answer."""

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
        self, body: Body, limit_tokens: int | None = None, **arguments: Unpack[FitArguments]
    ) -> FittedAnswer:
        """Return a provider's body, or its list of messages, fitted to a limit of tokens.

        Without a limit, it is the window of the model less its answer.
        `body` is JSON of at most the gateway's `gateway_fit_max_bytes`; files in it do not leave the gateway.

        Raises:
            RefusedError: the body is refused, or cannot be fitted.
            GatewayError: the body has bytes, which are no JSON, or as for `compose`.
        """
        call = protocol.fit_call(body, limit_tokens, arguments)
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

    def _new_http(self) -> httpx2.Client:
        return httpx2.Client()

    def _send(self, call: HttpCall) -> httpx2.Response:
        repeat = Retrying(**self._rules())
        return repeat(self._attempt, call, self._end_s())

    def _attempt(self, call: HttpCall, end_s: float) -> httpx2.Response:
        seconds = left_s(end_s)
        request = self._http_request(call, seconds)
        try:
            response = self._http.request(**request, timeout=seconds)
        except httpx2.TransportError as error:
            raise protocol.no_response(call, type(error).__name__) from error
        return protocol.require_success(response, call)
