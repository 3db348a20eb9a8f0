"""Strategy `drop_entries`: the oldest entries are dropped first. For histories, violations and learnings.

An entry is a paragraph, that is, lines between blank lines. The first entry is the oldest. Blanks at the
text's end are dropped from every form.

Rungs:
1. Whole entries: the last k, but never all, below `[... N earlier entries omitted]` and a blank line.
2. Lines of the last entry: the last k, but never all, below `[... N earlier lines omitted]`.
3. Code points of the last line: the last k, below `[... N earlier characters omitted]`.
"""

import re

from apportion.core.shrink.cuts import BLANK, last_characters, last_lines, line_starts, without_end
from apportion.core.shrink.ladder import Rung

_BLANK_LINES = re.compile(r"\n[ \t\r]*\n(?:[ \t\r]*\n)*")


def rungs(content: str) -> tuple[Rung, ...]:
    """Return the rungs below a content."""
    body = without_end(content)
    first = len(body) - len(body.lstrip(BLANK))
    starts = [gap.end() for gap in _BLANK_LINES.finditer(body) if first <= gap.start()]

    def last_entries(kept: int) -> str:
        dropped = len(starts) + 1 - kept
        return f"[... {dropped} earlier entries omitted]\n\n{body[starts[-kept] :]}"

    lines = line_starts(body, starts[-1] if starts else 0)[1:]
    return (Rung(len(starts), last_entries), last_lines(body, lines), last_characters(body))
