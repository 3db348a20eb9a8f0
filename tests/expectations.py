"""What a written expectation says of an answer: the one reading that conformance files and pages share."""

from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from apportion.core.compose import Answered
from apportion.core.results import Outcome as Fate

_EXACT = ("omitted",)
"""Objects of which all keys are told; of all others only those that matter."""


def shown(outcome: Answered) -> dict[str, Any]:
    """Return an answer as expectations see it: keys as in the events, and by id what has an id."""
    composed, decision = to_builtins(outcome.composed), to_builtins(outcome.decision)
    entries = decision.get("candidates", ())
    return {
        **composed,
        **decision["tokens"],
        "ranks": [entry["id"] for entry in entries],
        "omitted": {entry["id"]: entry["reason"] for entry in entries if entry["outcome"] == "omitted"},
        "entries": {entry["id"]: entry for entry in entries},
        "groups": {group["name"]: group for group in decision.get("groups", ())},
        "decision": decision,
        "cache_hit": outcome.cache_hit,
    }


def assert_holds(expected: Any, actual: Any, place: str = "$") -> None:
    """Assert what is expected: the keys that are told, lists in full, numbers and texts exactly."""
    if isinstance(expected, Mapping):
        assert isinstance(actual, Mapping), f"{place}: expected an object, got {actual!r}"
        if place.rsplit(".", 1)[-1] in _EXACT:
            assert dict(actual) == dict(expected), place
        for key, value in expected.items():
            assert key in actual, f"{place}: no {key}"
            assert_holds(value, actual[key], f"{place}.{key}")
    elif isinstance(expected, list):
        assert isinstance(actual, list | tuple), f"{place}: expected a list, got {actual!r}"
        assert len(actual) == len(expected), f"{place}: expected {expected!r}, got {actual!r}"
        for index, value in enumerate(expected):
            assert_holds(value, actual[index], f"{place}[{index}]")
    else:
        assert actual == expected, f"{place}: expected {expected!r}, got {actual!r}"
        assert type(actual) is type(expected), f"{place}: expected {expected!r}, got {actual!r}"


def assert_accounted(outcome: Answered, candidates: int) -> None:
    """Pass if each candidate ended once: selected as it stands among the items, or omitted for a reason."""
    entries = outcome.decision.candidates
    assert len(entries) == candidates
    chosen = [entry.id for entry in entries if entry.outcome is Fate.SELECTED]
    assert sorted(chosen) == sorted(item.id for item in outcome.composed.items)
    assert len(set(chosen)) == len(chosen)
    assert all(bool(entry.reason) == (entry.outcome is Fate.OMITTED) for entry in entries)
