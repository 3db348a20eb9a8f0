"""The rules of composing, one file each, in JSON that any implementation can read; see README.md."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from msgspec import UNSET
from support.expectations import assert_holds, shown
from tools.schemas import schemas

from apportion.core.bounds import Bounds
from apportion.core.composer import Composer
from apportion.core.engine import Engine
from apportion.core.errors import EventError
from apportion.core.events import session_key
from apportion.core.fingerprints import Secrets
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategies import STRATEGIES, meaning_of, parse_policy
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.codec import decode, encode
from apportion.engine.counters import COUNTERS
from apportion.engine.policies import builtin_policies

FOLDERS = (*STRATEGIES, "session")
FILES = sorted(file for name in FOLDERS for file in Path(__file__).parent.glob(f"{name}/*.json"))
AT = "2026-01-01T00:00:00Z"
DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "context-request": {"session_id": "s", "requested_at": AT},
    "context-artifact": {"session_id": "s", "published_at": AT, "source": "source"},
    "context-retraction": {"session_id": "s", "published_at": AT, "source": "source"},
}
VALIDATORS = {
    name: jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    for name, schema in schemas().items()
}


def policy_of(given: str | Mapping[str, Any], name: str = "conformance") -> Policy:
    if isinstance(given, str):
        return next(policy for policy in builtin_policies() if policy.name == given)
    return parse_policy({"name": name, "version": "1", **given})


def composer_of(case: Mapping[str, Any]) -> Composer:
    secret = case["secret"].encode() if "secret" in case else None
    engine = Engine("conformance", COUNTERS, Secrets(default=secret))
    default = policy_of(case["policy"])
    others = [policy_of(given, name) for name, given in case.get("policies", {}).items()]
    return Composer(engine, Catalogue([default, *others]), default.name, Memory())


def events_of(given: Mapping[str, Any], number: int) -> Iterator[bytes]:
    kind = given.get("type", "context-request")
    named = {"request_id": f"r{number}"} if kind == "context-request" else {}
    fields = {key: value for key, value in given.items() if key != "times"}
    event = json.dumps({"type": kind, **named, **DEFAULTS[kind], **fields})
    for n in range(1, given.get("times", 1) + 1):
        yield event.replace("{n}", str(n)).encode()


def step(value: bytes, rows: dict[str, Session], composer: Composer) -> dict[str, Any]:
    """Take one event; return its answer or its refusal."""
    try:
        event = decode(value, Bounds())
        key = session_key(event.tenant, event.session_id)
        rows[key], outcome = composer.handle(event, rows.get(key, EMPTY))
    except EventError as error:
        return {"error": {"code": str(error.code), "pointer": error.pointer}}
    if outcome is None:
        return {}
    strategy = outcome.decision.policy.strategy
    reasons = [entry.reason for entry in outcome.decision.candidates if entry.reason is not UNSET]
    assert all(meaning_of(strategy, reason) for reason in reasons)
    for answered in (outcome.composed, outcome.decision):
        told = json.loads(encode(answered))
        VALIDATORS[told["type"]].validate(told)
    return shown(outcome)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_the_rule_holds(file: Path) -> None:
    case = json.loads(file.read_text(encoding="utf-8"))
    assert set(case) <= {"rule", "reckoning", "policy", "policies", "secret", "requests", "expect"}
    assert len(case["requests"]) == len(case["expect"])
    composer, rows = composer_of(case), dict[str, Session]()
    for number, (given, expected) in enumerate(zip(case["requests"], case["expect"], strict=True), 1):
        for event in events_of(given, number):
            answered = step(event, rows, composer)
            assert ("error" in answered) == ("error" in expected), f"{case['rule']} [{number}]: {answered}"
            assert_holds(expected, answered, f"{number}")


def test_the_rules_are_found() -> None:
    found = {file.parent.name for file in FILES}
    assert found >= {"lanes", "categories", "tiers", "layers", "conversation", "session"}
