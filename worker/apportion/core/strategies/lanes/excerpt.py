"""Excerpts: the chosen passages of a candidate, with a marker for each omitted range.

The marker is the line `[... M lines omitted]`, also at the beginning and at the end. Lines are joined by LF,
without an LF at the end. An excerpt is made smaller by omitting its worst passages.
"""

from collections.abc import Sequence

from apportion.core.query.passages import Passages
from apportion.core.results import Excerpt
from apportion.core.shrink.ladder import Rung


class ExcerptForms:
    """The forms of an excerpt: form k shows the best k chosen passages, in the order of the content."""

    def __init__(self, content: str, passages: Passages, chosen: Sequence[int]) -> None:
        """`chosen` are the indices of passages, the best first."""
        self._content = content
        self._passages = passages
        self._lines = passages.lines(content)
        self._chosen = chosen
        self._kept: dict[str, int] = {}
        self.text = self._render(len(chosen))

    @property
    def rung(self) -> Rung:
        """The forms that are smaller than the whole excerpt."""
        return Rung(len(self._chosen) - 1, self._render)

    def shown(self, text: str) -> Excerpt:
        """Return the line ranges of a rendered form; lines count from 1, and both ends are shown."""
        lines = self._lines
        ranges = [(lines[first] + 1, lines[end]) for first, end in self._ranges(self._kept[text])]
        return Excerpt(len(self._passages), tuple(ranges))

    def _ranges(self, kept: int) -> list[tuple[int, int]]:
        """Return the best `kept` passages as ranges, each from its first passage to before its end."""
        ranges: list[tuple[int, int]] = []
        for passage in sorted(self._chosen[:kept]):
            if ranges and ranges[-1][1] == passage:
                ranges[-1] = ranges[-1][0], passage + 1
            else:
                ranges.append((passage, passage + 1))
        return ranges

    def _render(self, kept: int) -> str:
        offsets, lines = self._passages.offsets, self._lines
        shown: list[str] = []
        line = 0
        for first, end in self._ranges(kept):
            if lines[first] > line:
                shown.append(_marker(lines[first] - line))
            shown.append(self._content[offsets[first] : offsets[end]].removesuffix("\n"))
            line = lines[end]
        if lines[-1] > line:
            shown.append(_marker(lines[-1] - line))
        text = "\n".join(shown)
        self._kept[text] = kept
        return text


def _marker(omitted: int) -> str:
    return "[... 1 line omitted]" if omitted == 1 else f"[... {omitted} lines omitted]"
