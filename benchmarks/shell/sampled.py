"""`apportion` with a sampler of its CPU time: decode, compose and encode, or anything else.

    SAMPLES=FILE python -m benchmarks.shell.sampled run …

Once in a millisecond of the process's CPU time, of all threads together, it samples the position of the main
thread. At SIGUSR1 it adds a line to the file: the number of samples in composing, and of all samples, since
its start. A separate loop would be less exact, because a process that has a core alone composes faster than
one that shares it with a broker.
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
    """The number of samples, and how many of them were in composing."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._counted = self._all = 0

    def look(self, _: int, frame: FrameType | None) -> None:
        """Count a sample by the position of the main thread."""
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
