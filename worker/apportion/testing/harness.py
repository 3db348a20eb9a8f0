"""A harness that answers events as a worker does, and keeps the outputs.

It has the sessions and the decoding of `apportion compose`, so contexts have the worker's bytes. Decisions
lack the worker's `run`. Dead letters have the source of a file's line.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from apportion.core.bounds import Bounds
from apportion.core.compose import Answered
from apportion.core.errors import EventError
from apportion.core.events import Event
from apportion.core.fingerprints import Secrets
from apportion.core.policies.catalogue import Catalogue
from apportion.core.results import ContextComposed, ContextDeadLetter, ContextDecision
from apportion.core.session.row import Session
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.record import Record
from apportion.engine.offline.answers import event_of_line, refused
from apportion.engine.offline.lines import FILE_TOPIC, UNKNOWN_MS
from apportion.engine.offline.sessions import Sessions
from apportion.engine.policies import builtin_policies, load_policy
from apportion.library import ENGINE

GivenEvent: TypeAlias = Event | Mapping[str, Any] | bytes
"""An event as a test gives it: typed, as a mapping, or as the bytes of a record."""

_BUILTIN_DEFAULT = "lanes"
_REQUEST = "context-request"


class Harness:
    """Sessions in memory, and the outputs of all events that were given, in order.

    `now` is the event time of mappings that have none.
    """

    def __init__(
        self,
        policies: Iterable[Policy | Path] = (),
        *,
        now: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC),
        secret: bytes = b"apportion.testing",
        bounds: Bounds | None = None,
    ) -> None:
        """Start without sessions.

        Args:
            policies: policies, or files of policies, in addition to the built-in ones. The first is for
                requests that name no policy; without any, that is `lanes`.
            now: the first event time.
            secret: the secret that makes ids of paths.
            bounds: the bounds of events.

        Raises:
            PolicyError: a file is not a valid policy.
            OSError: a file cannot be read.
        """
        own = [load_policy(policy) if isinstance(policy, Path) else policy for policy in policies]
        default = own[0].name if own else _BUILTIN_DEFAULT
        engine = replace(ENGINE, secrets=Secrets(default=secret))
        self._sessions = Sessions(engine, Catalogue((*builtin_policies(), *own)), default)
        self._bounds = bounds or Bounds()
        self._given = 0
        self.now = now
        self.composed: list[ContextComposed] = []
        self.decisions: list[ContextDecision] = []
        self.dead_letters: list[ContextDeadLetter] = []

    def advance(self, step: timedelta) -> None:
        """Move the event time; a negative step makes the next event a late one."""
        self.now += step

    def send(self, *events: GivenEvent) -> None:
        """Give events, in order. A refused event becomes a dead letter, as in a worker.

        A mapping may leave out `type` (then it is a request), `session_id`, `request_id`, `source` and its
        time. Typed events and bytes are taken as they are.
        """
        for event in events:
            with suppress(EventError):
                self._handle(event)

    def compose(self, request: GivenEvent) -> Answered:
        """Give a request, as `send` does, and return its answer.

        Raises:
            EventError: the request is refused; its dead letter is in `dead_letters`.
            TypeError: the event is not a request.
        """
        answered = self._handle(request)
        if answered is None:
            raise TypeError("only requests are answered; use `send` for artifacts and retractions")
        return answered

    def session(self, session_id: str = "session", tenant: str = "default") -> Session:
        """Return the row of a session; an unknown session has the empty row."""
        return self._sessions.session(tenant, session_id)

    def _handle(self, event: GivenEvent) -> Answered | None:
        record = Record(FILE_TOPIC, 0, self._given, UNKNOWN_MS, None, self._value(event))
        self._given += 1
        try:
            answered = self._sessions.handle(event_of_line(record, self._bounds))
        except EventError as error:
            self.dead_letters.append(refused(record, error, self._sessions.engine.version))
            raise
        if answered is not None:
            self.composed.append(answered.composed)
            self.decisions.append(answered.decision)
        return answered

    def _value(self, event: GivenEvent) -> bytes:
        if isinstance(event, bytes):
            return event
        return msgspec.json.encode(self._completed(event) if isinstance(event, Mapping) else event)

    def _completed(self, event: Mapping[str, Any]) -> dict[str, Any]:
        fields = {"type": _REQUEST, "session_id": "session", **event}
        if fields["type"] == _REQUEST:
            return {"request_id": f"request-{self._given + 1}", "requested_at": self.now} | fields
        return {"source": "test", "published_at": self.now} | fields
