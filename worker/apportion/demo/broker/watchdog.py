"""The broker's watchdog: a process that starts the broker, and ends it when the parent process has ended.

Standard input is a pipe from the parent. When the parent dies, even by kill -9, the kernel closes the pipe,
on Linux and macOS. The watchdog then ends the broker. It prints one line for the parent, `ready HOST:PORT`.
If the broker fails, it prints the reason, and then the broker's last output. It runs by its path and without
site-packages, and imports only the standard library, so it starts in 20 ms.
"""

import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_PREFIX = "apportion-broker-"
_ARGUMENTS = ("--host", "127.0.0.1", "--only", "kafka", "--kafka-port", "0")
"""With port 0, the system chooses a free port, which the broker prints."""
_LISTENING = re.compile(rb"^ +kafka +(127\.0\.0\.1):(\d+)\n", re.MULTILINE)
_API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""The smallest request of Kafka: size, API key, version, correlation id, no client id."""
_API_VERSIONS_RESPONSE = struct.Struct(">iih")
"""The beginning of the response: size, correlation id, error code."""
_END_TIMEOUT_S = 1
"""Time between the end of the broker's output and the end of its process."""
_OUTPUT_BYTES = 4096
"""Size of the broker's last output that an error repeats."""


def main(binary: str, ready_timeout_s: float) -> None:
    """Run a broker until the parent or the broker ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # an exception, so that open contexts are closed
    try:
        with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder, _start(binary, folder) as broker:
            try:
                last_words = _keep(broker, ready_timeout_s)
            finally:
                broker.kill()  # there is nothing to save
    except OSError as error:
        last_words = f"cannot be run: {error}\n".encode()
    sys.stdout.buffer.write(last_words)


def _start(binary: str, folder: str) -> subprocess.Popen[bytes]:
    # The broker would save all topics once a second, as JSON, first to a file of this name. A folder of that
    # name prevents it.
    Path(folder, "kafka.tmp").mkdir()
    return subprocess.Popen(  # noqa: S603 - the program that the parent found
        [binary, "start", "--data-dir", folder, *_ARGUMENTS],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
    )


def _keep(broker: subprocess.Popen[bytes], ready_timeout_s: float) -> bytes:
    """Return the reason and the last output once the broker has ended or was not ready in time."""
    deadline = time.monotonic() + ready_timeout_s
    output = b""
    try:
        while not (listening := _LISTENING.search(output)):
            output = (output + _read(broker, deadline - time.monotonic()))[-_OUTPUT_BYTES:]
        host, port = listening[1].decode(), int(listening[2])
        _require_kafka(host, port, deadline - time.monotonic())
        print(f"ready {host}:{port}", flush=True)  # noqa: T201 - the parent reads it
        while True:
            output = (output + _read(broker, None))[-_OUTPUT_BYTES:]
    except EOFError:
        reason = f"ended with exit code {broker.wait(_END_TIMEOUT_S)}"
    except TimeoutError:
        reason = f"did not answer within {ready_timeout_s:g} s"
    return f"{reason}\n".encode() + output


def _read(broker: subprocess.Popen[bytes], timeout_s: float | None) -> bytes:
    """Wait for output of the broker; raise EOFError at its end, TimeoutError without output in time.

    Exits if the parent has ended.
    """
    pipe = broker.stdout
    assert pipe is not None
    wait_s = None if timeout_s is None else max(timeout_s, 0)
    readable, _, _ = select.select([sys.stdin, pipe], [], [], wait_s)
    if sys.stdin in readable:  # nothing is ever written to the pipe, so this is its end
        sys.exit()
    if not readable:
        raise TimeoutError
    chunk = os.read(pipe.fileno(), _OUTPUT_BYTES)
    if not chunk:
        raise EOFError
    return chunk


def _require_kafka(host: str, port: int, timeout_s: float) -> None:
    try:
        with socket.create_connection((host, port), max(timeout_s, 0.001)) as connection:
            connection.sendall(_API_VERSIONS_REQUEST)
            answer = connection.makefile("rb").read(_API_VERSIONS_RESPONSE.size)
        _, correlation_id, error_code = _API_VERSIONS_RESPONSE.unpack(answer)
    except (OSError, struct.error) as error:
        raise TimeoutError from error
    if (correlation_id, error_code) != (1, 0):
        raise TimeoutError


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
