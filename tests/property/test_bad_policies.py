"""Arbitrary policy files: each is a policy that composes, or is refused with keys and reasons."""

import json
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from support.composing import answer
from support.mutations import Literal, mutated

import apportion.engine.policies
from apportion.core.bounds import Bounds
from apportion.core.errors import EventError
from apportion.core.events import ContextRequest
from apportion.core.strategy_api.policy import Policy, PolicyError
from apportion.core.wire.codec import decode
from apportion.engine.policies import load_policy

EXAMPLES = Path(__file__).parents[2] / "schemas" / "examples"
BUILT_IN = [
    file for file in resources.files(apportion.engine.policies).iterdir() if file.name.endswith(".toml")
]
POLICIES = [
    *(tomllib.loads(file.read_text()) for file in BUILT_IN),
    *(json.loads(file.read_bytes()) for file in sorted(EXAMPLES.glob("context-policy/*.json"))),
]
REQUESTS = {
    strategy: decode((EXAMPLES / "context-request" / f"{strategy}.json").read_bytes(), Bounds())
    for strategy in ("lanes", "categories", "tiers", "layers", "conversation", "request")
}
PRIVATE = "SECRET"
NUMBERS = "0 -0 -0.0 1 2 5 100 101 -1 0.5 0.1 1.5 1e2 1e400 5e-324 nan inf -inf 0x10 1_000 01 1. .5"
TIMES = "2026-01-01 12:00:00 2026-01-01T00:00:00 2026-01-01T00:00:00.9999999Z 0001-01-01T00:00:00+23:59"
LITERALS = [
    *NUMBERS.split(),
    *TIMES.split(),
    *("9007199254740992", "9223372036854775808", "1" + "0" * 400, "1" + "0" * 5_000, "true", "false"),
    *("[]", "{}", "[1]", "[" * 40 + "]" * 40, "[" * 5_000 + "]" * 5_000, "{a=" * 40 + "1" + "}" * 40),
    *('""', '"x"', '"\\u0000"', '"any"', '"lanes"', '"tiers"', '"chars4"', '"never"', f'"{PRIVATE}"'),
    *('"{content}"', '"{content}{id}"', '"{"', '"{0}"', '"{content.x}"', '"{content!r:>99}"', '"{digest}"'),
    *('"2026-01-01T00:00:00"', '"2026-01-01T00:00:00Z"', '"9999-12-31T23:59:59-23:59"'),
    *("", "nul", "'x'", '"'),
]
TABLES = "session lanes kinds layers categories reserve cache render tiers conversation tools material trust"
KEYS = "name strategy budget_tokens priority min_tokens unknown a.b"
NAMES = [*TABLES.split(), *KEYS.split(), "", "\0", "n" * 300]


def written(policy: dict[str, Any]) -> str:
    return "\n".join(f"{json.dumps(key)} = {_value(value)}" for key, value in policy.items() if key != "type")


def _value(value: Any) -> str:
    match value:
        case Literal(text):
            return text
        case dict():
            return "{" + ",".join(f"{json.dumps(key)}={_value(part)}" for key, part in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_value, value)) + "]"
        case _:
            return json.dumps(value)


def loaded(text: str, file: Path) -> Policy | PolicyError:
    file.write_text(text)
    try:
        return load_policy(file)
    except PolicyError as error:
        return error


@settings(max_examples=400, deadline=None)
@given(mutated(POLICIES, LITERALS, NAMES).map(written))
def test_a_policy_file_is_refused_with_reasons_or_composes(tmp_path_factory: Any, text: str) -> None:
    found = loaded(text, tmp_path_factory.getbasetemp() / "drawn.toml")
    if isinstance(found, PolicyError):
        assert found.problems
        assert all(problem.key and problem.reason for problem in found.problems)
        assert PRIVATE not in str(found)
        return
    asked = REQUESTS[found.strategy]
    assert isinstance(asked, ContextRequest)
    try:
        outcome = answer(asked, found)
    except EventError:
        return
    assert outcome.composed.tokens.used <= outcome.composed.tokens.limit
