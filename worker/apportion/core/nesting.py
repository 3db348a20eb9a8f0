"""How deep JSON nests: of a decoded value level by level, of bytes by their brackets.

Decides nothing. Of a decoded value it costs some steps a level, however many texts stand there, and a few
for each array and object; of bytes a few for each text, and for each time that brackets close after they
opened. So bytes are for what could not be decoded, and for what is hardly more than brackets.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A string, or the rest where its end is missing."""
_ALL_ELSE = bytes(set(range(256)) - set(b"[]{}"))
_OPENED_AND_CLOSED = re.compile(rb"([\[{]*)([\]}]*)")
_MANY = 1 << 16
_ARRAYS = frozenset({list, tuple})


class Level(NamedTuple):
    """What stands equally deep in a value; `objects` and `arrays` are among the parts."""

    parts: list[Any]
    types: set[type]
    objects: list[dict[str, Any]]
    arrays: list[Any]


def levels(value: Any) -> Iterator[Level]:
    """Yield the levels of a JSON value, itself first."""
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
    """Tell whether there are more than that many objects and arrays within each other."""
    return any(
        depth > most and (level.objects or level.arrays) for depth, level in enumerate(levels(value), 1)
    )


def bytes_are_deeper(value: bytes, most: int) -> bool:
    """Tell whether more than that many brackets are open at once, outside strings, JSON or not."""
    brackets = _STRING.sub(b"", value).translate(None, _ALL_ELSE)
    depth = 0
    for opened, closed in _OPENED_AND_CLOSED.findall(brackets):
        depth += len(opened)
        if depth > most:
            return True
        depth -= len(closed)
    return False


def has_many_brackets(value: bytes) -> bool:
    """Tell whether so many brackets open in a value that their bytes are read sooner than what they hold."""
    return value.count(b"[") + value.count(b"{") > _MANY
