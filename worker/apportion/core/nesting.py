"""Nesting depth of JSON: of a decoded value level by level, and of bytes by their brackets.

For a decoded value the cost is a few steps for each level, array and object; texts are free. For bytes the
cost is a few steps for each text, and for each closing bracket after an opening one. So bytes are measured
only if they cannot be decoded, or if they hold little besides brackets.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A string, or the rest of the input if the string does not end."""
_ALL_ELSE = bytes(set(range(256)) - set(b"[]{}"))
_OPENED_AND_CLOSED = re.compile(rb"([\[{]*)([\]}]*)")
_MANY = 1 << 16
_ARRAYS = frozenset({list, tuple})


class Level(NamedTuple):
    """All parts of a value at the same depth; `objects` and `arrays` are subsets of `parts`."""

    parts: list[Any]
    types: set[type]
    objects: list[dict[str, Any]]
    arrays: list[Any]


def levels(value: Any) -> Iterator[Level]:
    """Yield the levels of a JSON value; the first level is the value itself."""
    parts = [value]
    while parts:
        types = set(map(type, parts))
        objects: list[dict[str, Any]] = []
        arrays: list[Any] = []
        if dict in types:
            objects = parts if len(types) == 1 else [part for part in parts if type(part) is dict]
        if types & _ARRAYS:
            arrays = parts if types <= _ARRAYS else [part for part in parts if type(part) in _ARRAYS]
        yield Level(parts, types, objects, arrays)
        parts = [*chain.from_iterable(map(dict.values, objects)), *chain.from_iterable(arrays)]


def is_deeper(value: Any, most: int) -> bool:
    """Return whether objects and arrays nest deeper than `most`."""
    return any(
        depth > most and (level.objects or level.arrays) for depth, level in enumerate(levels(value), 1)
    )


def bytes_are_deeper(value: bytes, most: int) -> bool:
    """Return whether more than `most` brackets outside strings are open at once; bad JSON is allowed."""
    brackets = _STRING.sub(b"", value).translate(None, _ALL_ELSE)
    depth = 0
    for opened, closed in _OPENED_AND_CLOSED.findall(brackets):
        depth += len(opened)
        if depth > most:
            return True
        depth -= len(closed)
    return False


def has_many_brackets(value: bytes) -> bool:
    """Return whether a value has so many brackets that scanning them is faster than walking its levels."""
    return value.count(b"[") + value.count(b"{") > _MANY
