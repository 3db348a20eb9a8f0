"""Where a text may be cut so that what a counter adds up is that of its parts.

A text may be cut at a *seam*: before a space that follows what is no white space; where a line starts with
what is neither white space nor `/`; and where one starts with `/`, and an ASCII letter or digit stands before
its line ends. By the patterns of the encodings (`apportion.counters.bpe`) a piece never reaches across a
seam, and where pieces end on one side does not depend on the other: only punctuation takes the line ends and
the `/` after it along.

Decides nothing else: what is reckoned by seams is what counting the whole would give.
"""

import re

from apportion.core.text.characters import SPACE_OR_SEPARATOR

REACH = 512
"""In how many code points beside a joint its seam is sought.

Where there is none, as in one endless word, what two texts add to each other is reckoned on that many code
points of each. That is exact, too, unless a single piece of an encoding's pattern is longer.
"""

_SPACE = SPACE_OR_SEPARATOR
"""A little more than Unicode's white space: the seams are safe, and a few are not seen."""
_LAST_SEAM = re.compile(
    rf"(?s:.*)(?:(?<=[^{_SPACE}])(?= )|(?<=\n)(?=[^{_SPACE}/])|[0-9A-Za-z][\r\n]*\n(?=/))"
)
_FIRST_SEAM = re.compile(rf"(?<=[^{_SPACE}])(?= )|(?<=\n)(?=[^{_SPACE}/])")
_APART = re.compile(f"[^{_SPACE}/]")
_WORD_END = re.compile(r"[0-9A-Za-z]\Z")


def last_seam(text: str) -> int:
    """Return the place of the last seam; 0 where there is none."""
    found = _LAST_SEAM.match(text)
    return found.end() if found else 0


def first_seam(text: str, start: int, end: int) -> int:
    """Return the place of the first seam from `start` on, of which all is seen before `end`; 0 for none."""
    found = _FIRST_SEAM.search(text, start, end)
    return found.start() if found else 0


def stands_apart(before: str, line: str) -> bool:
    """Tell whether there is a seam where that line starts, a blank line or a line end after `before`."""
    if line.startswith("/"):
        return _WORD_END.search(before, max(0, len(before) - 1)) is not None
    return _APART.match(line) is not None


def end_of(text: str) -> str:
    """Return what of a text, from its last seam on, may count otherwise with what follows."""
    near = text[-REACH:]
    return near[last_seam(near) :]


def beginning_of(text: str) -> str:
    """Return what of a text, up to its first seam, may count otherwise with what stands before."""
    near = text[:REACH]
    found = _FIRST_SEAM.search(near)
    return near[: found.start()] if found else near
