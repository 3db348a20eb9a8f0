"""The embedded broker as a context manager. Only the watchdog signals the broker and touches its files."""

import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

_INSTEAD = "`docker compose up` starts Apache Kafka instead"
_PACKAGE = "noida_db"
_PROGRAM = "noida-db"
_MACOS_MACHINES = ("arm64", "x86_64")
_GLIBC_MIN = {"x86_64": (2, 34), "aarch64": (2, 39)}
"""The symbol versions that the programs need. Their wheels are tagged manylinux_2_17, so pip also installs
them on older systems, where they cannot start."""
_SUPPORTED = "Linux (glibc: 2.34 or later on x86_64, 2.39 on aarch64) and macOS (arm64, x86_64)"
_WATCHDOG = Path(__file__).with_name("watchdog.py")
_READY = "ready "


class EmbeddedBrokerError(Exception):
    """There is no embedded broker; `place` is the platform, package, program or address concerned."""

    def __init__(self, code: str, message: str, place: str) -> None:
        super().__init__(message)
        self.code = code
        self.place = place


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
        """Raise EmbeddedBrokerError if the broker has ended, because clients would retry forever."""
        if self.watchdog.poll() is not None:
            reason, output = _last_words(self.watchdog)
            lost = f"the embedded broker at {self.bootstrap_servers} {reason}, and its topics are lost"
            raise EmbeddedBrokerError("broker_ended", f"{lost}: start again{output}", self.bootstrap_servers)


@contextmanager
def embedded_broker(ready_timeout_s: float = 10.0) -> Iterator[EmbeddedBroker]:
    """Run a broker on a free port of the loopback interface, with its topics in memory.

    This blocks for some 30 ms, until the broker answers Kafka requests. Ctrl-C in the terminal does not reach
    it, because it has its own session. After kill -9 of this process it ends at once.

    Raises:
        EmbeddedBrokerError: there is no program for it, or it ended or was silent for `ready_timeout_s`.
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
            message = f"the embedded broker {reason}; if it never starts on this machine, {_INSTEAD}{output}"
            raise EmbeddedBrokerError("broker_not_started", message, binary)
        yield EmbeddedBroker(first_line.removeprefix(_READY).rstrip(), watchdog)


def broker_binary() -> Path:
    """Return the path of the broker's program, without running it; raise EmbeddedBrokerError."""
    _require_supported_platform()
    package = find_spec(_PACKAGE)
    if package is None or package.origin is None:
        missing = f"the embedded broker ({_PROGRAM}) is not installed: run `pip install 'apportion[demo]'`"
        raise EmbeddedBrokerError("broker_not_installed", f"{missing}; {_INSTEAD}", _PROGRAM)
    return Path(package.origin).with_name(_PROGRAM)


def _require_supported_platform() -> None:
    system, machine = platform.system(), platform.machine()
    if system == "Darwin" and machine in _MACOS_MACHINES:
        return
    libc, version = platform.libc_ver()
    if system == "Linux" and libc == "glibc" and machine in _GLIBC_MIN:
        major, minor = version.split(".")[:2]
        if (int(major), int(minor)) >= _GLIBC_MIN[machine]:
            return
    described = " ".join(filter(None, (system, machine, libc, version)))
    where = f"the embedded broker does not run on {described}, only on {_SUPPORTED}"
    raise EmbeddedBrokerError("broker_not_supported", f"{where}; {_INSTEAD}", described)


def _last_words(watchdog: subprocess.Popen[str], already_read: str = "") -> tuple[str, str]:
    """Return the watchdog's reason for its end, and the broker's last output after a line feed."""
    reason, _, output = (already_read + _pipe(watchdog).read()).partition("\n")
    return reason or "was killed", f"\n{output.rstrip()}" if output.strip() else ""


def _pipe(watchdog: subprocess.Popen[str]) -> IO[str]:
    assert watchdog.stdout is not None
    return watchdog.stdout
