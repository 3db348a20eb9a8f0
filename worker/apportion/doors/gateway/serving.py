"""Serving of a gateway: from the settings to its end at SIGTERM or SIGINT."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from typing import TYPE_CHECKING

from aiohttp import web

from apportion.doors.gateway.access import Access, create_access
from apportion.doors.gateway.application import GatewayApp
from apportion.doors.gateway.backend import Backend
from apportion.doors.gateway.connection import CallerConnection, connections_max
from apportion.doors.gateway.openapi import openapi
from apportion.settings import Settings
from apportion.shell.operations.log import log_fact, log_to_stderr

if TYPE_CHECKING:
    from apportion.doors.gateway.tracing import CallSpans

END_S = 8.0
"""Time that calls in flight have after SIGTERM: supervisors kill after ten seconds, or more."""
_CONNECTIONS_OF_A_CALL = 4
"""Connections for each call that can be in flight; most connections of a caller are idle."""


class GatewayPortTakenError(Exception):
    """The gateway cannot listen at its address."""

    code = "gateway_port_taken"

    def __init__(self, host: str, port: int, error: OSError) -> None:
        reason = os.strerror(error.errno) if error.errno else error
        super().__init__(
            f"cannot listen on {host}:{port}: {reason}; change gateway_host (--gateway-host) or gateway_port"
            " (--gateway-port)"
        )


def run_gateway(settings: Settings, opening: AbstractAsyncContextManager[Backend]) -> None:
    """Answer calls until SIGTERM or SIGINT; calls in flight then have `END_S`. Must run in the main thread.

    Raises:
        SettingsError: other machines would reach a gateway without tokens, or the tokens are invalid.
        GatewayPortTakenError: the address is in use or not allowed, or does not belong to this machine.
    """
    access = create_access(settings)
    log_to_stderr(settings.log_format)
    spans = None
    if settings.tracing:
        from apportion.doors.gateway.tracing import CallSpans  # noqa: PLC0415 - its library is an extra

        spans = CallSpans()
    asyncio.run(_serve(settings, access, opening, spans))


async def _serve(
    settings: Settings,
    access: Access,
    opening: AbstractAsyncContextManager[Backend],
    spans: "CallSpans | None",
) -> None:
    ending = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    async with opening as backend:
        app = GatewayApp(settings, access, backend, openapi(), spans)
        async with serving(app, settings) as port:
            log_fact("ready", host=settings.gateway_host, port=port)
            await ending.wait()
            log_fact("stopping", reason="signal")
            app.end_within(END_S)
    log_fact("stopped")


@asynccontextmanager
async def serving(app: GatewayApp, settings: Settings) -> AsyncIterator[int]:
    """Serve HTTP at the gateway's address, and yield its port; at the end wait for calls in flight.

    Raises:
        GatewayPortTakenError: the address is in use, or does not belong to this machine.
    """
    runner = web.AppRunner(app.application(), handle_signals=False, shutdown_timeout=END_S + 1)
    await runner.setup()
    server, most = runner.server, connections_max(_CONNECTIONS_OF_A_CALL * settings.gateway_in_flight_max)
    assert server is not None, "it was set up"
    loop, host, port = asyncio.get_running_loop(), settings.gateway_host, settings.gateway_port
    try:
        try:
            sites = await loop.create_server(lambda: CallerConnection(server, app.numbers, most), host, port)
        except OSError as error:
            raise GatewayPortTakenError(host, port, error) from None
        with closing(sites):
            yield sites.sockets[0].getsockname()[1]
    finally:
        await runner.cleanup()
