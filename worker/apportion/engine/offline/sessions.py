"""Sessions of one run: their rows, and the handling of events with small caches."""

from apportion.core.compose import Answered
from apportion.core.composer import Composer
from apportion.core.engine import Engine
from apportion.core.events import Event, session_key
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.session.row import Session
from apportion.engine.offline.rows import SessionRows

_COMPOSITIONS_MAX = 64
"""Number of cached compositions, some 16 MB if requests are large."""
_COUNTS_MAX = 1 << 14


class Sessions:
    """Sessions by key, with a composer for their events."""

    def __init__(self, engine: Engine, catalogue: Catalogue, default_policy: str) -> None:
        """Start without sessions; `default_policy` is for requests that name no policy."""
        self.engine = engine
        memory = Memory(_COMPOSITIONS_MAX, _COUNTS_MAX)
        self._composer = Composer(engine, catalogue, default_policy, memory)
        self._rows = SessionRows()

    def handle(self, event: Event) -> Answered | None:
        """Update an event's session, and return the answer; None without a request; raise EventError."""
        session, outcome = self.answer(event)
        self.keep(event, session)
        return outcome

    def answer(self, event: Event) -> tuple[Session, Answered | None]:
        """Return the next row of an event's session, for `keep`, and the answer; raises as `handle`."""
        return self._composer.handle(event, self.session(event.tenant, event.session_id))

    def keep(self, event: Event, session: Session) -> None:
        """Store the next row of an event's session."""
        self._rows.put(session_key(event.tenant, event.session_id), session)

    def session(self, tenant: str, session_id: str) -> Session:
        """Return the row of a session; an unknown session has the empty row."""
        return self._rows.get(session_key(tenant, session_id))
