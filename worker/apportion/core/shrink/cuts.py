"""Cuts: forms that keep only the end of a text, or only its beginning, in whole lines or in code points.

The marker of a cut is on a line of its own: `[... N earlier lines omitted]` above the kept text, or
`[... N later lines omitted]` below it. For cuts in code points, it says `characters` instead of `lines`.
N does not count dropped blanks. No cut is inside a code point, or between CR and LF.

A line ends after LF, and only there. Blanks are space, tab, CR and LF. Blanks at the text's end are dropped
before it is cut. If the beginning is kept, blanks at the beginning are dropped as well, so that a form always
has some of the text itself. A text that has only blanks is cut as it is.
"""

from collections.abc import Sequence
from itertools import accumulate

from apportion.core.shrink.ladder import Rung

BLANK = " \t\r\n"
_LINE_END = "\r\n"


def without_end(text: str) -> str:
    """Return a text without the blanks at its end, or unchanged if it is all blanks."""
    return text.rstrip(BLANK) or text


def line_starts(text: str, start: int = 0) -> list[int]:
    """Return the start of each line, beginning with the line that starts at `start`."""
    lengths = (len(line) + 1 for line in text[start:].split("\n"))
    starts = list(accumulate(lengths, initial=start))
    del starts[-1]
    if len(starts) > 1 and starts[-1] == len(text):
        del starts[-1]
    return starts


def below_marker(body: str, start: int, omitted: int, frame: str = "") -> str:
    """Return the frame, the marker for the omitted lines, and the body from `start` on."""
    return f"{frame}[... {omitted} earlier lines omitted]\n{body[start:]}"


def last_lines(body: str, starts: Sequence[int], frame: str = "") -> Rung:
    """Return the forms that keep the end of a body from a line in `starts` on, below lines in the frame."""
    above = body.count("\n", 0, starts[0]) - frame.count("\n") if starts else 0

    def render(kept: int) -> str:
        return below_marker(body, starts[-kept], above + len(starts) - kept, frame)

    return Rung(len(starts), render)


def last_characters(body: str) -> Rung:
    """Return the forms that keep only the end of a body's last line."""
    line = body.rfind("\n", 0, len(body) - 1) + 1
    end = line + len(body[line:].rstrip(_LINE_END))

    def render(kept: int) -> str:
        start = end - kept
        return f"[... {start} earlier characters omitted]\n{body[start:]}"

    return Rung(max(0, end - max(line, 1)), render)


def first_lines(text: str) -> Rung:
    """Return the forms that keep the first lines of a text, but not all."""
    body = _without_ends(text)
    starts = line_starts(body)

    def render(kept: int) -> str:
        return f"{body[: starts[kept]]}[... {len(starts) - kept} later lines omitted]"

    return Rung(len(starts) - 1, render)


def first_characters(text: str) -> Rung:
    """Return the forms that keep only the beginning of a text's first line."""
    body = _without_ends(text)
    first = body.partition("\n")[0].rstrip(_LINE_END)

    def render(kept: int) -> str:
        return f"{body[:kept]}\n[... {len(body) - kept} later characters omitted]"

    return Rung(min(len(first), len(body) - 1), render)


def _without_ends(text: str) -> str:
    return text.strip(BLANK) or text
