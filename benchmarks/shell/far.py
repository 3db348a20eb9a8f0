"""A worker with a distant broker: it runs in a namespace that `benchmarks.shell.delay` makes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class NearError(Exception):
    """There is no way to put the broker far away here."""


@contextmanager
def far_broker(address: str, delay_ms: float) -> Iterator[tuple[str, ...]]:
    """Yield the beginning of a command line that runs with this delay to the broker, each way; 0: none."""
    if not delay_ms:
        yield ()
        return
    host, _, port = address.rpartition(":")
    if host not in {"127.0.0.1", "localhost"}:
        raise NearError("a delay can be put before one broker on this machine only")
    proxy = subprocess.Popen(  # noqa: S603 - our own
        (sys.executable, "-m", "benchmarks.shell.delay", port, str(delay_ms)),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(("worker", "tests"))},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert proxy.stdout is not None, "it is a pipe"
        path = proxy.stdout.readline().strip()
        if not path:
            raise NearError("network namespaces need Linux and root")
        yield "nsenter", f"--net={path}", "--"
    finally:
        proxy.terminate()
        proxy.wait()
