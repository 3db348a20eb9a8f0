"""Which paths globs mean: many patterns are matched against many paths at once.

Decides by whole paths, and is case-sensitive: `*.PY` does not mean `a.py`. A component `**` is any number of
components. Within one, `*` is any characters, `?` is one, and `[abc]`, `[a-z]`, `[!a]` are one of a class,
which is read as the standard library's `fnmatch` reads it.

All patterns stand behind one another as the bits of an integer, a bit for each place in a pattern
(Baeza-Yates and Gonnet's Shift-And): a character of a path moves all patterns on with a few operations on
whole integers, however their wildcards stand. What paths begin with in common, in whole components, is read
once. So the work is the product of two lengths; who matches bounds it by `GLOB_STEPS_MAX`.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from operator import xor
from typing import NamedTuple, TypeAlias

from apportion.core.errors import ErrorCode, EventError

GLOB_STEPS_MAX = 6 * 10**9
"""Most characters of patterns with wildcards times characters of paths, in all lists of a request."""

BATCH_BITS = 1 << 13
"""How much of the patterns moves at once: tables take 20 MB where each character of them is another."""

_WILDCARD = re.compile(r"[*?\[]")
_TOKEN = re.compile(r"\[(!?\]?[^\]]*)\]|(.)", re.DOTALL)
_CLASS_PART = re.compile(r".-.|.", re.DOTALL)

_Ranges: TypeAlias = list[tuple[int, int]]
"""Code points, each from the first to before the second."""


class Paths:
    """Different paths, ready to be matched.

    `characters` counts each directory once, with the `/` behind it.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        """Sort normalised paths by their components."""
        self.steps: list[tuple[str, int, list[str]]] = []
        """Each path, how many components it begins with like the one before it, and the others."""
        self.characters = 0
        before: list[str] = []
        for components, path in sorted((path.split("/"), path) for path in set(paths)):
            shared = 0
            for one, other in zip(components, before, strict=False):
                if one != other:
                    break
                shared += 1
            before = components
            others = components[shared:]
            self.characters += sum(map(len, others)) + len(others)
            self.steps.append((path, shared, others))

    @cached_property
    def alphabet(self) -> set[str]:
        """The different characters of the paths."""
        return set().union(*(path for path, *_ in self.steps))


class Matches(NamedTuple):
    """For each path that is meant the lowest index of a pattern; and all patterns that mean some path."""

    first: dict[str, int]
    matched: set[int]


class Globs:
    """Valid patterns. `characters` counts those of the patterns with wildcards."""

    def __init__(self, patterns: Iterable[tuple[int, str, str]]) -> None:
        """Take patterns, each with its index, ascending, and the place to blame where it is invalid.

        Raises:
            EventError: one is absolute, has an empty, `.` or `..` component, an open `[`, or a `**` beside
                other characters.
        """
        self._named: dict[str, list[int]] = defaultdict(list)
        self._patterns: list[tuple[int, list[str]]] = []
        self.characters = 0
        for index, pattern, pointer in patterns:
            plain = pattern.removeprefix("./")
            components = plain.split("/")
            for component in components:
                _require_valid(component, pointer)
            if _WILDCARD.search(plain) is None:
                self._named[plain].append(index)
                continue
            self.characters += len(plain)
            self._patterns.append((index, components))

    def match(self, paths: Paths) -> Matches:
        """Match all patterns against all paths."""
        first: dict[str, int] = {}
        matched: set[int] = set()
        for batch in self._batches():
            found = batch.match(paths)
            first = found.first | first
            matched |= found.matched
        if self._named:
            for path, *_ in paths.steps:
                same = self._named.get(path)
                if same is not None:
                    first[path] = min(same[0], first.get(path, same[0]))
                    matched.update(same)
        return Matches(first, matched)

    def _batches(self) -> Iterator["_Batch"]:
        """Yield the patterns with wildcards, compiled, in their order."""
        batch = _Batch()
        for index, components in self._patterns:
            if batch.bits > BATCH_BITS:
                yield batch
                batch = _Batch()
            batch.add(index, components)
        if batch.bits:
            yield batch


