"""Which paths a glob means. `*` and `?` stay within a path component, a component `**` is any number.

Decides by whole paths, in time linear in the path for each component. Components are matched by the
standard library's `fnmatch`, whose patterns never backtrack over a `*`; it knows no `/`, so we split.
"""

import fnmatch
import re
from functools import lru_cache

from worker.core.errors import ErrorCode, EventError


class Glob:
    """A compiled pattern."""

    __slots__ = ("_components",)

    def __init__(self, pattern: str, pointer: str) -> None:
        """Compile a pattern.

        Raises:
            EventError: it is absolute, has an empty, `.` or `..` component, an open `[`, or a `**` beside
                other characters.
        """
        components = pattern.removeprefix("./").split("/")
        self._components = tuple(_component(part, pointer) for part in components)

    def matches(self, path: str) -> bool:
        """Tell whether the whole path is meant; the path is normalised."""
        parts = path.split("/")
        # reach[n]: the components so far can have eaten exactly the first n parts
        reach = [True] + [False] * len(parts)
        for component in self._components:
            if component is None:
                first = reach.index(True) if True in reach else len(reach)
                reach = [n >= first for n in range(len(reach))]
            else:
                stepped = (reach[n] and component.match(part) is not None for n, part in enumerate(parts))
                reach = [False, *stepped]
        return reach[-1]


@lru_cache(maxsize=1 << 12)
def _compiled(component: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(component))


def _component(part: str, pointer: str) -> re.Pattern[str] | None:
    if part == "**":
        return None
    if part in ("", ".", "..") or "**" in part or "\0" in part or _has_open_class(part):
        message = "expected a relative glob of *, ?, [abc] and whole ** components"
        raise EventError(ErrorCode.INVALID_PATTERN, message, pointer)
    return _compiled(part)


def _has_open_class(part: str) -> bool:
    position = part.find("[")
    while position >= 0:
        first = position + 1 + (part[position + 1 : position + 2] == "!")
        end = part.find("]", first + 1)
        if end < 0:
            return True
        position = part.find("[", end)
    return False
