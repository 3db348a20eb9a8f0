"""The processes of one peer: their start, observation, pause and end, and their CPU time."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_END_S = 4.0
_LOOK_S = 0.01
_LOG_CHARACTERS = 200


class EndedError(Exception):
    """A process has ended unexpectedly."""


class Workers:
    """Processes of one command, each with its number as an argument; their logs go into one file."""

    def __init__(self, command: Sequence[str], count: int, log: Path) -> None:
        self._command, self._count, self._log = command, count, log
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder = TemporaryDirectory(ignore_cleanup_errors=True)  # for their files

    def __enter__(self) -> Self:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            for place in range(self._count):
                told = {
                    "PLACE": str(place),
                    "SAMPLES": str(self._samples(place)),
                    "COUNT": str(self._count),
                    "TMPDIR": self._folder.name,
                    "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={self._folder.name}",
                }
                self._processes.append(
                    subprocess.Popen(self._command, env=os.environ | told, stdout=log, stderr=log)  # noqa: S603 - our own
                )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        deadline_s = time.monotonic() + _END_S
        for process in self._processes:
            try:
                process.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.cleanup()

    def check(self) -> None:
        """Pass if all of them are running.

        Raises:
            EndedError: one is not; with the end of its log.
        """
        for process in self._processes:
            if process.poll() is not None:
                said = self._log.read_text(encoding="utf-8", errors="replace").strip()[-_LOG_CHARACTERS:]
                raise EndedError(f"ended with {process.returncode}: {' '.join(said.split())}")

    def hold(self) -> None:
        """Stop them where they are."""
        for process in self._processes:
            process.send_signal(signal.SIGSTOP)

    def release(self) -> None:
        """Let them go on."""
        for process in self._processes:
            process.send_signal(signal.SIGCONT)

    def samples(self) -> tuple[int, int]:
        """Return how often `benchmarks.shell.sampled`, which they run, found them composing, and looked."""
        counted = looks = 0
        for place, process in enumerate(self._processes):
            file = self._samples(place)
            known = _lines(file)
            process.send_signal(signal.SIGUSR1)
            deadline_s = time.monotonic() + _END_S
            while len(lines := _lines(file)) == len(known):
                assert time.monotonic() < deadline_s, "it tells what it is at"
                time.sleep(_LOOK_S)
            found, looked = lines[-1].split()
            counted, looks = counted + int(found), looks + int(looked)
        return counted, looks

    def _samples(self, place: int) -> Path:
        return Path(self._folder.name) / f"samples-{place}.txt"

    def cpu_s(self) -> float:
        """Return the processor's time of all of them, with all their threads, in user and system."""
        return sum(_cpu_s(process.pid) for process in self._processes)


def _lines(file: Path) -> list[str]:
    """Return the lines that are whole."""
    return file.read_text(encoding="ascii").split("\n")[:-1] if file.exists() else []


def _cpu_s(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