class _Batch:
    """Patterns as the bits of integers: a set bit says that what is before its place has been matched."""

    def __init__(self) -> None:
        self.bits = 0
        self._starts = 0
        self._loops = 0  # stays there over any character but `/`: `*`
        self._everything = 0  # stays there over all characters: within `**`
        self._slashes = 0  # goes on over `/`
        self._any = 0  # goes on over any character but `/`: `?`, and all but what a negated class names
        self._literals: defaultdict[str, int] = defaultdict(int)
        self._toggles: defaultdict[int, int] = defaultdict(int)  # by code point, what changes sides there
        self._ends: dict[int, int] = {}

    def add(self, index: int, components: Sequence[str]) -> None:
        start = 1 << self.bits
        self._starts |= start
        before = ""
        for component in components:
            if component != "**":
                self._add_component(component)
            elif before != "**":  # twice any number is any number
                self._everything |= 1 << self.bits
                self.bits += 1
            before = component
        self._ends[self.bits] = index
        self.bits += 1

    def _add_component(self, component: str) -> None:
        for token in _TOKEN.finditer(component):
            place = 1 << self.bits
            if token[2] == "*":
                self._loops |= place
                continue
            if token[2] == "?":
                self._any |= place
            elif token[2] is not None:
                self._literals[token[2]] |= place
            else:
                negated, ranges = _class(token[1])
                if negated:
                    self._any |= place
                for first, behind in ranges:
                    self._toggles[first] ^= place
                    self._toggles[behind] ^= place
            self.bits += 1
        self._slashes |= 1 << self.bits
        self.bits += 1

    def match(self, paths: Paths) -> Matches:
        over, over_any = self._steps(paths).get, self._any
        stays, slashes, everything = self._loops | self._everything, self._slashes, self._everything
        ends = sum(1 << place for place in self._ends)
        first: dict[str, int] = {}
        met = 0
        states = [self._starts | (self._starts & everything) << 1]
        for path, shared, components in paths.steps:
            del states[shared + 1 :]
            state = states[-1]
            for component in components:
                if state:
                    for character in component:
                        state = (state & over(character, over_any)) << 1 | state & stays
                    state = (state & slashes) << 1 | state & everything
                    state |= (state & everything) << 1  # behind a `/` what follows `**` may begin
                states.append(state)
            if meant := state & ends:
                met |= meant
                first[path] = self._ends[(meant & -meant).bit_length() - 1]
        return Matches(first, {index for place, index in self._ends.items() if met >> place & 1})

    def _steps(self, paths: Paths) -> Mapping[str, int]:
        """Return the places that go on over a character, for each over which more do than over any."""
        if not self._toggles:
            return {character: places | self._any for character, places in self._literals.items()}
        bounds = sorted(self._toggles)
        between = list(accumulate(map(self._toggles.__getitem__, bounds), xor, initial=self._any))
        return {
            character: between[bisect_right(bounds, ord(character))] | self._literals.get(character, 0)
            for character in paths.alphabet
        }


def _class(text: str) -> tuple[bool, _Ranges]:
    """Return whether a class is negated, and what it names, without overlaps.

    As in `fnmatch`, a range that runs backwards names nothing, and a `!` that it leaves at the beginning
    negates.
    """
    start = int(text.startswith("!"))
    parts = [part for part in _CLASS_PART.findall(text, start) if len(part) == 1 or part[0] <= part[2]]
    if not start and parts and parts[0].startswith("!"):
        parts[:1] = parts[0][1:]
        start = 1
    ranges: _Ranges = []
    for first, behind in sorted((ord(part[0]), ord(part[-1]) + 1) for part in parts):
        if ranges and first <= ranges[-1][1]:
            ranges[-1] = ranges[-1][0], max(behind, ranges[-1][1])
        else:
            ranges.append((first, behind))
    return bool(start), ranges


def _require_valid(component: str, pointer: str) -> None:
    if component in ("", ".", "..", "**"):
        valid = component == "**"
    else:
        valid = not ("**" in component or "\0" in component or _has_open_class(component))
    if not valid:
        message = "expected a relative glob of *, ?, [abc] and whole ** components"
        raise EventError(ErrorCode.INVALID_PATTERN, message, pointer)


def _has_open_class(part: str) -> bool:
    position = part.find("[")
    while position >= 0:
        first = position + 1 + (part[position + 1 : position + 2] == "!")
        end = part.find("]", first + 1)
        if end < 0:
            return True
        position = part.find("[", end)
    return False
