"""Shared parts of tests of composing: short requests, engines, and one call of the composer."""

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from apportion import ENGINE_VERSION
from apportion.core.bounds import Bounds
from apportion.core.compose import Answered, compose
from apportion.core.engine import Engine
from apportion.core.events import ContextArtifact, ContextRequest, ContextRetraction
from apportion.core.fingerprints import Secrets
from apportion.core.memory import Memory
from apportion.core.results import Entry, ReasonCount
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.codec import decode
from apportion.engine.counters import COUNTERS

SECRET = b"a fixed secret for tests"
ENGINE = Engine(ENGINE_VERSION, COUNTERS, Secrets(default=SECRET))
NOW = "2026-03-01T12:00:00Z"

_numbers = itertools.count(1)


def lanes_policy(**changes: Any) -> Policy:
    """Return a policy of strategy lanes that counts four characters a token, with these keys changed."""
    raw = {"name": "test", "version": "1", "strategy": "lanes", "counter": "chars4", **changes}
    return parse_policy(raw)


def candidate(name: str, tokens: int = 10, **changes: Any) -> dict[str, Any]:
    """Return a candidate of that many chars4 tokens, in lane local unless said otherwise."""
    fields: dict[str, Any] = {
        "id": name,
        "content": (name + "." * 4 * tokens)[: 4 * tokens],
        "kind": "recent_edit",
        "lane": "local",
        "recency_bucket": 3,
        "relevance": 0.5,
        "specificity": 0.5,
        "risk_alignment": 0.5,
    } | changes
    return {key: value for key, value in fields.items() if value is not None}


def _bytes(raw: Mapping[str, Any]) -> bytes:
    given = {key: value for key, value in raw.items() if value is not None}
    return json.dumps(given, ensure_ascii=False).encode()


def request(candidates: Iterable[Mapping[str, Any]] = (), **changes: Any) -> ContextRequest:
    """Return a decoded request with an id of its own."""
    raw = {
        "type": "context-request",
        "request_id": f"r{next(_numbers)}",
        "session_id": "s",
        "requested_at": NOW,
        "candidates": list(candidates),
    } | changes
    event = decode(_bytes(raw), Bounds())
    assert isinstance(event, ContextRequest)
    return event


def artifact(one: Mapping[str, Any], at: str = NOW, **changes: Any) -> ContextArtifact:
    """Return a decoded publication of a candidate."""
    raw = {
        "type": "context-artifact",
        "session_id": "s",
        "source": "test",
        "published_at": at,
        "artifact": dict(one),
    } | changes
    event = decode(_bytes(raw), Bounds())
    assert isinstance(event, ContextArtifact)
    return event


def retraction(at: str = NOW, **fields: Any) -> ContextRetraction:
    """Return a decoded retraction."""
    raw = {"type": "context-retraction", "session_id": "s", "source": "test", "published_at": at} | fields
    event = decode(_bytes(raw), Bounds())
    assert isinstance(event, ContextRetraction)
    return event


def answer(
    asked: ContextRequest,
    policy: Policy,
    session: Session = EMPTY,
    engine: Engine = ENGINE,
    memory: Memory | None = None,
) -> Answered:
    """Compose once."""
    return compose(asked, session, policy, engine, memory)


def selected(outcome: Answered) -> list[str]:
    """Return the ids in the context, in their order."""
    return [item.id for item in outcome.composed.items]


def omitted(outcome: Answered) -> dict[str, str]:
    """Return the reason of every omitted candidate."""
    return {
        entry.id: str(entry.reason) for entry in outcome.decision.candidates if entry.outcome == "omitted"
    }


def counted(counts: Iterable[ReasonCount]) -> dict[str, int]:
    """Return counts by reason, in their order."""
    return {str(count.reason): count.count for count in counts}


def entry_of(outcome: Answered, name: str) -> Entry:
    """Return a candidate's entry."""
    return next(entry for entry in outcome.decision.candidates if entry.id == name)
