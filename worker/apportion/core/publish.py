"""Published and retracted artifacts: from an event and its session's row to the next row."""

from apportion.core.engine import Engine
from apportion.core.event_time import event_time_us
from apportion.core.events import ContextArtifact, ContextRetraction
from apportion.core.session.pool import published, retracted
from apportion.core.session.row import Session, after_artifact, after_retraction, session_at


def publish(
    event: ContextArtifact | ContextRetraction, session: Session, engine: Engine, idle_timeout_s: int = 0
) -> Session:
    """Return the session's next row. `idle_timeout_s` is the default policy's; a retraction needs none.

    An artifact at or after the session's expiry starts a fresh session. A retraction does not move time.
    Raises EventError for an artifact without id or too large, an empty retraction, or an invalid path.
    """
    if isinstance(event, ContextRetraction):
        return after_retraction(session, retracted(session.pool, event))
    event_us = event_time_us(event.published_at)
    current = session_at(session, event_us)
    pool, evicted = published(current.pool, event, engine.secrets.of(event.tenant, current.start_us or 0))
    return after_artifact(current, event_us, idle_timeout_s, pool, evicted)
