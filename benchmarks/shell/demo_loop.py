"""The demo workload in a bare loop, in a process of its own, and what of the processor it takes.

    python -m benchmarks.shell.demo_loop EVENTS

Prints seconds. What a worker loads with its first requests, it has loaded before.
"""

import sys
from time import process_time

from pydantic import SecretStr

from apportion.assembly import create_engine, create_timeline
from apportion.core import wire
from apportion.core.composer import Composer
from apportion.core.memory import Memory
from apportion.core.session import EMPTY, Session
from apportion.settings import Settings
from benchmarks.shell.events import TIMESTAMP_MS, Workload, demo, small
from benchmarks.shell.rows import SECRET

WARM_REQUESTS = 20


def main(events: int) -> None:
    """Decode, compose and encode, as the command does, with the rows in a dictionary."""
    workload = demo(events)
    settings = Settings(default_policy=workload.policy, fingerprint_secret=SecretStr(SECRET))
    catalogue = create_timeline(settings).at(TIMESTAMP_MS)
    composer = Composer(create_engine(settings), catalogue, settings.default_policy, Memory())
    _answer(settings, composer, small(WARM_REQUESTS, 1))
    begun_s = process_time()
    _answer(settings, composer, workload)
    print(process_time() - begun_s)


def _answer(settings: Settings, composer: Composer, workload: Workload) -> None:
    sessions: dict[bytes, Session] = {}
    for key, value in workload.records:
        sessions[key], answered = composer.handle(
            wire.decode(value, settings.bounds), sessions.get(key, EMPTY)
        )
        assert answered is not None, "all of them are requests"
        wire.encode(answered.composed)
        wire.encode(answered.decision)


if __name__ == "__main__":
    main(int(sys.argv[1]))
