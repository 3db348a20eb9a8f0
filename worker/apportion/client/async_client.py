"""The asynchronous client of a gateway, for asyncio."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Self

import httpx2
from tenacity import AsyncRetrying

from apportion.client import protocol
from apportion.client.connection import Connection, left_s
from apportion.client.protocol import ComposedAnswer, FitFields, FittedAnswer, HttpCall
from apportion.core.events import Candidate, ContextArtifact, ContextRequest


class AsyncGatewayClient:
    """A client of a gateway for one event loop. It repeats calls that got no answer."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        deadline_s: float = 30.0,
        backoff_s: float = 0.1,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        """Connect to a gateway at a URL, such as `http://localhost:8080`.

        The arguments are as for `GatewayClient`, but `deadline_s` bounds the whole call.

        Raises:
            GatewayError: the URL is not a valid HTTP URL.
        """
        self._connection = Connection(url, token, deadline_s, backoff_s)
        self._is_own = http is None
        self._http = httpx2.AsyncClient() if http is None else http

    async def compose(self, request: ContextRequest, /, *, with_decision: bool = False) -> ComposedAnswer:
        """Return the answer to a request, or raise an error, as `GatewayClient` does."""
        call = protocol.compose_call(request, with_decision=with_decision)
        return protocol.read_answer(await self._send(call), call, with_decision=with_decision)

    async def fit(
        self,
        body: Mapping[str, Any] | Sequence[Any],
        limit_tokens: int,
        *,
        session_id: str | None = None,
        artifacts: Sequence[Candidate | Mapping[str, Any]] | None = None,
        options: FitFields = None,
    ) -> FittedAnswer:
        """Return a provider's body fitted to a limit, or raise an error, as `GatewayClient` does."""
        given = {"session_id": session_id, "artifacts": artifacts}
        call = protocol.fit_call(body, limit_tokens, options, given)
        return protocol.read_fitted(await self._send(call), call)

    async def publish(self, artifact: ContextArtifact, /) -> None:
        """Publish an artifact for later requests of its session. Errors are as in `GatewayClient`."""
        await self._send(protocol.publish_call(artifact))

    async def retract(
        self, artifact_id: str, /, *, session_id: str, source: str, tenant: str = "default"
    ) -> None:
        """Take a published artifact back. Errors are as in `GatewayClient`."""
        await self._send(
            protocol.retract_call(artifact_id, session_id=session_id, source=source, tenant=tenant)
        )

    async def aclose(self) -> None:
        """Close the connections."""
        if self._is_own:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _send(self, call: HttpCall) -> httpx2.Response:
        repeat = AsyncRetrying(**self._connection.rules())
        return await repeat(self._attempt, call, self._connection.end_s())

    async def _attempt(self, call: HttpCall, end_s: float) -> httpx2.Response:
        seconds = left_s(end_s)
        request = self._connection.http_request(call, seconds)
        try:
            async with asyncio.timeout(seconds):
                response = await self._http.request(**request, timeout=None)
        except (TimeoutError, httpx2.TransportError) as error:
            raise protocol.no_response(call, type(error).__name__) from error
        return protocol.require_success(response, call)
