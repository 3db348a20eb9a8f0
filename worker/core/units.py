"""What a counter adds up, so that the exact count of a text follows from those of its parts.

Decides in which units costs add up, and where a text may be cut into parts.

- An estimator adds up code points, bytes or words, and rounds their sum once; an exact counter, tokens.
- A text may be cut at a *seam*: before a space that follows what is no white space, and where a line starts
  with what is neither white space nor `/`. By the patterns of the encodings (`worker.counters.bpe`) a piece
  never reaches across a seam, and where pieces end on one side does not depend on the other.
"""

import re
from collections.abc import Callable

from msgspec import Struct

from worker.core.tokens import CounterName, TokenCounter

_LAST_SEAM = re.compile(r"(?s:.*)(?:(?<=\S)(?= )|(?<=\n)(?=[^\s/]))")
"""Python's white space is that of Unicode and a little more: the seams are safe, and a few are not seen."""


class Units(Struct, frozen=True):
    """`of` a text add up over the parts between seams; `tokens` of their sum are the exact count."""

    of: Callable[[str], int]
    tokens: Callable[[int], int]


def units_of(counter: TokenCounter) -> Units:
    """Return what a counter adds up."""
    match counter.name:
        case CounterName.CHARS4:
            return Units(len, _quarters)
        case CounterName.BYTES4:
            return Units(lambda text: len(text.encode()), _quarters)
        case CounterName.WORDS13:
            # each word adds a token and more, so that a count tells the number of words
            return Units(lambda text: counter.count(text) * 10 // 13, lambda words: (13 * words + 9) // 10)
        case _:
            return Units(counter.count, lambda tokens: tokens)


def _quarters(units: int) -> int:
    return (units + 3) // 4


def last_seam(text: str) -> int:
    """Return the place of the last seam; 0 where there is none."""
    found = _LAST_SEAM.match(text)
    return found.end() if found else 0
