"""Comparison of a recorded JSON line with the line composed again, and the first field that differs.

Two lines are equal if they have the same JSON values under the same keys, each key once.
"""

import json
from collections.abc import Collection, Iterator
from itertools import zip_longest
from typing import Any, NoReturn

import msgspec
from msgspec import UNSET, Struct

from apportion.core.events import Opt

_RUN = b',"run":'


class Different(Struct, frozen=True):
    """The first field that differs, in the order of the composed line; a missing value is `UNSET`."""

    place: str
    recorded: Opt[Any]
    composed: Opt[Any]


class NotJsonError(ValueError):
    """A recorded line is no JSON object in UTF-8, or repeats a key."""


def compare(recorded: bytes, composed: bytes, ignored: Collection[str] = ("run",)) -> Different | None:
    """Return the first difference without the `ignored` outer keys, or None; raises as `read`."""
    if recorded == composed or _only_run_added(recorded, composed):
        return None
    return _first(json.loads(composed), read(recorded), "$", ignored)


def read(line: bytes) -> dict[str, Any]:
    """Return the JSON object of a line; raise NotJsonError if it is none, or an object repeats a key."""
    try:
        value = json.loads(line.decode(), object_pairs_hook=_once, parse_constant=_refuse)
        msgspec.json.encode(value)  # refuses lone surrogates, which UTF-8 cannot encode
    except (ValueError, RecursionError, OverflowError):
        raise NotJsonError from None
    if not isinstance(value, dict):
        raise NotJsonError
    return value


def _only_run_added(recorded: bytes, composed: bytes) -> bool:
    """Return whether a line is the composed line with `run` appended, as a worker writes it."""
    shared = len(composed) - 1
    if not recorded.startswith(composed[:-1]) or not recorded.startswith(_RUN, shared):
        return False
    try:
        read(recorded[shared + len(_RUN) : -1])
    except NotJsonError:
        return False
    return recorded.endswith(b"}")


def _first(composed: Any, recorded: Any, pointer: str, ignored: Collection[str] = ()) -> Different | None:
    pairs: Iterator[tuple[str, Any, Any]]
    if type(composed) is not type(recorded):
        return Different(pointer, recorded, composed)
    if isinstance(composed, dict):
        keys = [key for key in composed | recorded if key not in ignored]
        pairs = ((f".{key}", composed.get(key, UNSET), recorded.get(key, UNSET)) for key in keys)
    elif isinstance(composed, list):
        elements = enumerate(zip_longest(composed, recorded, fillvalue=UNSET))
        pairs = ((f"[{index}]", ours, theirs) for index, (ours, theirs) in elements)
    else:
        return None if composed == recorded else Different(pointer, recorded, composed)
    for step, ours, theirs in pairs:
        different = _first(ours, theirs, pointer + step)
        if different is not None:
            return different
    return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise NotJsonError
    return value


def _refuse(_: str) -> NoReturn:
    raise NotJsonError
