"""Strategy `truncate_oldest`: what stands first goes first. For diffs, edits and matches.

Decides the rungs of a text whose end matters most. Blanks at its end are dropped from every form.

A text is a unified diff if it has a hunk header, a line `@@ -NUMBER…`. A hunk reaches from its header to the
next hunk. Where the line pair `--- …`, `+++ …` stands directly above a hunk header, the hunk starts with that
pair, its file header, which holds for the hunks after it, up to the next pair.

Rungs of a diff:
1. Whole hunks: the last k, of those with text before them. The file header of the first one that stands is
   kept above the marker.
2. Lines of the last hunk: the last k after its first, with file header and hunk header above the marker.
3. Code points of the last line, as below.

Rungs of any other text: whole lines, the last k but never all; then the last k code points of the last line.

Markers: `[... N earlier lines omitted]` where the lines stood, `[... N earlier characters omitted]` above a
line that lost its start, or that stands alone without its diff's headers.
"""

import re

from apportion.core.shrink.cuts import last_characters, last_lines, line_starts, without_end
from apportion.core.shrink.ladder import Rung

_HUNK = re.compile(r"^(--- [^\n]*\n\+\+\+ [^\n]*\n)?(@@+ -[0-9][^\n]*\n)", re.MULTILINE)


def rungs(content: str) -> tuple[Rung, ...]:
    """Return the rungs below a content."""
    body = without_end(content)
    hunks = list(_HUNK.finditer(body))
    if not hunks:
        return (last_lines(body, line_starts(body)[1:]), last_characters(body))
    return (_last_hunks(body, hunks), _lines_of_last_hunk(body, hunks), last_characters(body))


def _last_hunks(body: str, hunks: list[re.Match[str]]) -> Rung:
    cuttable = hunks if hunks[0].start() else hunks[1:]

    def render(kept: int) -> str:
        hunk = cuttable[-kept]
        frame = "" if hunk[1] else _file_header(hunks, hunk)
        return last_lines(body, [hunk.start()], frame).render(1)

    return Rung(len(cuttable), render)


def _lines_of_last_hunk(body: str, hunks: list[re.Match[str]]) -> Rung:
    last = hunks[-1]
    return last_lines(body, line_starts(body, last.end())[1:], _file_header(hunks, last) + last[2])


def _file_header(hunks: list[re.Match[str]], hunk: re.Match[str]) -> str:
    """Return the nearest file header at or before a hunk."""
    before = (other[1] for other in reversed(hunks) if other.start() <= hunk.start() and other[1])
    return next(before, "")
