"""The sessions of one run: each one's row, and how an event moves it on.

Decides how much is remembered beside the rows: little, so a stream of any length takes no more memory than
its sessions do.
"""

from apportion.core.compose import Answered
from apportion.core.composer import Composer
from apportion.core.engine import Engine
from apportion.core.events import Event, session_key
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.offline.rows import SessionRows

_COMPOSITIONS_MAX = 64
"""Of large requests, some 16 MB; a worker keeps as many as its policies say."""
_COUNTS_MAX = 1 << 14


class Sessions:
    """Rows by session key."""

    def __init__(self, engine: Engine, catalogue: Catalogue, default_policy: str) -> None:
        """Start without any; `default_policy` is for requests that name none."""
        self.engine = engine
        memory = Memory(_COMPOSITIONS_MAX, _COUNTS_MAX)
        self._composer = Composer(engine, catalogue, default_policy, memory)
        self._rows = SessionRows()

    def handle(self, event: Event) -> Answered | None:
        """Return what answers an event, its session's row moved on; only requests are answered.

        Raises:
            EventError: the event is refused; nothing has happened.
        """
        key = session_key(event.tenant, event.session_id)
        session, outcome = self._composer.handle(event, self._rows.get(key))
        self._rows.put(key, session)
        return outcome
