"""Written expectations of an answer, shared by conformance files and pages."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, to_builtins

from apportion.core.compose import Answered
from apportion.core.results import Outcome as Fate

_EXACT = ("omitted",)
"""Objects with all keys given; every other object has only the relevant keys."""


def shown(outcome: Answered) -> dict[str, Any]:
    """Return an answer in the form of expectations: keys as in the events, including zeros.

    Named parts are mappings: candidates by id, counts by reason, and the parts of a score by name. The needed
    and remaining tokens of a candidate are its `margin`.
    """
    composed, decision = to_builtins(outcome.composed), _in_full(outcome.decision)
    entries = decision["candidates"]
    names = outcome.decision.score_parts
    for entry, own in zip(entries, outcome.decision.candidates, strict=True):
        if own.parts is not UNSET:
            entry["parts"] = dict(zip(names, own.parts, strict=True))
        if own.margin is not None:
            entry["margin"] = to_builtins(own.margin)
    for key in ("reasons", "unlisted"):
        decision[key] = {one["reason"]: one["count"] for one in decision[key]}
    decision["constraints"] = {constraint["name"]: constraint for constraint in decision["constraints"]}
    if "certificate" in decision:
        groups = decision["certificate"]["groups"]
        decision["certificate"]["groups"] = {group.pop("name"): group for group in groups}
    return {
        **composed,
        **decision["tokens"],
        "ranks": [entry["id"] for entry in entries],
        "omitted": {entry["id"]: entry["reason"] for entry in entries if entry["outcome"] == "omitted"},
        "entries": {entry["id"]: entry for entry in entries},
        "groups": {group["name"]: group for group in decision["groups"]},
        "decision": decision,
        "cache_hit": outcome.cache_hit,
    }


def _in_full(value: Any) -> Any:
    """Return a record with its absent fields, which are 0 or empty."""
    if isinstance(value, Struct):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        fields = {told: getattr(value, name) for told, name in names}
        return {name: _in_full(field) for name, field in fields.items() if field is not UNSET}
    if isinstance(value, tuple):
        return [_in_full(one) for one in value]
    return to_builtins(value)


def assert_holds(expected: Any, actual: Any, place: str = "$") -> None:
    """Assert an expectation: given keys only, lists in full, numbers and texts exactly."""
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
    """Pass if each candidate ended once: selected like its item, or omitted for a reason."""
    entries = outcome.decision.candidates
    assert len(entries) == candidates
    chosen = [entry.id for entry in entries if entry.outcome is Fate.SELECTED]
    assert sorted(chosen) == sorted(item.id for item in outcome.composed.items)
    assert len(set(chosen)) == len(chosen)
    assert all(bool(entry.reason) == (entry.outcome is Fate.OMITTED) for entry in entries)
