"""Glob patterns, matched many at once against many paths.

A glob matches whole paths and is case-sensitive: `*.PY` does not match `a.py`. A component `**` matches any
number of components. Within a component, `*` matches any characters and `?` matches one character. `[abc]`,
`[a-z]` and `[!a]` match one character of a class, as in the standard library's `fnmatch`.

Algorithm: Shift-And (Baeza-Yates and Gonnet). The bits of one integer hold all patterns, one bit for each
position in a pattern. Each character of a path advances all patterns with a few operations on whole integers.
Directories that paths share are read once. So the work is the product of two lengths, which the caller bounds
by `GLOB_STEPS_MAX`.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from operator import xor
from posixpath import commonprefix
from typing import NamedTuple, TypeAlias

from apportion.core.errors import ErrorCode, EventError

GLOB_STEPS_MAX = 6 * 10**9
"""The largest product of characters of wildcard patterns and characters of paths, for a whole request."""

BATCH_BITS = 1 << 13
"""Bits of patterns after which a batch is full. Its tables take 20 MB if all characters differ."""

_WILDCARD = re.compile(r"[*?\[]")
_TOKEN = re.compile(r"\[(!?\]?[^\]]*)\]|(.)", re.DOTALL)
_CLASS_PART = re.compile(r".-.|.", re.DOTALL)
_CLOSED = re.compile(r"(?:[^\[\0]|\[!?+[^\0][^\]\0]*\])*+")
"""A component without NUL in which each class is closed; its first character may be a `]`."""

_Ranges: TypeAlias = list[tuple[int, int]]
"""Ranges of code points, each from the first to before the second."""


class Paths:
    """Distinct paths by their components; `characters` counts a shared directory and its `/` once."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.steps: list[tuple[str, int, list[str]]] = []
        """Each path, its number of leading components shared with the previous path, and the others."""
        self.characters = 0
        before: list[str] = []
        for components, path in sorted((path.split("/"), path) for path in set(paths)):
            shared = len(commonprefix((components, before)))
            before = components
            others = components[shared:]
            self.characters += sum(map(len, others)) + len(others)
            self.steps.append((path, shared, others))

    @cached_property
    def alphabet(self) -> set[str]:
        """The distinct characters of the paths."""
        return set().union(*(path for path, *_ in self.steps))


class Matches(NamedTuple):
    """The lowest index of a pattern for each matched path, and the indices of all patterns that match."""

    first: dict[str, int]
    matched: set[int]


class Globs:
    """Valid patterns. `characters` is the total length of the patterns with wildcards."""

    def __init__(self, patterns: Iterable[tuple[int, str, str]]) -> None:
        """Take patterns in ascending order of index, each with its index and its pointer for errors.

        Raises EventError for an absolute pattern, an empty, `.` or `..` component, an open `[`, a NUL, or
        a `**` with other characters in its component.
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
        """Return the matches of all patterns and all paths."""
        first: dict[str, int] = {}
        matched: set[int] = set()
        for batch in self._batches():
            matches = batch.match(paths)
            first = matches.first | first
            matched |= matches.matched
        if self._named:
            for path, *_ in paths.steps:
                indices = self._named.get(path)
                if indices is not None:
                    first[path] = min(indices[0], first.get(path, indices[0]))
                    matched.update(indices)
        return Matches(first, matched)

    def _batches(self) -> Iterator["_Batch"]:
        batch = _Batch()
        for index, components in self._patterns:
            if batch.bits > BATCH_BITS:
                yield batch
                batch = _Batch()
            batch.add(index, components)
        if batch.bits:
            yield batch


class _Batch:
    """Patterns as the bits of integers. A set bit means that the pattern has matched up to it."""

    def __init__(self) -> None:
        self.bits = 0
        self._starts = 0
        self._loops = 0  # bits that stay for any character but `/`: `*`
        self._everything = 0  # bits that stay for all characters: `**`
        self._slashes = 0  # bits that advance for `/`
        self._any = 0  # bits that advance for any character but `/`: `?`, and negated classes
        self._literals: defaultdict[str, int] = defaultdict(int)
        self._toggles: defaultdict[int, int] = defaultdict(int)  # by code point: starts and ends of classes
        self._ends: dict[int, int] = {}

    def add(self, index: int, components: Sequence[str]) -> None:
        start = 1 << self.bits
        self._starts |= start
        before = ""
        for component in components:
            if component != "**":
                self._add_component(component)
            elif before != "**":  # a repeated `**` matches the same as one `**`
                self._everything |= 1 << self.bits
                self.bits += 1
            before = component
        self._ends[self.bits] = index
        self.bits += 1

    def _add_component(self, component: str) -> None:
        for token in _TOKEN.finditer(component):
            bit = 1 << self.bits
            if token[2] == "*":
                self._loops |= bit
                continue
            if token[2] == "?":
                self._any |= bit
            elif token[2] is not None:
                self._literals[token[2]] |= bit
            else:
                negated, ranges = _class(token[1])
                if negated:
                    self._any |= bit
                for first, behind in ranges:
                    self._toggles[first] ^= bit
                    self._toggles[behind] ^= bit
            self.bits += 1
        self._slashes |= 1 << self.bits
        self.bits += 1

    def match(self, paths: Paths) -> Matches:
        over, over_any = self._steps(paths).get, self._any
        stays, slashes, everything = self._loops | self._everything, self._slashes, self._everything
        ends = sum(1 << bit for bit in self._ends)
        first: dict[str, int] = {}
        ended = 0
        states = [self._starts | (self._starts & everything) << 1]
        for path, shared, components in paths.steps:
            del states[shared + 1 :]
            state = states[-1]
            for component in components:
                if state:
                    for character in component:
                        state = (state & over(character, over_any)) << 1 | state & stays
                    state = (state & slashes) << 1 | state & everything
                    state |= (state & everything) << 1  # after a `/`, the next component may begin
                states.append(state)
            if at_end := state & ends:
                ended |= at_end
                first[path] = self._ends[(at_end & -at_end).bit_length() - 1]
        return Matches(first, {index for bit, index in self._ends.items() if ended >> bit & 1})

    def _steps(self, paths: Paths) -> Mapping[str, int]:
        """Return, by character, the bits that advance; characters left out advance `_any`."""
        if not self._toggles:
            return {character: bits | self._any for character, bits in self._literals.items()}
        bounds = sorted(self._toggles)
        between = list(accumulate(map(self._toggles.__getitem__, bounds), xor, initial=self._any))
        return {
            character: between[bisect_right(bounds, ord(character))] | self._literals.get(character, 0)
            for character in paths.alphabet
        }


def _class(text: str) -> tuple[bool, _Ranges]:
    """Return whether a class is negated, and its ranges, ascending and without overlaps.

    As in `fnmatch`, a backwards range matches nothing. If removing it leaves a `!` at the beginning, the
    class is negated.
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
    is_relative = component not in ("", ".", "..") and "**" not in component
    if component != "**" and not (is_relative and _CLOSED.fullmatch(component)):
        message = "expected a relative glob of *, ?, [abc] and whole ** components"
        raise EventError(ErrorCode.INVALID_PATTERN, message, pointer)
