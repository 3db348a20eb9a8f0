"""A distant broker: a network namespace in which a proxy at the broker's port delays all traffic.

    PYTHONPATH=worker:tests python -m benchmarks.shell.delay PORT DELAY_MS

It prints the namespace's path when it is ready. Clients there use the broker's own address, so neither
clients nor broker need other settings. It needs Linux and root.
"""

import asyncio
import ctypes
import os
import socket
import subprocess
import sys
from concurrent.futures import Future
from threading import Event, Thread, get_native_id

from reliability.proxy import Network

_NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of sched.h."""


async def main(port: int, delay_ms: float) -> None:
    """Pass on until the process is ended: each direction late by the delay."""
    made: Future[tuple[str, socket.socket]] = Future()
    Thread(target=_keep_namespace, args=(port, made), daemon=True).start()
    path, listening = made.result()
    network = Network(port)
    network.delay_s = delay_ms / 1e3
    server = await asyncio.start_server(network.connected, sock=listening)
    print(path, flush=True)
    await server.serve_forever()


def _keep_namespace(port: int, made: Future[tuple[str, socket.socket]]) -> None:
    """Move this thread, and no other, into a namespace of its own, and listen there at the broker's port."""
    try:
        _leave_network()
        subprocess.run(("ip", "link", "set", "lo", "up"), check=True)  # noqa: S607 - ours, wherever it is
        listening = socket.create_server(("127.0.0.1", port))
        made.set_result((f"/proc/{os.getpid()}/task/{get_native_id()}/ns/net", listening))
    except (OSError, subprocess.CalledProcessError) as error:
        made.set_exception(error)
        return
    Event().wait()


def _leave_network() -> None:
    """Move this thread into a network namespace of its own.

    Raises:
        OSError: it may not.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "a network namespace needs root")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
