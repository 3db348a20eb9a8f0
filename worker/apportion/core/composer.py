"""Composers, shared by worker and commands: event and row in, the session's next row and the answer out."""

from collections.abc import Callable

from msgspec import UNSET

from apportion.core.compose import Answered, compose, no_phase
from apportion.core.engine import Engine
from apportion.core.errors import EventError
from apportion.core.event_time import event_time_us
from apportion.core.events import ContextRequest, ContextRetraction, Event
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.policies.timeline import Timeline
from apportion.core.publish import publish
from apportion.core.session.row import Session, session_at
from apportion.core.strategy_api.policy import Policy


class Composer:
    """An engine with its policies and its caches."""

    def __init__(self, engine: Engine, catalogue: Catalogue, default_policy: str, memory: Memory) -> None:
        """`default_policy` applies to requests without a policy, and to sessions without a request."""
        self.engine = engine
        self.catalogue = catalogue
        self._default_policy = default_policy
        self._memory = memory

    def handle(
        self, event: Event, session: Session, phase: Callable[[str], None] = no_phase
    ) -> tuple[Session, Answered | None]:
        """Return the next row, and the answer, None for events that are no requests; raise EventError."""
        if isinstance(event, ContextRequest):
            policy = self._policy_of(event, session)
            outcome = compose(event, session, policy, self.engine, self._memory, phase)
            return outcome.session, outcome
        if isinstance(event, ContextRetraction):
            return publish(event, session, self.engine), None
        published_us = event_time_us(event.published_at)
        default = self.catalogue.resolve(self._default_policy, published_us, "$.published_at")
        return publish(event, session, self.engine, default.session.idle_timeout_s), None

    def _policy_of(self, request: ContextRequest, session: Session) -> Policy:
        """Return the policy of a request; the default policy if a repeated request's policy is gone."""
        event_us = event_time_us(request.requested_at)
        name = self._default_policy if request.policy is UNSET else request.policy
        try:
            return self.catalogue.resolve(name, event_us)
        except EventError:
            if session_at(session, event_us).seen(request.request_id) is None:
                raise
            return self.catalogue.resolve(self._default_policy, event_us)


class TimelineComposer:
    """The composers of events by their record times: each uses the policies that hold at that time."""

    def __init__(self, engine: Engine, timeline: Timeline, default_policy: str, memory: Memory) -> None:
        self._engine = engine
        self._timeline = timeline
        self._default_policy = default_policy
        self._memory = memory

    def at(self, recorded_ms: int) -> Composer:
        """Return the composer of an event of that record time, in milliseconds since 1970 (-1: not known)."""
        catalogue = self._timeline.catalogue_at(recorded_ms)
        return Composer(self._engine, catalogue, self._default_policy, self._memory)
