"""Strategy `truncate_oldest`: the beginning of a text is dropped first. For diffs, edits and matches.

Blanks at the text's end are dropped from every form.

A text is a unified diff if it has a hunk header, a line `@@ -NUMBER…`. A hunk reaches from its header to the
next hunk. The pair of lines `--- …`, `+++ …` directly above a hunk header is a file header. It belongs to
that hunk, and it also holds for the hunks after it, up to the next file header.

Rungs of a diff:
1. Whole hunks: the last k, but only hunks with text before them. The file header of the first kept hunk stays
   above the marker.
2. Lines of the last hunk: the last k after its first, with file header and hunk header above the marker.
3. Code points of the last line, as below.

Rungs of any other text: whole lines, the last k but never all; then the last k code points of the last line.

Markers: `[... N earlier lines omitted]` in place of the lines; `[... N earlier characters omitted]` above a
line that lost its start, or that is kept without the headers of its diff.
"""

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

from apportion.core.shrink.cuts import below_marker, last_characters, last_lines, line_starts, without_end
from apportion.core.shrink.ladder import Rung

_HUNK = re.compile(r"^(--- [^\n]*\n\+\+\+ [^\n]*\n)?(@@+ -[0-9][^\n]*\n)", re.MULTILINE)


def rungs(content: str) -> tuple[Rung, ...]:
    """Return the rungs below a content."""
    body = without_end(content)
    hunks = list(_HUNK.finditer(body))
    if not hunks:
        return (last_lines(body, line_starts(body)[1:]), last_characters(body))
    header = ""
    headers = [header := hunk[1] or header for hunk in hunks]
    last = hunks[-1]
    lines_of_last = line_starts(body, last.end())[1:]
    return (
        _last_hunks(body, hunks, headers),
        last_lines(body, lines_of_last, headers[-1] + last[2]),
        last_characters(body),
    )


def _last_hunks(body: str, hunks: Sequence[re.Match[str]], headers: Sequence[str]) -> Rung:
    """Return the forms of whole hunks; `headers` has the nearest file header at or before each hunk."""
    starts = [hunk.start() for hunk in hunks]
    above = list(accumulate(body.count("\n", start, end) for start, end in pairwise([0, *starts])))

    def render(kept: int) -> str:
        frame = "" if hunks[-kept][1] else headers[-kept]
        return below_marker(body, starts[-kept], above[-kept] - frame.count("\n"), frame)

    return Rung(len(hunks) if starts[0] else len(hunks) - 1, render)
