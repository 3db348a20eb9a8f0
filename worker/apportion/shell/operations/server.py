"""The worker's HTTP server: `/livez`, `/readyz` and `/metrics`, by aiohttp, on which Faust depends."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from apportion.shell.operations.health import Health


class PortTakenError(Exception):
    """The health endpoints cannot be served at their address."""

    code = "health_port_taken"

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"cannot listen on {host}:{port}: change health_host or health_port (0: no server)")


@asynccontextmanager
async def serving(
    host: str, port: int, health: Health, numbers: Collector, refresh: Callable[[], Awaitable[None]]
) -> AsyncIterator[None]:
    """Serve until the context ends; each answer first awaits `refresh`. Raises PortTakenError."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(numbers)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)

    async def livez(_: web.Request) -> web.Response:
        await refresh()
        return _judged(health.why_dead())

    async def readyz(_: web.Request) -> web.Response:
        await refresh()
        return _judged(health.why_not_ready())

    async def metrics(request: web.Request) -> web.Response:
        await refresh()
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    app = web.Application()
    app.add_routes([web.get("/livez", livez), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError:
            raise PortTakenError(host, port) from None
        yield
    finally:
        await runner.cleanup()


def _judged(reasons: tuple[str, ...]) -> web.Response:
    return web.Response(
        text="".join(f"{reason}\n" for reason in reasons) or "ok\n", status=503 if reasons else 200
    )
