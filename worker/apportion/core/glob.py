"""Which paths a glob means. `*` and `?` stay within a path component, a component `**` is any number.

Decides by whole paths. Components with wildcards are matched by the standard library's `fnmatch`, whose
patterns never backtrack over a `*`; it knows no `/`, so we split. How far a pattern has come in a path is a
set of places, held as the bits of an integer: a pattern of any length takes a step a component.
"""

import fnmatch
import re
from functools import lru_cache
from typing import TypeAlias

from apportion.core.errors import ErrorCode, EventError

_Component: TypeAlias = re.Pattern[str] | str | None
"""A pattern, a name, or any number of components."""


class Glob:
    """A compiled pattern."""

    __slots__ = ("_components", "_last")

    def __init__(self, pattern: str, pointer: str) -> None:
        """Compile a pattern.

        Raises:
            EventError: it is absolute, has an empty, `.` or `..` component, an open `[`, or a `**` beside
                other characters.
        """
        components = pattern.removeprefix("./").split("/")
        self._components = tuple(_component(part, pointer) for part in components)
        self._last = self._components[-1]

    def matches(self, path: str) -> bool:
        """Tell whether the whole path is meant; the path is normalised."""
        parts = _parts(path)
        if not _means(self._last, parts.last):
            return False
        reach = 1
        for component in self._components:
            if component is None:
                reach = parts.everywhere & -(reach & -reach)
            else:
                reach = (reach & parts.places(component)) << 1
            if not reach:
                return False
        return reach.bit_length() == parts.everywhere.bit_length()


class _Parts:
    """The components of a path: bit n stands for the place before the component n."""

    __slots__ = ("_named", "_patterned", "everywhere", "last")

    def __init__(self, path: str) -> None:
        parts = path.split("/")
        self.last = parts[-1]
        self.everywhere = (2 << len(parts)) - 1
        self._named: dict[str, int] = {}
        for place, part in enumerate(parts):
            self._named[part] = self._named.get(part, 0) | 1 << place
        self._patterned: dict[re.Pattern[str], int] = {}

    def places(self, component: re.Pattern[str] | str) -> int:
        """Return where the path has what the component means."""
        if isinstance(component, str):
            return self._named.get(component, 0)
        found = self._patterned.get(component)
        if found is None:
            found = sum(places for part, places in self._named.items() if component.match(part))
            self._patterned[component] = found
        return found


_parts = lru_cache(maxsize=1)(_Parts)
"""All patterns of a request are asked about one path after another."""


def _means(component: _Component, part: str) -> bool:
    if isinstance(component, str):
        return component == part
    return component is None or component.match(part) is not None


@lru_cache(maxsize=1 << 12)
def _compiled(component: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(component))


def _component(part: str, pointer: str) -> _Component:
    if part == "**":
        return None
    if part in ("", ".", "..") or "**" in part or "\0" in part or _has_open_class(part):
        message = "expected a relative glob of *, ?, [abc] and whole ** components"
        raise EventError(ErrorCode.INVALID_PATTERN, message, pointer)
    return _compiled(part) if any(wildcard in part for wildcard in "*?[") else part


def _has_open_class(part: str) -> bool:
    position = part.find("[")
    while position >= 0:
        first = position + 1 + (part[position + 1 : position + 2] == "!")
        end = part.find("]", first + 1)
        if end < 0:
            return True
        position = part.find("[", end)
    return False
