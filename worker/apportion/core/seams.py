"""Where a text may be cut so that what a counter adds up is that of its parts.

A text may be cut at a *seam*: before a space that follows what is no white space, and where a line starts
with what is neither white space nor `/`. By the patterns of the encodings (`apportion.counters.bpe`) a piece
never reaches across a seam, and where pieces end on one side does not depend on the other.
"""

import re

_LAST_SEAM = re.compile(r"(?s:.*)(?:(?<=\S)(?= )|(?<=\n)(?=[^\s/]))")
"""Python's white space is that of Unicode and a little more: the seams are safe, and a few are not seen."""


def last_seam(text: str) -> int:
    """Return the place of the last seam; 0 where there is none."""
    found = _LAST_SEAM.match(text)
    return found.end() if found else 0
