"""Verifier of a share of decisions: composes them again in the background and compares the bytes.

Decisions are chosen by their ids, so each worker chooses the same ones. A separate process of lower priority
composes each from the record's bytes, the session and the policy, without caches. The stream never waits. If
the queue is full or the process has ended, decisions are dropped and counted.
"""

import os
import signal
import threading
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from multiprocessing import get_context, parent_process

import msgspec
from msgspec import Struct

from apportion.core.comparison import compare
from apportion.core.compose import compose
from apportion.core.detail import in_detail
from apportion.core.engine import Engine
from apportion.core.events import ContextRequest
from apportion.core.results import ContextDecision
from apportion.core.session.row import Session
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire import codec
from apportion.core.wire.record import Record
from apportion.engine.assembly import create_engine
from apportion.settings import Settings
from apportion.shell.operations.log import log_fact

_WAITING_MAX = 64
_CHOSEN_BITS = 32
_NICENESS = 10
_POLICIES_MAX = 64

_encode_session = msgspec.json.Encoder().encode
_decode_session = msgspec.json.Decoder(Session).decode
_engine: Engine
_settings: Settings


class VerifierCounts(Struct):
    """Counts of the chosen decisions; `failed`: composing again failed, `dropped`: it was not tried."""

    verified: int = 0
    differences: int = 0
    dropped: int = 0
    failed: int = 0


class ShareVerifier:
    """Verifies the chosen decisions, and counts the results in `counts`."""

    def __init__(self, settings: Settings) -> None:
        self.counts = VerifierCounts()
        self._below = round(settings.verify_share * (1 << _CHOSEN_BITS))
        self._waiting = threading.BoundedSemaphore(_WAITING_MAX)
        self._process = ProcessPoolExecutor(1, get_context("spawn"), _begin, (settings,))
        self._is_broken = False

    def is_chosen(self, decision: ContextDecision) -> bool:
        """Return whether a decision belongs to the share."""
        return int(decision.decision_id[: _CHOSEN_BITS // 4], 16) < self._below

    def offer(self, record: Record, before: Session, policy: Policy, decision: bytes, identity: str) -> None:
        """Queue a decision, or drop it if the queue is full; `before` is the session before its request."""
        if self._is_broken or not self._waiting.acquire(blocking=False):
            self.counts.dropped += 1
            return
        raw = msgspec.json.encode(policy.model_dump(mode="json", exclude_unset=True))
        try:
            future = self._process.submit(_different_at, record, _encode_session(before), raw, decision)
            future.add_done_callback(partial(self._ended, str(record), identity))
        except BrokenExecutor:
            self._waiting.release()
            self.counts.dropped += 1
            self._break()

    def stop(self) -> None:
        """Stop the process and drop its queue, without waiting."""
        self._is_broken = True
        self._process.shutdown(wait=False, cancel_futures=True)

    def _ended(self, where: str, identity: str, future: "Future[str | None]") -> None:
        """Count a result; called in a thread of the pool."""
        self._waiting.release()
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, BrokenExecutor):
            self._break()
        elif error is not None:
            self.counts.failed += 1
            log_fact("decision not verified", place=where, decision=identity, error=type(error).__name__)
        elif (different := future.result()) is None:
            self.counts.verified += 1
        else:
            self.counts.differences += 1
            log_fact("decision differs", place=where, decision=identity, at=different)

    def _break(self) -> None:
        if not self._is_broken:
            self._is_broken = True
            log_fact("decisions are verified no more", reason="its process ended")


def _begin(settings: Settings) -> None:
    """Prepare the process, and end it with its parent."""
    global _engine, _settings
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal signals the whole group; the worker decides
    with suppress(OSError):
        os.nice(_NICENESS)
    _settings, _engine = settings, create_engine(settings)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None, "a pool began it"
    parent.join()
    os._exit(0)


def _different_at(record: Record, session: bytes, policy: bytes, decision: bytes) -> str | None:
    """Return the first field in which a decision differs from its repetition; None: they are equal."""
    event = codec.event_of(record, _settings.bounds)
    assert isinstance(event, ContextRequest), "only requests are answered"
    answered = compose(event, _decode_session(session), _policy(policy), _engine)
    different = compare(decision, codec.encode(in_detail(answered.decision, _settings.decision_detail)))
    return None if different is None else different.place


@lru_cache(_POLICIES_MAX)
def _policy(raw: bytes) -> Policy:
    return parse_policy(msgspec.json.decode(raw))
