"""`apportion health` against a worker on this machine, including a worker with a blocked event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.commands import Ended, apportion
from support.containers import free_port

from apportion.shell.operations.health import Health
from apportion.shell.operations.numbers import Numbers
from apportion.shell.operations.server import PortTakenError, serving

pytestmark = pytest.mark.asyncio


class Judge(Health):
    """A health judge with fixed answers."""

    def __init__(self, *, dead: tuple[str, ...] = (), unready: tuple[str, ...] = ()) -> None:
        self.dead, self.unready = dead, unready

    def why_dead(self) -> tuple[str, ...]:
        return self.dead

    def why_not_ready(self) -> tuple[str, ...]:
        return self.unready


async def nothing() -> None: ...


@asynccontextmanager
async def served(judge: Judge) -> AsyncIterator[int]:
    port = free_port()
    async with serving("127.0.0.1", port, judge, Numbers(), nothing):
        yield port


async def ask(port: int, *arguments: str) -> Ended:
    return await asyncio.to_thread(apportion, "health", "--health-port", str(port), *arguments)


async def test_a_worker_that_is_well_is_exit_code_0() -> None:
    async with served(Judge()) as port:
        assert await ask(port) == Ended(0, b"ok\n", "")


async def test_a_hanging_worker_gives_exit_code_1_with_the_reason() -> None:
    async with served(Judge(dead=("partition 3 does not move, for 50 s", "and so on"))) as port:
        told = await ask(port)
    assert (told.exit_code, told.err) == (
        1,
        "apportion: unhealthy: partition 3 does not move, for 50 s; and so on\n",
    )


async def test_a_worker_that_is_only_not_ready_lives() -> None:
    async with served(Judge(unready=("the group is rebalancing",))) as port:
        assert (await ask(port)).exit_code == 0
        told = await ask(port, "--ready")
    assert (told.exit_code, told.err) == (1, "apportion: unhealthy: the group is rebalancing\n")


async def test_no_listener_gives_exit_code_1() -> None:
    port = free_port()
    told = await ask(port)
    assert told.exit_code == 1
    assert told.err.startswith(f"apportion: unhealthy: no answer from 127.0.0.1:{port}: ")


async def test_a_blocked_worker_loop_does_not_delay_the_command() -> None:
    with socket.create_server(("127.0.0.1", 0)) as blocked:
        port = blocked.getsockname()[1]
        told = await ask(port, "--timeout", "0.2")
    assert told.err == f"apportion: unhealthy: no answer from 127.0.0.1:{port} within 0.2 s\n"


async def test_a_worker_without_a_health_port_cannot_be_checked() -> None:
    told = await ask(0)
    assert (told.exit_code, "health_port is 0" in told.err) == (1, True)


async def test_an_address_in_use_is_reported() -> None:
    async with served(Judge()) as port:
        with pytest.raises(PortTakenError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with serving("127.0.0.1", port, Judge(), Numbers(), nothing):
                pass


async def test_a_scraper_that_reads_nothing_blocks_no_other_request() -> None:
    async with served(Judge()) as port:
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
        for _, writer in slow:
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: worker\r\n\r\n")
        assert (await ask(port)).exit_code == 0
        for _, writer in slow:
            writer.close()
