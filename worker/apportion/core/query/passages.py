"""Passages of a content: where a large content is cut, by its blank lines and its indentation.

A line ends after LF, and only there. A start is a non-blank line behind a blank line; its level is its
indentation, with a tab as four. A range of more than `most` characters is cut at its starts of the least
level, and each piece again. A range without a start inside is cut from the top into as many whole lines as
fit, at least one. Each line counts one more than its characters.
"""

import re
from collections.abc import Sequence
from itertools import chain, pairwise

from msgspec import Struct

_FIRST_START = re.compile(r"(?:[ \t\r]*\n)+([ \t]*)")
"""Blank lines and the indentation of the line behind them."""
_START = re.compile(r"\n" + _FIRST_START.pattern)
_BLANKS = " \t\r"
_TAB_LEVELS = 4


class Passages(Struct, frozen=True, gc=False):
    """The places at which a content is cut, its beginning and its end included.

    Passage i is between places i and i + 1: in characters in `offsets`, in lines in `lines`.
    """

    offsets: tuple[int, ...]
    lines: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def contents(self, content: str) -> list[str]:
        """Return the passages of the content that they were made from, each without the LF at its end."""
        return [content[start:end].removesuffix("\n") for start, end in pairwise(self.offsets)]


def passages_of(content: str, most: int) -> Passages:
    """Return the passages of a content of at least one character; with `most` 0 it is one, whole."""
    whole = (0, len(content))
    offsets = whole if not most or len(content) < most else (*_cut(content, most), len(content))
    lines, line = [0], 0
    for start, end in pairwise(offsets):
        line += content.count("\n", start, end)
        lines.append(line)
    if not content.endswith("\n"):
        lines[-1] += 1
    return Passages(tuple(offsets), tuple(lines))


def _cut(content: str, most: int) -> list[int]:
    """Return the offset of each passage, ascending."""
    starts = _starts(content)
    end_of_all = len(content) + (not content.endswith("\n"))
    cuts: list[int] = []
    # ranges from the last to the first: beginning, end, and the starts inside
    waiting: list[tuple[int, int, Sequence[tuple[int, int]]]] = [(0, end_of_all, starts)]
    while waiting:
        begin, end, inside = waiting.pop()
        if end - begin <= most:
            cuts.append(begin)
        elif not inside:
            cuts += _by_lines(content, begin, end, most)
        else:
            waiting += reversed(_at_least_level(begin, end, inside))
    return cuts


def _at_least_level(
    begin: int, end: int, inside: Sequence[tuple[int, int]]
) -> list[tuple[int, int, Sequence[tuple[int, int]]]]:
    """Return the pieces of a range that is cut at its starts of the least level."""
    least = min([level for _, level in inside])
    places = [place for place, (_, level) in enumerate(inside) if level == least]
    bounds = [-1, *places, len(inside)]
    pieces = []
    for before, after in pairwise(bounds):
        first = begin if before < 0 else inside[before][0]
        last = end if after == len(inside) else inside[after][0]
        pieces.append((first, last, inside[before + 1 : after]))
    return pieces


def _starts(content: str) -> list[tuple[int, int]]:
    """Return the offset and the level of each start."""
    starts = []
    first = _FIRST_START.match(content)
    # another start is behind the LF of a line that is not blank
    for match in chain([first] if first else (), _START.finditer(content, first.end() if first else 0)):
        indent = match[1]
        starts.append((match.start(1), len(indent) + (_TAB_LEVELS - 1) * indent.count("\t")))
    if starts and not content[starts[-1][0] :].strip(_BLANKS):
        del starts[-1]
    return starts


def _by_lines(content: str, begin: int, end: int, most: int) -> list[int]:
    """Return where a range is cut into whole lines, its beginning included."""
    cuts = [begin]
    while end - begin > most:
        last = content.rfind("\n", begin, begin + most)
        if last < 0:
            last = content.find("\n", begin, end)
        if last < 0 or last + 1 == end:
            break
        begin = last + 1
        cuts.append(begin)
    return cuts
