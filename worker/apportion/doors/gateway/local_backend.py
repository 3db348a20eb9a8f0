"""The backend without Kafka: an engine in this process, with all sessions in memory."""

import os
from contextlib import suppress
from typing import BinaryIO

from msgspec import UNSET, json

from apportion.core.detail import in_detail
from apportion.core.lru import Bounded
from apportion.core.wire.codec import encode
from apportion.doors.gateway.backend import (
    AnswerGoneError,
    GatewayAnswer,
    NotRecordedError,
    SubmittedEvent,
)
from apportion.engine.assembly import create_catalogue, create_engine
from apportion.engine.offline.lines import write_line
from apportion.engine.offline.sessions import Sessions
from apportion.settings import Settings

_ANSWERS_MAX = 256
"""Number of answers that a repeated request can still get."""


class LocalBackend:
    """An engine with its sessions, which writes accepted events and decisions for `apportion verify`."""

    def __init__(self, settings: Settings, events: BinaryIO | None, decisions: BinaryIO | None) -> None:
        """Load the policies and their counters; write to the files that are given.

        Raises:
            PolicyError, SettingsError: policies or secrets are invalid.
        """
        engine, catalogue = create_engine(settings), create_catalogue(settings)
        engine.load_counters(catalogue)
        self._sessions = Sessions(engine, catalogue, settings.default_policy)
        self._detail = settings.decision_detail
        self._events, self._decisions = events, decisions
        self._answers: Bounded[str, tuple[bytes, bytes]] = Bounded(_ANSWERS_MAX)

    async def compose(self, request: SubmittedEvent, *, with_decision: bool) -> GatewayAnswer:
        """Return the answer to a request, as `Backend` says."""
        session, outcome = self._sessions.answer(request.event)
        assert outcome is not None, "a request has an answer"
        composed, decision = outcome.composed, encode(in_detail(outcome.decision, self._detail))
        self._record(request.value, decision)
        self._sessions.keep(request.event, session)
        first = composed.duplicate_of
        if first is UNSET:
            self._answers.put(composed.decision_id, (encode(composed), decision))
        answer = self._answers.get(composed.decision_id if first is UNSET else first)
        if answer is None:
            raise AnswerGoneError
        return GatewayAnswer(answer[0], answer[1] if with_decision else b"", first is not UNSET)

    async def publish(self, event: SubmittedEvent) -> None:
        """Take an artifact or a retraction, as `Backend` says."""
        session, _ = self._sessions.answer(event.event)
        self._record(event.value)
        self._sessions.keep(event.event, session)

    async def why_not_ready(self) -> tuple[str, ...]:
        """Return no reason: the engine is always ready."""
        return ()

    def _record(self, event: bytes, decision: bytes = b"") -> None:
        """Write both lines. If one cannot be written, cut the files back and raise NotRecordedError."""
        given = ((self._events, json.format(event, indent=-1)), (self._decisions, decision))
        lines = [(file.fileno(), line) for file, line in given if file is not None and line]
        sizes = [os.fstat(number).st_size for number, _ in lines]
        try:
            for number, line in lines:
                write_line(number, line)
        except OSError:
            for (number, _), size in zip(lines, sizes, strict=True):
                with suppress(OSError):  # a pipe or a device keeps what it has
                    os.ftruncate(number, size)
                    os.lseek(number, size, os.SEEK_SET)
            raise NotRecordedError from None
