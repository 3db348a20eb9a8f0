"""The embedded broker as a context manager.

The broker runs until the `with` block or the process ends. Only the watchdog signals the broker and touches
its files.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from apportion.demo.broker.binary import INSTEAD, EmbeddedBrokerError, broker_binary

_WATCHDOG = Path(__file__).with_name("watchdog.py")
_READY = "ready "


@dataclass(frozen=True, slots=True)
class EmbeddedBroker:
    """A broker that has answered a Kafka request.

    Attributes:
        bootstrap_servers: its one address, `127.0.0.1:PORT`.
        watchdog: the process that owns it, and leads the session and process group of both.
    """

    bootstrap_servers: str
    watchdog: subprocess.Popen[str]

    def check(self) -> None:
        """Require that the broker is still running.

        Raises:
            EmbeddedBrokerError: it has ended, and clients would retry forever.
        """
        if self.watchdog.poll() is not None:
            reason, output = _last_words(self.watchdog)
            lost = f"the embedded broker at {self.bootstrap_servers} {reason}, and its topics are lost"
            raise EmbeddedBrokerError("broker_ended", f"{lost}: start again{output}", self.bootstrap_servers)


@contextmanager
def embedded_broker(ready_timeout_s: float = 10.0) -> Iterator[EmbeddedBroker]:
    """Run a broker on a free port of the loopback interface, with its topics in memory.

    This blocks for some 30 ms, until the broker answers Kafka requests. Ctrl-C in the terminal does not reach
    the broker, because it has its own session. After kill -9 of this process it ends at once.

    Raises:
        EmbeddedBrokerError: it does not run on this platform, the extra `demo` is not installed, or it ended
            or did not answer within `ready_timeout_s`.
    """
    binary = str(broker_binary())
    # leaving this block closes the pipe that the watchdog reads, and waits for it
    with subprocess.Popen(  # noqa: S603 - this interpreter and our own file
        [sys.executable, "-I", "-S", str(_WATCHDOG), binary, str(ready_timeout_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as watchdog:
        first_line = _pipe(watchdog).readline()
        if not first_line.startswith(_READY):
            reason, output = _last_words(watchdog, first_line)
            message = f"the embedded broker {reason}; if it never starts on this machine, {INSTEAD}{output}"
            raise EmbeddedBrokerError("broker_not_started", message, binary)
        yield EmbeddedBroker(first_line.removeprefix(_READY).rstrip(), watchdog)


def _last_words(watchdog: subprocess.Popen[str], already_read: str = "") -> tuple[str, str]:
    """Return the watchdog's reason for its end, and the broker's last output after a line feed."""
    reason, _, output = (already_read + _pipe(watchdog).read()).partition("\n")
    return reason or "was killed", f"\n{output.rstrip()}" if output.strip() else ""


def _pipe(watchdog: subprocess.Popen[str]) -> IO[str]:
    assert watchdog.stdout is not None
    return watchdog.stdout
