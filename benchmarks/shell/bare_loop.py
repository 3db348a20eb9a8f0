"""A bare loop that decodes, composes and encodes in its own process, and its CPU time.

    python -m benchmarks.shell.bare_loop demo|small EVENTS

It prints seconds. Code that a worker loads with its first requests is loaded before.
"""

import subprocess
import sys
from time import process_time

from pydantic import SecretStr

from apportion.core.composer import Composer
from apportion.core.memory import Memory
from apportion.core.session.row import EMPTY, Session
from apportion.core.wire import codec
from apportion.engine.assembly import create_engine, create_timeline
from apportion.settings import Settings
from benchmarks.shell.events import REQUESTS_A_SESSION, TIMESTAMP_MS, Workload, demo, small
from benchmarks.shell.rows import SECRET

WARM_REQUESTS = 20


def loop_s(workload: str, events: int) -> float:
    """Return the CPU seconds of the loop for a number of events of a workload."""
    command = (sys.executable, "-m", "benchmarks.shell.bare_loop", workload, str(events))
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603 - our own


def _main(name: str, events: int) -> None:
    workload = demo(events) if name == "demo" else small(events, max(1, events // REQUESTS_A_SESSION))
    settings = Settings(default_policy=workload.policy, fingerprint_secret=SecretStr(SECRET))
    catalogue = create_timeline(settings).catalogue_at(TIMESTAMP_MS)
    composer = Composer(create_engine(settings), catalogue, settings.default_policy, Memory())
    _answer(settings, composer, small(WARM_REQUESTS, 1))
    begun_s = process_time()
    _answer(settings, composer, workload)
    print(process_time() - begun_s)


def _answer(settings: Settings, composer: Composer, workload: Workload) -> None:
    """Do as the command does, with the rows in a dictionary."""
    sessions: dict[bytes, Session] = {}
    for key, value in workload.records:
        sessions[key], answered = composer.handle(
            codec.decode(value, settings.bounds), sessions.get(key, EMPTY)
        )
        assert answered is not None, "all of them are requests"
        codec.encode(answered.composed)
        codec.encode(answered.decision)


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
