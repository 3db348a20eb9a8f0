"""The rules of composing, one file each, in JSON that any implementation can read; see README.md."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from expectations import assert_holds, shown

from worker.core.bounds import Bounds
from worker.core.compose import compose
from worker.core.engine import Engine
from worker.core.errors import EventError
from worker.core.events import ContextRequest, session_key
from worker.core.identity import Secrets
from worker.core.policy import Policy
from worker.core.publish import publish
from worker.core.session import EMPTY, Session
from worker.core.strategies import STRATEGIES, parse_policy
from worker.core.wire import decode
from worker.counters import COUNTERS
from worker.policies import builtin_policies

FOLDERS = (*STRATEGIES, "session")
FILES = sorted(file for name in FOLDERS for file in Path(__file__).parent.glob(f"{name}/*.json"))
AT = "2026-01-01T00:00:00Z"
DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "context-request": {"session_id": "s", "requested_at": AT},
    "context-artifact": {"session_id": "s", "published_at": AT, "source": "source"},
    "context-retraction": {"session_id": "s", "published_at": AT, "source": "source"},
}


def policy_of(given: str | Mapping[str, Any]) -> Policy:
    if isinstance(given, str):
        return next(policy for policy in builtin_policies() if policy.name == given)
    return parse_policy({"name": "conformance", "version": "1", **given})


def event_bytes(given: Mapping[str, Any], number: int) -> bytes:
    kind = given.get("type", "context-request")
    named = {"request_id": f"r{number}"} if kind == "context-request" else {}
    return json.dumps({"type": kind, **named, **DEFAULTS[kind], **given}).encode()


def step(value: bytes, rows: dict[str, Session], policy: Policy, engine: Engine) -> dict[str, Any]:
    """Take one event; return what it is answered with, or why it is refused."""
    try:
        event = decode(value, Bounds())
        key = session_key(event.tenant, event.session_id)
        row = rows.get(key, EMPTY)
        if not isinstance(event, ContextRequest):
            rows[key] = publish(event, row, engine, policy.session.idle_timeout_s)
            return {}
        outcome = compose(event, row, policy, engine)
    except EventError as error:
        return {"error": {"code": str(error.code), "pointer": error.pointer}}
    rows[key] = outcome.session
    return shown(outcome)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_the_rule_holds(file: Path) -> None:
    case = json.loads(file.read_text(encoding="utf-8"))
    assert set(case) <= {"rule", "reckoning", "policy", "secret", "requests", "expect"}
    assert len(case["requests"]) == len(case["expect"])
    secret = case["secret"].encode() if "secret" in case else None
    engine = Engine("conformance", COUNTERS, Secrets(default=secret))
    policy, rows = policy_of(case["policy"]), dict[str, Session]()
    for number, (given, expected) in enumerate(zip(case["requests"], case["expect"], strict=True), 1):
        answered = step(event_bytes(given, number), rows, policy, engine)
        assert ("error" in answered) == ("error" in expected), f"{case['rule']} [{number}]: {answered}"
        assert_holds(expected, answered, f"{number}")


def test_the_rules_are_found() -> None:
    found = {file.parent.name for file in FILES}
    assert found >= {"lanes", "categories", "tiers", "layers", "conversation", "session"}
