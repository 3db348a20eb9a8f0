"""Clients of the gateway, synchronous and asynchronous, with the same protocol.

They need the extra `client`. `GatewayClient` can be the client of `apportion.fit`, and `AsyncGatewayClient`
the client of `apportion.fit_async`.
"""

try:
    from apportion.client.async_client import AsyncGatewayClient
    from apportion.client.sync_client import GatewayClient
except ModuleNotFoundError as error:
    message = f"{error.name} is not installed: run `pip install 'apportion[client]'`"
    raise ModuleNotFoundError(message, name=error.name) from None
from apportion.client.errors import GatewayError, RefusedError, UnansweredError
from apportion.client.protocol import ComposedAnswer, FittedAnswer

__all__ = [
    "AsyncGatewayClient",
    "ComposedAnswer",
    "FittedAnswer",
    "GatewayClient",
    "GatewayError",
    "RefusedError",
    "UnansweredError",
]
