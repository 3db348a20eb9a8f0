"""Words, names and chunks of texts, and the differences between two texts."""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Literal, NamedTuple, TypeAlias

CHUNK_MAX_CHARACTERS = 2000
"""About 500 tokens, a common size in retrieval systems."""
CHUNK_MAX_LINES = 40
_HALF_FULL_CHARACTERS = CHUNK_MAX_CHARACTERS // 2
_CONTEXT_LINES = 3
_COMPARED_MAX_PRODUCT = 25_000_000
"""If the product of the line counts of two passages is greater, they are one replacement. A comparison would
take seconds."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_IDENTIFIER = re.compile(r"[^\W\d]\w+")
_LETTERS = re.compile(r"[^\W\d_]+")
_CAMEL_CASE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_WORD_MIN_CHARACTERS = 3
_Opcode: TypeAlias = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


class Hunk(NamedTuple):
    """A hunk of a unified diff."""

    text: str
    """The hunk with its `@@` line, without a section heading, which would depend on git's configuration."""
    changed: str
    """The removed and added lines, without their signs."""
    start: int
    """The first line of the hunk in the new text, from 0."""
    end: int


def identifiers(text: str) -> frozenset[str]:
    """Return the names in a text that have two characters or more."""
    return frozenset(_IDENTIFIER.findall(text))


def words(text: str) -> frozenset[str]:
    """Return the words of three letters or more, in lower case; `snake_case` and `camelCase` are split."""
    found: set[str] = set()
    for letters in set(_LETTERS.findall(text)):
        if letters.isascii() and not letters.islower():
            found.update(map(str.lower, _CAMEL_CASE.findall(letters)))
        else:
            found.add(letters.lower())
    return frozenset(word for word in found if len(word) >= _WORD_MIN_CHARACTERS)


def lines(text: str) -> list[str]:
    """Split a text after every line feed, and only there."""
    return _LINE.findall(text)


def chunks(text: str) -> Iterator[str]:
    """Yield a text in pieces of at most `CHUNK_MAX_LINES` and `CHUNK_MAX_CHARACTERS`, without gaps.

    A chunk has whole lines; only a line longer than a chunk is cut. A half full chunk ends before a blank
    line.
    """
    held: list[str] = []
    size = 0
    for line in lines(text):
        for start in range(0, len(line), CHUNK_MAX_CHARACTERS):
            piece = line[start : start + CHUNK_MAX_CHARACTERS]
            full = size + len(piece) > CHUNK_MAX_CHARACTERS or len(held) == CHUNK_MAX_LINES
            if held and (full or (size > _HALF_FULL_CHARACTERS and piece.isspace())):
                yield "".join(held)
                held, size = [], 0
            held.append(piece)
            size += len(piece)
    if held:
        yield "".join(held)


def head(text: str) -> str:
    """Return the first chunk of a text."""
    return next(chunks(text), "")


def hunks(old: str, new: str) -> tuple[Hunk, ...]:
    """Return the difference of two texts as unified hunks with three lines of context."""
    before, after = lines(old), lines(new)
    groups = _LineMatcher(before, after).get_grouped_opcodes(_CONTEXT_LINES)
    return tuple(_hunk(before, after, group) for group in groups) if before != after else ()


def common_length(first: Iterable[str], second: Iterable[str]) -> int:
    """Return the number of equal items at the beginning of two sequences."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


class _LineMatcher(SequenceMatcher[str]):
    """A matcher that only compares the lines between the common beginning and the common end."""

    def __init__(self, before: list[str], after: list[str]) -> None:
        super().__init__()
        self._before, self._after = before, after

    def get_opcodes(self) -> list[_Opcode]:
        before, after = self._before, self._after
        start = common_length(before, after)
        end = common_length(reversed(before[start:]), reversed(after[start:]))
        old, new = before[start : len(before) - end], after[start : len(after) - end]
        if len(old) * len(new) > _COMPARED_MAX_PRODUCT:
            compared: list[_Opcode] = [("replace", 0, len(old), 0, len(new))]
        else:
            compared = SequenceMatcher(None, old, new).get_opcodes()
        return [
            ("equal", 0, start, 0, start),
            *((tag, start + i1, start + i2, start + j1, start + j2) for tag, i1, i2, j1, j2 in compared),
            ("equal", start + len(old), len(before), start + len(new), len(after)),
        ]


def _hunk(
    before: Sequence[str], after: Sequence[str], group: Sequence[tuple[str, int, int, int, int]]
) -> Hunk:
    (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = group[0], group[-1]
    text = [f"@@ -{_range(old_start, old_end)} +{_range(new_start, new_end)} @@\n"]
    changed: list[str] = []
    for tag, old_from, old_to, new_from, new_to in group:
        removed, added = before[old_from:old_to], after[new_from:new_to]
        if tag == "equal":
            text += _signed(" ", removed)
        else:
            text += [*_signed("-", removed), *_signed("+", added)]
            changed += [*removed, *added]
    return Hunk("".join(text), "".join(changed), new_start, new_end)


def _range(start: int, end: int) -> str:
    """Return lines as in a unified diff: counted from 1; an empty range is the line before it."""
    return f"{start + 1 if end > start else start},{end - start}"


def _signed(sign: str, unsigned: Sequence[str]) -> Iterator[str]:
    for line in unsigned:
        yield sign + line if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
