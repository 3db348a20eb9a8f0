"""Excerpts: the chosen passages of a candidate, with a marker for each omitted range.

The marker is the line `[... M lines omitted]`, also at the beginning and at the end. If a line is cut, it is
`[... M characters omitted]`. The header of a table is always shown. Lines are joined by LF,
without an LF at the end. An excerpt is made smaller by omitting its worst passages.
"""

from collections.abc import Sequence

from msgspec import Struct

from apportion.core.query.passages import Passages
from apportion.core.results import Excerpt
from apportion.core.shrink.ladder import Rung


class ExcerptForms:
    """The forms of an excerpt: form k shows the best k chosen passages, in the order of the content."""

    def __init__(
        self, content: str, passages: Passages, chosen: Sequence[int], lines: Sequence[int] | None = None
    ) -> None:
        """`chosen` are the indices of passages, the best first. `lines` are `passages.lines`, if known."""
        self._content = content
        self._passages = passages
        self._lines = passages.lines(content) if lines is None else lines
        self._chosen = chosen
        self._kept: dict[str, int] = {}
        self.text = self._render(len(chosen))

    @property
    def rung(self) -> Rung:
        """The forms that are smaller than the whole excerpt."""
        return Rung(len(self._chosen) - 1, self._render)

    def shown(self, text: str) -> Excerpt:
        """Return the ranges of lines that a form shows, also in part; lines count from 1, ends included."""
        ranges: list[tuple[int, int]] = []
        for start, end in self._ranges(self._kept[text]):
            first, last = start.line + 1, end.line + (not end.is_line_start)
            if ranges and first <= ranges[-1][1] + 1:
                first = ranges.pop()[0]
            ranges.append((first, last))
        return Excerpt(len(self._passages), tuple(ranges))

    def _cut(self, passage: int) -> "_Boundary":
        """Return the beginning of a passage, or the end of the content."""
        offset = self._passages.offsets[passage]
        is_last = passage == len(self._passages)
        is_line_start = is_last or not offset or self._content[offset - 1] == "\n"
        return _Boundary(offset, self._lines[passage], is_line_start)

    def _ranges(self, kept: int) -> list[tuple["_Boundary", "_Boundary"]]:
        """Return the ranges of a table's header and of the best `kept` passages."""
        ranges: list[tuple[int, int]] = []
        for passage in sorted(self._chosen[:kept]):
            if ranges and ranges[-1][1] == passage:
                ranges[-1] = ranges[-1][0], passage + 1
            else:
                ranges.append((passage, passage + 1))
        cuts = [(self._cut(first), self._cut(end)) for first, end in ranges]
        header = self._passages.header
        if header and ranges[0][0]:
            lines = self._content.count("\n", 0, header)
            cuts.insert(
                0, (_Boundary(0, 0, is_line_start=True), _Boundary(header, lines, is_line_start=True))
            )
        return cuts

    def _render(self, kept: int) -> str:
        shown: list[str] = []
        before = self._cut(0)
        for start, end in self._ranges(kept):
            shown += _markers(before, start)
            shown.append(self._content[start.offset : end.offset].removesuffix("\n"))
            before = end
        text = "\n".join([*shown, *_markers(before, self._cut(len(self._passages)))])
        self._kept[text] = kept
        return text


class _Boundary(Struct, frozen=True):
    """A place in the content: its offset, the line ends before it, and whether a line begins there."""

    offset: int
    line: int
    is_line_start: bool


def _markers(start: _Boundary, end: _Boundary) -> list[str]:
    """Return the marker of an omitted range, which is none if the range is empty."""
    omitted, noun = end.line - start.line, "line"
    if not (start.is_line_start and end.is_line_start):
        omitted, noun = end.offset - start.offset, "character"
    return [f"[... {omitted} {noun}{'s' * (omitted > 1)} omitted]"] if omitted else []
