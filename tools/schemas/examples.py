"""Examples of outputs: real answers to the example events, under the example policies.

Only facts that no event has are set here: a secret, a version, offsets and durations. The example policies
name estimators, so the answers do not depend on the exact counters.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from apportion.core.bounds import Bounds
from apportion.core.compose import compose
from apportion.core.engine import Engine
from apportion.core.errors import EventError
from apportion.core.event_time import event_time_us
from apportion.core.events import ContextRequest, Event, session_key
from apportion.core.fingerprints import Secrets
from apportion.core.policies.catalogue import Catalogue
from apportion.core.publish import publish
from apportion.core.results import ContextDeadLetter, Phase, Run, Source
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy, SessionLimits
from apportion.core.text.tokens import ESTIMATORS
from apportion.core.wire.codec import decode
from apportion.core.wire.dead_letter import dead_letter
from apportion.core.wire.record import Record

_ENGINE = Engine(
    version="0.3.0",
    counters={counter.name: counter for counter in ESTIMATORS},
    secrets=Secrets(default=b"known to everyone: these are examples"),
)
_TOPIC, _PARTITION, _FIRST_OFFSET = "context-requests", 2, 1_041
_PHASES = (Phase("prepare", 212), Phase("choose", 486), Phase("record", 131))


def answers(folder: Path) -> Iterator[tuple[str, msgspec.Struct]]:
    """Yield the answers to the example events of a folder, by file name.

    The events form one log in the order of their times, with real sessions, pools and retries. The dead
    letters of refused events follow.
    """
    catalogue = Catalogue(_policy(file) for file in sorted(folder.glob("context-policy/*.json")))
    sessions: dict[str, Session] = {}
    for offset, (name, event) in enumerate(_log(folder), _FIRST_OFFSET):
        key = session_key(event.tenant, event.session_id)
        session = sessions.get(key, EMPTY)
        if not isinstance(event, ContextRequest):
            sessions[key] = publish(event, session, _ENGINE, SessionLimits().idle_timeout_s)
            continue
        outcome = compose(event, session, _resolved(catalogue, event), _ENGINE)
        sessions[key] = outcome.session
        source = Source(topic=_TOPIC, partition=_PARTITION, offset=offset)
        run = Run(source=source, worker="apportion-0", phases=_PHASES, cache_hit=outcome.cache_hit)
        yield f"context-composed/{name}", outcome.composed
        yield f"context-decision/{name}", replace(outcome.decision, run=run)
    yield "context-dead-letter/missing-field.json", _refused(_without_lane(folder), catalogue)
    yield "context-dead-letter/empty-value.json", _refused(_record(None, None), catalogue)


def _log(folder: Path) -> list[tuple[str, Event]]:
    files = (
        file for name in ("artifact", "retraction", "request") for file in folder.glob(f"context-{name}/*")
    )
    named = [(file.name, decode(file.read_bytes(), Bounds())) for file in files]
    return sorted(named, key=lambda each: (_time(each[1]), each[0]))


def _time(event: Event) -> datetime:
    return event.requested_at if isinstance(event, ContextRequest) else event.published_at


def _policy(file: Path) -> Policy:
    raw = json.loads(file.read_bytes())
    del raw["type"]
    return parse_policy(raw)


def _resolved(catalogue: Catalogue, request: ContextRequest) -> Policy:
    return catalogue.resolve(request.policy or "", event_time_us(request.requested_at))


def _without_lane(folder: Path) -> Record:
    event = json.loads((folder / "context-request" / "lanes-disabled.json").read_bytes())
    del event["candidates"][0]["lane"]
    return _record(session_key(event["tenant"], event["session_id"]), event)


def _record(key: str | None, event: object) -> Record:
    return Record(
        topic=_TOPIC,
        partition=_PARTITION,
        offset=_FIRST_OFFSET - 1,
        timestamp_ms=1_772_442_900_000,
        key=None if key is None else key.encode(),
        value=None if event is None else json.dumps(event, separators=(",", ":")).encode(),
        headers=() if key is None else (("content-type", b"application/json"),),
    )


def _refused(record: Record, catalogue: Catalogue) -> ContextDeadLetter:
    try:
        request = decode(record.value, Bounds())
        if isinstance(request, ContextRequest):
            compose(request, EMPTY, _resolved(catalogue, request), _ENGINE)
    except EventError as error:
        return dead_letter(record, error, _ENGINE.version)
    raise ValueError("the example of a refused event is not refused any more")
