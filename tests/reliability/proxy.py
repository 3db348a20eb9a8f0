"""A proxy for a bad network between a worker and its brokers: it delays or drops all traffic.

The variable `PROXIED`, as `broker's port:proxy's port`, redirects the worker's connections.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_PIECE_BYTES = 1 << 16


class Network:
    """One broker's port, as a worker reaches it."""

    def __init__(self, broker_port: int) -> None:
        """Pass everything on at once."""
        self.broker_port = broker_port
        self._open = asyncio.Event()
        self._open.set()
        self._connections: set[asyncio.StreamWriter] = set()
        self.delay_s = 0.0
        self.refuses = False
        self.port = 0

    def cut(self) -> None:
        """Break all connections; new ones may be made."""
        for connection in self._connections:
            connection.transport.abort()

    def hold(self) -> None:
        """Let nothing pass: it waits."""
        self._open.clear()

    def release(self) -> None:
        """Let pass what waits, and all else."""
        self._open.set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the worker's."""
        if self.refuses:
            writer.transport.abort()
            return
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.broker_port)
        both = {writer, to_writer}
        self._connections |= both
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(reader, to_writer))
                group.create_task(self._pass_on(to_reader, writer))
        except* (OSError, asyncio.CancelledError):
            pass  # either side has gone
        finally:
            self._connections -= both
            for one in both:
                one.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass pieces on in their order, each after the delay; many are on their way at once."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due_s, piece = await pieces.get()
                await asyncio.sleep(max(0.0, due_s - loop.time()))
                await self._open.wait()
                writer.write(piece)
                await writer.drain()

        delivering = asyncio.create_task(deliver())
        try:
            while piece := await reader.read(_PIECE_BYTES):
                pieces.put_nowait((loop.time() + self.delay_s, piece))
            raise ConnectionResetError
        finally:
            delivering.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await delivering


@asynccontextmanager
async def network(broker_port: int) -> AsyncIterator[Network]:
    """Run a proxy between a worker and the broker at this port."""
    made = Network(broker_port)
    server = await asyncio.start_server(made.connected, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        made.release()
        made.cut()
        await server.wait_closed()
