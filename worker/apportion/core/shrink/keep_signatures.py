"""Strategy `keep_signatures`: bodies of functions go, what says how to use them stays. For code.

Decides what of a piece of code is left out, and in which order. How a language is parsed is decided in
`syntax`, which is loaded when the first code is shrunk, since a parser takes a while to load.

The language is the candidate's `language`, by its name or a usual ending, whatever the case; without that,
what the path's ending means. A text is cut by `truncate_oldest` instead if its language is not known here,
if it has more than 8,192 code points, if parsing it costs more than code does (`metered` counts), if too much
of its request was repaired before it (`parsing` counts), or if it does not parse: no function and no
type in it is free of errors.

Rungs:
1. Bodies of functions that are free of errors, the innermost first, the outermost last, of equal depth the
   last in the text first. Depth counts the functions and types around. A body is what stands between the
   braces, or the block under a Python function's head and docstring. Form k keeps k - 1 bodies.
2. Docs: docstrings and comments beyond their heads, the last in the text first. Comments with no more than
   one line end between them are one. The head is the first line that holds more than blanks and signs (`/`,
   `*`, `#`, `!`, backslash, a docstring's opening quotes), with all before it. What closes a doc (three
   quotes, `*/`) stays. Form k keeps k - 1 docs whole.
3. The first k lines of what is left then, but not all; `[... N later lines omitted]` counts among those.
4. The first k code points of the text's first line, above `[... N later characters omitted]`.

What is left out begins behind the last character before it that is not blank, and ends with its own last
that is not. In its place stand a space and `[... N lines omitted]`; N counts its lines that are not blank.
What is no longer than that, in code points, stays. What lies in a body that is left out goes with it.
"""

import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

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
    """What is left out, from `start` to before `end`, and what stands in its place."""

    start: int
    end: int
    marker: str


def rungs(content: str, language: str | None, path: str | None, parsing: Parsing) -> tuple[Rung, ...]:
    """Return the rungs below a content."""
    parsed = language_of(language, path)
    if parsed is None or len(content) > PARSED_MAX_CHARACTERS or parsing.is_over:
        return truncate_oldest.rungs(content)
    from apportion.core.shrink import syntax  # noqa: PLC0415 - loads a parser, which most processes never need

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
    """Return the parsed language that a candidate's language, else its path's ending, means."""
    if language is None:
        language = posixpath.splitext(path or "")[1][1:]
    return _LANGUAGES.get(lowered(language))


def _tail(content: str, start: int, end: int) -> tuple[int, int]:
    """Return what of a doc is beyond its head and before what closes it."""
    before_head = _BEFORE_HEAD.match(content, start, end)
    assert before_head is not None  # it matches nothing, too
    line_end = content.find("\n", before_head.end(), end)
    closing = next((closing for closing in _CLOSINGS if content.endswith(closing, start, end)), "")
    return (line_end if line_end >= 0 else end), end - len(closing)


class _Lines:
    """Counts the lines of a content's parts that are not blank, each part in a step or two."""

    def __init__(self, content: str) -> None:
        self._content = content
        self._starts = line_starts(content)
        said = (bool(line.strip(BLANK)) for line in content.split("\n"))
        self._said = list(accumulate(said, initial=0))

    def count(self, first: int, last: int) -> int:
        """Return how many there are from `first` to before `last`, which stands behind no blank."""
        line, last_line = (bisect_right(self._starts, place) - 1 for place in (first, last - 1))
        if line == last_line:
            return 1
        rest_of_line = self._content[first : self._starts[line + 1]].strip(BLANK)
        return bool(rest_of_line) + self._said[last_line] - self._said[line + 1] + 1


def _omissions(content: str, lines: _Lines, spans: Iterable[tuple[int, int]]) -> Iterator[_Omission]:
    """Yield what is worth leaving out, in the order of the spans."""
    for first, last in spans:
        end = first + len(content[first:last].rstrip(BLANK))
        if end > first:
            start = len(content[:first].rstrip(BLANK))
            marker = f" [... {lines.count(first, end)} lines omitted]"
            if end - start > len(marker):
                yield _Omission(start, end, marker)


def _outside(bodies: Iterable[_Omission], docs: Iterable[_Omission]) -> Iterator[_Omission]:
    """Yield the docs that start in none of the bodies."""
    in_order = sorted(bodies)
    starts = [body.start for body in in_order]
    ends = list(accumulate((body.end for body in in_order), max, initial=0))
    for doc in docs:
        if ends[bisect_right(starts, doc.start)] <= doc.start:
            yield doc


def _without(content: str, omissions: Iterable[_Omission]) -> str:
    """Return a content without what is left out; what lies in another omission goes with it."""
    pieces: list[str] = []
    position = 0
    for start, end, marker in sorted(omissions, key=lambda one: (one.start, -one.end)):
        if start >= position:
            pieces += (content[position:start], marker)
            position = end
    return "".join((*pieces, content[position:]))
