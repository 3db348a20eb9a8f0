"""Clients of the gateway: a synchronous and an asynchronous one, which speak the same protocol.

They need the extra `client`. Both can be the client of `apportion.fit`.
"""

from apportion.client.async_client import AsyncGatewayClient
from apportion.client.errors import GatewayError, RefusedError, UnansweredError
from apportion.client.protocol import ComposedAnswer
from apportion.client.sync_client import GatewayClient

__all__ = [
    "AsyncGatewayClient",
    "ComposedAnswer",
    "GatewayClient",
    "GatewayError",
    "RefusedError",
    "UnansweredError",
]
