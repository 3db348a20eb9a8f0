"""The asynchronous client of a gateway, for asyncio."""

import asyncio
from typing import Self, Unpack

import httpx2
from tenacity import AsyncRetrying

from apportion.client import protocol
from apportion.client.connection import Connection, left_s
from apportion.client.protocol import Body, ComposedAnswer, FitArguments, FittedAnswer, HttpCall
from apportion.core.events import ContextArtifact, ContextRequest


class AsyncGatewayClient(Connection[httpx2.AsyncClient]):
    """A client of a gateway for one event loop. It repeats calls that got no answer."""

    async def compose(self, request: ContextRequest, /, *, with_decision: bool = False) -> ComposedAnswer:
        """Return the answer to a request, or raise an error, as `GatewayClient` does."""
        call = protocol.compose_call(request, with_decision=with_decision)
        return protocol.read_answer(await self._send(call), call, with_decision=with_decision)

    async def fit(
        self, body: Body, limit_tokens: int | None = None, **arguments: Unpack[FitArguments]
    ) -> FittedAnswer:
        """Return a provider's body fitted to a limit, or raise an error, as `GatewayClient` does."""
        call = protocol.fit_call(body, limit_tokens, arguments)
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

    def _new_http(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient()

    async def _send(self, call: HttpCall) -> httpx2.Response:
        repeat = AsyncRetrying(**self._rules())
        return await repeat(self._attempt, call, self._end_s())

    async def _attempt(self, call: HttpCall, end_s: float) -> httpx2.Response:
        seconds = left_s(end_s)
        request = self._http_request(call, seconds)
        try:
            async with asyncio.timeout(seconds):
                response = await self._http.request(**request, timeout=None)
        except (TimeoutError, httpx2.TransportError) as error:
            raise protocol.no_response(call, type(error).__name__) from error
        return protocol.require_success(response, call)
