"""Kill -9 a sink at random moments, then see whether its tables equal its lines: `sink_kills.py 200`.

Needs `worker` and `tests` on PYTHONPATH. The sink is a fork of this process, so that a moment is a moment of
its work and not of its start. The tests do it a few times.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from support.sinking import RECORDED, assert_holds

from apportion.decisions.analytics.files import sink_lines
from apportion.decisions.analytics.store import Store

LIFE_MAX_S = 1.5
CHUNK = 3


def kill_often(place: str, lines: Sequence[bytes], kills: int, seed: int) -> int:
    """Kill sinks of these lines so often, or until they are written; return how often one was killed."""
    drawn = random.Random(seed)  # noqa: S311 - a moment, no secret
    killed = 0
    while killed < kills:
        child = os.fork()
        if not child:
            _sink(place, lines)
        time.sleep(drawn.uniform(0, LIFE_MAX_S))  # only the moment is random
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            break
        killed += 1
    return killed


def _sink(place: str, lines: Sequence[bytes]) -> None:
    """Write the lines in small batches, and exit without the cleanup of the forked parent."""
    code = 1
    try:
        with patch("apportion.decisions.analytics.partition.CHUNK_LINES", CHUNK):
            sink_lines(Store(place), "t", lines, 1, lambda _: None)
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    wanted = int(sys.argv[1])
    many = RECORDED * (1 + wanted // 4)
    with TemporaryDirectory() as folder:
        done = kill_often(folder, many, wanted, seed=9)
        batches = len(list(Path(folder).glob("_batches/*/*/*")))
        sink_lines(Store(folder), "t", many, 64 << 20, lambda _: None)
        assert_holds(Store(folder), {("t", 0): many})
    print(f"{done} kills, {batches} batches; {len(many)} lines stand once")  # noqa: T201 - a command
