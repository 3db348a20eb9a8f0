"""Strategy `keep_signatures`: bodies of functions are dropped, signatures and docs are kept. For code.

The language is the candidate's `language`: its name or a usual file extension, in any case. If there is none,
it follows from the path's extension. `syntax` does the parsing; it is loaded when the first code is shrunk,
since a parser takes a while to load.

A text is cut by `truncate_oldest` instead in these cases:
- Its language is unknown here, or it has more than 8,192 code points.
- Parsing it costs more than parsing code does (see `metered`).
- Earlier texts of the request have used up the budget of parsing (see `parsing`).
- It has no function and no type without errors, or more functions, types and docs than code has.

Rungs:
1. Bodies of functions without errors are dropped: innermost first, outermost last; of equal depth, the last
   in the text first. Depth counts the surrounding functions and types. A body is the text between the
   braces, or the block under a Python function's head and docstring. Form k keeps k - 1 bodies.
2. Docs are dropped: docstrings and comments except their heads, the last in the text first. Comments with at
   most one line end between them count as one. The head is everything up to the end of the first line that
   holds more than blanks and signs (`/`, `*`, `#`, `!`, backslash, a docstring's opening quotes). The end of
   a doc (three quotes, `*/`) stays. Form k keeps k - 1 docs whole.
3. The first k lines of the rest, but not all; `[... N later lines omitted]` counts lines of the rest.
4. The first k code points of the text's first line, above `[... N later characters omitted]`.

An omission begins after the last non-blank character before it, and ends with its own last non-blank
character. A space and `[... N lines omitted]` replace it; N counts its lines that are not blank. A part that
is no longer than its replacement, in code points, stays. Everything inside an omitted body is omitted too.
"""

import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

from apportion.core.errors import MissingExtraError
from apportion.core.shrink import truncate_oldest
from apportion.core.shrink.cuts import BLANK, first_characters, first_lines, line_starts
from apportion.core.shrink.ladder import Rung
from apportion.core.shrink.parsing import PARSED_MAX_CHARACTERS, Parsing
from apportion.core.text.characters import lowered

_NAMES = {
    "c": ("c", "h"),
    "go": ("go", "golang"),
    "java": ("java",),
    "javascript": ("javascript", "javascriptreact", "js", "jsx", "cjs", "mjs"),
    "python": ("python", "py", "pyi"),
    "rust": ("rust", "rs"),
    "tsx": ("tsx", "typescriptreact"),
    "typescript": ("typescript", "ts", "cts", "mts"),
}
_LANGUAGES = {name: language for language, names in _NAMES.items() for name in names}

_BEFORE_HEAD = re.compile(r"(?:[A-Za-z]{0,2}(?:\"\"\"|'''|[\"']))?[/*#!\\ \t\r\n]*")
_CLOSINGS = ("*/", '"""', "'''")


class _Omission(NamedTuple):
    """An omitted part, from `start` to before `end`, and the marker that replaces it."""

    start: int
    end: int
    marker: str


def rungs(content: str, language: str | None, path: str | None, parsing: Parsing) -> tuple[Rung, ...]:
    """Return the rungs below a content; raise MissingExtraError without the extra `code`."""
    parsed = language_of(language, path)
    if parsed is None or len(content) > PARSED_MAX_CHARACTERS or parsing.is_over:
        return truncate_oldest.rungs(content)
    try:
        from apportion.core.shrink import syntax  # noqa: PLC0415 - loads a parser, which few processes need
    except ModuleNotFoundError:
        raise MissingExtraError("tree-sitter", "shorter forms of code", "code") from None

    outline = syntax.outline(parsed, content, parsing)
    if outline is None:
        return truncate_oldest.rungs(content)
    inner_first = sorted(outline.bodies, key=lambda body: (body.depth, body.span), reverse=True)
    lines = _Lines(content)
    bodies = tuple(_omissions(content, lines, (body.span for body in inner_first)))
    tails = (_tail(content, *doc) for doc in reversed(outline.docs))
    docs = tuple(_outside(bodies, _omissions(content, lines, tails)))
    return (
        Rung(len(bodies), lambda kept: _without(content, bodies[: len(bodies) - kept + 1])),
        Rung(len(docs), lambda kept: _without(content, (*bodies, *docs[: len(docs) - kept + 1]))),
        first_lines(_without(content, (*bodies, *docs))),
        first_characters(content),
    )


def language_of(language: str | None, path: str | None) -> str | None:
    """Return the language for the parser, from a candidate's language or else its path; None if unknown."""
    if language is None:
        language = posixpath.splitext(path or "")[1][1:]
    return _LANGUAGES.get(lowered(language))


def _tail(content: str, start: int, end: int) -> tuple[int, int]:
    """Return the part of a doc between its head and its closing signs."""
    before_head = _BEFORE_HEAD.match(content, start, end)
    assert before_head is not None  # it also matches the empty string
    line_end = content.find("\n", before_head.end(), end)
    closing = next((closing for closing in _CLOSINGS if content.endswith(closing, start, end)), "")
    return (line_end if line_end >= 0 else end), end - len(closing)


class _Lines:
    """Counts of non-blank lines in parts of a content, in constant time for each part."""

    def __init__(self, content: str) -> None:
        self._content = content
        self._starts = line_starts(content)
        is_filled = (bool(line.strip(BLANK)) for line in content.split("\n"))
        self._filled = list(accumulate(is_filled, initial=0))

    def count(self, first: int, last: int) -> int:
        """Return the number of non-blank lines from `first` to before `last`; no blank precedes `last`."""
        line, last_line = (bisect_right(self._starts, place) - 1 for place in (first, last - 1))
        if line == last_line:
            return 1
        rest_of_line = self._content[first : self._starts[line + 1]].strip(BLANK)
        return bool(rest_of_line) + self._filled[last_line] - self._filled[line + 1] + 1


def _omissions(content: str, lines: _Lines, spans: Iterable[tuple[int, int]]) -> Iterator[_Omission]:
    """Yield an omission for each span that is longer than its marker, in the given order."""
    for first, last in spans:
        end = first + len(content[first:last].rstrip(BLANK))
        if end > first:
            start = len(content[:first].rstrip(BLANK))
            marker = f" [... {lines.count(first, end)} lines omitted]"
            if end - start > len(marker):
                yield _Omission(start, end, marker)


def _outside(bodies: Iterable[_Omission], docs: Iterable[_Omission]) -> Iterator[_Omission]:
    """Yield the docs that start outside all bodies."""
    in_order = sorted(bodies)
    starts = [body.start for body in in_order]
    ends = list(accumulate((body.end for body in in_order), max, initial=0))
    for doc in docs:
        if ends[bisect_right(starts, doc.start)] <= doc.start:
            yield doc


def _without(content: str, omissions: Iterable[_Omission]) -> str:
    """Return a content without the omitted parts; an omission inside another one has no marker."""
    pieces: list[str] = []
    position = 0
    for start, end, marker in sorted(omissions, key=lambda omission: (omission.start, -omission.end)):
        if start >= position:
            pieces += (content[position:start], marker)
            position = end
    return "".join((*pieces, content[position:]))
