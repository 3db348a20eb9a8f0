"""Texts: their words and names, their chunks, and the differences between two of them."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import NamedTuple

CHUNK_MAX_CHARACTERS = 2000
"""About 500 tokens, a common size in retrieval systems."""
CHUNK_MAX_LINES = 40
_HALF_FULL_CHARACTERS = CHUNK_MAX_CHARACTERS // 2
_CONTEXT_LINES = 3
_COMPARED_MAX_PRODUCT = 25_000_000
"""Two stretches whose lines multiply to more are one replacement: comparing them would take seconds."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_IDENTIFIER = re.compile(r"[^\W\d]\w+")
_LETTERS = re.compile(r"[^\W\d_]+")
_CAMEL_CASE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_WORD_MIN_CHARACTERS = 3


class Hunk(NamedTuple):
    """A hunk of a unified diff.

    - `text`: the hunk with its `@@` line, without a section heading, which would depend on a configuration.
    - `changed`: the removed and added lines, without their signs.
    - `start`: the first line that it covers in the new text, from 0.
    - `end`: the line after the last.
    """

    text: str
    changed: str
    start: int
    end: int


class _Block(NamedTuple):
    """Lines `old_start:old_end` gave way to lines `new_start:new_end`."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def identifiers(text: str) -> frozenset[str]:
    """Return the names in a text that have two characters or more."""
    return frozenset(_IDENTIFIER.findall(text))


def words(text: str) -> frozenset[str]:
    """Return the words in a text that have three letters or more, in lower case.

    Names in `camelCase` (of ASCII letters) and `snake_case` fall apart.
    """
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
    """Yield a text in pieces within `CHUNK_MAX_LINES` and `CHUNK_MAX_CHARACTERS`; joined, they are the text.

    A chunk ends after whole lines, half full at a blank one; only a longer line is cut.
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
    groups: list[list[_Block]] = []
    for block in _blocks(before, after):
        if groups and block.old_start - groups[-1][-1].old_end <= 2 * _CONTEXT_LINES:
            groups[-1].append(block)
        else:
            groups.append([block])
    return tuple(_hunk(before, after, group) for group in groups)


def _blocks(before: Sequence[str], after: Sequence[str]) -> Iterator[_Block]:
    """Yield where two texts differ; what they share at both ends is not compared."""
    start = _common(before, after)
    end = _common(before[: start - 1 if start else None : -1], after[: start - 1 if start else None : -1])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if len(old) * len(new) > _COMPARED_MAX_PRODUCT:
        yield _Block(start, start + len(old), start, start + len(new))
        return
    for tag, *bounds in SequenceMatcher(None, old, new).get_opcodes():
        if tag != "equal":
            yield _Block(*(start + bound for bound in bounds))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _hunk(before: Sequence[str], after: Sequence[str], group: Sequence[_Block]) -> Hunk:
    first, last = group[0], group[-1]
    lead = min(_CONTEXT_LINES, first.old_start)
    trail = min(_CONTEXT_LINES, len(before) - last.old_end)
    old_start, old_end = first.old_start - lead, last.old_end + trail
    new_start, new_end = first.new_start - lead, last.new_end + trail
    text = [f"@@ -{_range(old_start, old_end)} +{_range(new_start, new_end)} @@\n"]
    changed: list[str] = []
    position = old_start
    for block in group:
        text += _signed(" ", before[position : block.old_start])
        text += _signed("-", before[block.old_start : block.old_end])
        text += _signed("+", after[block.new_start : block.new_end])
        changed += before[block.old_start : block.old_end]
        changed += after[block.new_start : block.new_end]
        position = block.old_end
    text += _signed(" ", before[position:old_end])
    return Hunk("".join(text), "".join(changed), new_start, new_end)


def _range(start: int, end: int) -> str:
    """Write lines as a unified diff does: from 1, an empty range by the line before it."""
    return f"{start + 1 if end > start else start},{end - start}"


def _signed(sign: str, unsigned: Sequence[str]) -> Iterator[str]:
    for line in unsigned:
        yield sign + line if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
