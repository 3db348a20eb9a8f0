"""`apportion`, and what it spends its processor's time on: decode, compose and encode, or anything else.

    SAMPLES=FILE python -m benchmarks.shell.sampled run …

Looks once in a millisecond of the process's time, all of its threads together, where its main thread is. At
SIGUSR1 it adds a line to the file: how many looks found it there, and how many there were, since its start. A
loop beside it would tell less: who has a processor's core for himself composes faster than who shares it with
a broker.
"""

import os
import signal
from pathlib import Path
from types import FrameType

from apportion.cli import main
from apportion.core.composer import Composer
from apportion.core.wire import codec

_EVERY_S = 0.001
_COUNTED = frozenset(function.__code__ for function in (codec.decode, codec.encode, Composer.handle))


class Looks:
    """How many there were, and how many of them found what is counted."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._counted = self._all = 0

    def look(self, _: int, frame: FrameType | None) -> None:
        """Count what the main thread is at."""
        self._all += 1
        while frame is not None:
            if frame.f_code in _COUNTED:
                self._counted += 1
                return
            frame = frame.f_back

    def tell(self, _: int, __: FrameType | None) -> None:
        """Add a line."""
        with self._file.open("a", encoding="ascii") as told:
            told.write(f"{self._counted} {self._all}\n")


if __name__ == "__main__":
    looks = Looks(Path(os.environ["SAMPLES"]))
    signal.signal(signal.SIGPROF, looks.look)
    signal.signal(signal.SIGUSR1, looks.tell)
    signal.setitimer(signal.ITIMER_PROF, _EVERY_S, _EVERY_S)
    main()
