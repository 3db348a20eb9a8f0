"""Cost of one request, from its bytes to the bytes of its answer, in a process that may be killed.

A request is tried unchanged, or under a total that is derived from its full size: a total that is just too
small is often more expensive. Time is CPU time, so that other processes count less.
"""

import multiprocessing
import signal
from enum import StrEnum
from multiprocessing.connection import Connection
from time import process_time
from typing import Any, Self

import msgspec
from msgspec import Struct

from apportion.core.bounds import Bounds
from apportion.core.composer import Composer
from apportion.core.errors import EventError
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.session.row import EMPTY
from apportion.core.strategies import parse_policy
from apportion.core.wire import codec
from apportion.shell.operations.gc_tuning import collect_seldom
from benchmarks.corpus import ENGINE

BOUNDS = Bounds()
EVENT_BYTES = BOUNDS.event_max_bytes - 64
"""Size of a case that leaves room for another total in its event."""
PLENTY_TOKENS = 2**40
_CLOSE = 2
"""A cost of up to so many times the goal is measured again before it counts as over."""
_encode = msgspec.json.Encoder().encode


class Total(StrEnum):
    """The total of a request: its own, or derived from its full size."""

    OWN = "own"
    ONE_LESS = "whole - 1"
    HALF = "half"
    TENTH = "tenth"
    ONE = "one"

    def of(self, whole_tokens: int) -> int:
        """Return the total."""
        match self:
            case Total.ONE_LESS:
                return max(1, whole_tokens - 1)
            case Total.HALF:
                return whole_tokens // 2 or 1
            case Total.TENTH:
                return whole_tokens // 10 or 1
            case _:
                return 1


class Case(Struct, frozen=True):
    """A request: the policy as in its file, and the fields that not all requests have."""

    name: str
    policy: dict[str, Any]
    fields: dict[str, Any]
    total: Total = Total.OWN
    goal_s: float = 0.3


class Trial(Struct, frozen=True):
    """The result of a case. `ended` is the answer's status, the error's code, or the reason for neither."""

    seconds: float
    ended: str
    event_bytes: int = 0


def event(fields: dict[str, Any]) -> bytes:
    """Return a request's bytes."""
    common = {"request_id": "r", "session_id": "s", "requested_at": "2026-03-01T12:00:00Z"}
    return _encode({"type": "context-request"} | common | fields)


class Bench:
    """A process that tries cases one by one. A case that takes too long ends it."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def tried(self, case: Case, timeout_s: float) -> Trial:
        """Return the cost of a case, or that it takes longer than the timeout."""
        self._connection.send((case, timeout_s))
        try:
            trial: Trial = self._connection.recv()
        except EOFError:
            self._end()
            late = self._process.exitcode == -signal.SIGPROF
            self._start()
            return Trial(float("inf"), f"> {timeout_s:g} s" if late else "crashed")
        return trial

    def _start(self) -> None:
        self._connection, child = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(child,), daemon=True)
        self._process.start()
        child.close()
        self._connection.recv()  # it is ready: importing is no part of a case

    def _end(self) -> None:
        self._connection.close()
        self._process.join()


def _serve(connection: Connection) -> None:
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    collect_seldom()  # as worker and command do
    for name in ENGINE.counters:
        ENGINE.counters[name].count("loads its vocabulary")
    connection.send(None)
    while True:
        try:
            case, timeout_s = connection.recv()
        except EOFError:
            return
        connection.send(_trial(case, timeout_s))


def _trial(case: Case, timeout_s: float) -> Trial:
    policy, fields = case.policy, dict(case.fields)
    dearest = Trial(0.0, "")
    if case.total is not Total.OWN:
        dearest, whole_tokens = _answered(policy, event(fields | {"budget_tokens": PLENTY_TOKENS}), timeout_s)
        fields["budget_tokens"] = case.total.of(whole_tokens)
    trial, _ = _answered(policy, event(fields), timeout_s)
    if case.goal_s < trial.seconds < _CLOSE * case.goal_s:
        trial = min(trial, _answered(policy, event(fields), timeout_s)[0], key=lambda one: one.seconds)
    return max(trial, dearest, key=lambda one: one.seconds)


def _answered(raw_policy: dict[str, Any], value: bytes, timeout_s: float) -> tuple[Trial, int]:
    """Return the cost of an event with empty caches, and the tokens of its answer.

    After the timeout, in CPU seconds, the kernel ends this process.
    """
    raw = {"name": "tried", "version": "1", **raw_policy}
    composer = Composer(ENGINE, Catalogue([parse_policy(raw)]), "tried", Memory())
    signal.setitimer(signal.ITIMER_PROF, timeout_s)
    begun_s = process_time()
    try:
        _, outcome = composer.handle(codec.decode(value, BOUNDS), EMPTY)
    except EventError as error:
        return Trial(process_time() - begun_s, error.code, len(value)), 0
    assert outcome is not None, "a request is answered"
    codec.encode(outcome.composed)
    codec.encode(outcome.decision)
    took_s = process_time() - begun_s
    return Trial(took_s, outcome.composed.status, len(value)), outcome.composed.tokens.used
