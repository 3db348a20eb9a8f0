"""Digests of policies: the built-in ones, and all of `policies/`. Decisions name policies by them.

A digest must not change with Python, pydantic or the order of keys in a file. A changed policy gets a new
version, and `python tests/golden/test_golden_digests.py` rewrites `digests.json`.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from apportion.core.strategies import parse_policy

HERE = Path(__file__).parent
GOLDEN = HERE / "digests.json"
FOLDERS = (HERE.parents[1] / "worker" / "apportion" / "engine" / "policies", HERE / "policies")
RAW = {
    path.name: tomllib.loads(path.read_text("utf-8")) for folder in FOLDERS for path in folder.glob("*.toml")
}


def in_reverse(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: in_reverse(raw[key]) if isinstance(raw[key], dict) else raw[key] for key in reversed(raw)}


def digests() -> dict[str, str]:
    return {name: parse_policy(RAW[name]).digest for name in sorted(RAW)}


def test_the_digests_of_policies_stay() -> None:
    assert digests() == json.loads(GOLDEN.read_text("utf-8"))


@pytest.mark.parametrize("name", ["agent.toml", "versioned-2.toml"])
def test_the_order_of_keys_changes_no_digest(name: str) -> None:
    assert parse_policy(in_reverse(RAW[name])).digest == digests()[name]


@pytest.mark.parametrize(
    ("name", "key", "table"),
    [
        ("lanes.toml", "overlap", {"threshold": 0}),
        ("lanes.toml", "certificate", {"enabled": False}),
        ("conversation.toml", "prefix", {"slack": 0}),
    ],
)
def test_a_table_that_was_added_later_counts_only_if_it_differs(
    name: str, key: str, table: dict[str, Any]
) -> None:
    assert parse_policy(RAW[name] | {key: table}).digest == digests()[name]


@pytest.mark.parametrize("key", ["budget_tokens", "budget_tokens_max"])
def test_any_other_key_counts(key: str) -> None:
    assert parse_policy(RAW["lanes.toml"] | {key: 7_999}).digest != digests()["lanes.toml"]


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(digests(), indent=2) + "\n", "utf-8")
