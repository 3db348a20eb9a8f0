"""Token boundaries: places where a text can be split so that the counts of its parts add up.

Such a place is called a *seam*. There are three kinds:
- before a space that follows a character other than white space;
- at the start of a line that begins with neither white space nor `/`;
- at the start of a line that begins with `/`, if the previous line ends with an ASCII letter or digit.

A piece of the encodings' patterns (`apportion.counters.bpe`) never reaches across a seam, and the pieces on
one side do not depend on the other side. The last kind needs the letter or digit because punctuation takes
line ends and a `/` after them along. Counts by seams are exact.
"""

import re

from apportion.core.text.characters import SPACE_OR_SEPARATOR

REACH = 512
"""The number of code points beside a joint in which its seam is searched.

Without a seam, as in an endless word, the joint of two texts is counted on that many code points of each.
That is exact as well, unless a single piece of an encoding's pattern is longer.
"""

_SPACE = SPACE_OR_SEPARATOR
"""A superset of Unicode's white space, so the seams are safe and a few are missed."""
_LAST_SEAM = re.compile(
    rf"(?s:.*)(?:(?<=[^{_SPACE}])(?= )|(?<=\n)(?=[^{_SPACE}/])|[0-9A-Za-z][\r\n]*\n(?=/))"
)
_FIRST_SEAM = re.compile(rf"(?<=[^{_SPACE}])(?= )|(?<=\n)(?=[^{_SPACE}/])")
_APART = re.compile(f"[^{_SPACE}/]")
_WORD_END = re.compile(r"[0-9A-Za-z]\Z")


def last_seam(text: str) -> int:
    """Return the place of the last seam; 0 if there is none."""
    seam = _LAST_SEAM.match(text)
    return seam.end() if seam else 0


def first_seam(text: str, start: int, end: int) -> int:
    """Return the place of the first seam that lies between `start` and `end`; 0 if there is none."""
    seam = _FIRST_SEAM.search(text, start, end)
    return seam.start() if seam else 0


def stands_apart(before: str, line: str) -> bool:
    """Return whether a seam is at the start of `line`, if a line end or a blank line follows `before`."""
    if line.startswith("/"):
        return _WORD_END.search(before, max(0, len(before) - 1)) is not None
    return _APART.match(line) is not None


def end_of(text: str) -> str:
    """Return the end of a text from its last seam on: the part whose count depends on the text after it."""
    near = text[-REACH:]
    return near[last_seam(near) :]


def beginning_of(text: str) -> str:
    """Return the beginning of a text up to its first seam, whose count depends on the text before it."""
    near = text[:REACH]
    seam = _FIRST_SEAM.search(near)
    return near[: seam.start()] if seam else near
