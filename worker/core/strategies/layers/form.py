"""A layer's forms: all that can stand of it, from its least to the whole.

Decides in which order a layer is cut, and what says so. Never counts a text and never knows a limit.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, islice

from worker.core.cut import cut, largest
from worker.core.events import Section, SectionedLayer
from worker.core.render import SEPARATOR, join

_ROLLOVERS = frozenset(10**digits for digits in range(1, 8))
"""Where a number in a marker gets one code point longer."""


def _omission(entries: int) -> str:
    return f"[... truncated, {entries} items omitted]"


class Lines:
    """A section's heading and its entries, a line each; entries without content are not among them.

    `tokens` are the counts of all entries, `places` the indexes of those that have a line, and
    `line_code_points` the lengths of these, line breaks included. `goes_at` holds, for lines from the last
    to the first, how many of the layer's are gone once that one is.
    """

    __slots__ = (
        "_ends",
        "_heading",
        "_text",
        "entries",
        "goes_at",
        "line_code_points",
        "places",
        "preserve",
        "title",
        "tokens",
    )

    def __init__(self, section: Section, tokens: list[int]) -> None:
        """Lay the lines out once, so that every form is one slice."""
        self.entries = section.entries
        self.tokens = tokens
        self.preserve = section.preserve
        self.title = section.title.lower()
        self.places = [place for place, entry in enumerate(section.entries) if entry]
        self.goes_at: list[int] = []
        lines = [f"- {entry}" for entry in section.entries if entry]
        self._heading = f"## {section.title}"
        self._text = "\n".join([self._heading, *lines])
        self.line_code_points = [len(line) + 1 for line in lines]
        self._ends = list(accumulate(self.line_code_points, initial=len(self._heading)))

    def kept(self, gone: int) -> int:
        """Return how many entries stand when that many of the layer's are gone: the first ones."""
        return len(self.places) - bisect_right(self.goes_at, gone)

    def marker(self, omitted: int) -> str:
        """Return what stands for that many entries."""
        return f"\n... and {omitted} more {self.title}" if omitted else ""

    def text(self, gone: int) -> str:
        """Return the section when that many of the layer's entries are gone."""
        kept = self.kept(gone)
        return self._text[: self._ends[kept]] + self.marker(len(self.places) - kept)

    def frame(self, gone: int) -> str:
        """Return that without the entries."""
        return self._heading + self.marker(len(self.places) - self.kept(gone))


class Layer:
    """A layer by levels: 0 is the least of it that can stand, `top` the whole; without content, both are.

    At level 0 free text is left out; sections have lost the entries that can go, and their preamble. Then
    the preamble (or free text) comes back, a code point a level, then the entries, one a level.
    """

    __slots__ = ("_entries_gone_at_most", "_heading", "_preamble", "_shorter", "name", "sections", "top")

    def __init__(
        self,
        name: str,
        heading: str | None,
        content: str | SectionedLayer,
        count_many: Callable[[Sequence[str]], list[int]],
    ) -> None:
        """Work out in which order entries go, by their tokens."""
        given = SectionedLayer((), content) if isinstance(content, str) else content
        counts = iter(count_many([entry for section in given.sections for entry in section.entries]))
        self.name = name
        self.sections = [
            Lines(section, list(islice(counts, len(section.entries)))) for section in given.sections
        ]
        self._heading = heading
        self._preamble = given.preamble
        omissions = _useful_omissions([lines for lines in self.sections if not lines.preserve])
        self._entries_gone_at_most = omissions[-1]
        self.top = len(self._preamble) + omissions[-1]
        self._shorter = [self.top - gone for gone in reversed(omissions)]

    def gone(self, level: int) -> int:
        """Return how many entries are gone at a level."""
        return min(self.top - level, self._entries_gone_at_most)

    def text(self, level: int) -> str:
        """Return the layer at a level; empty where nothing of it stands."""
        return self._joined(level, [lines.text(self.gone(level)) for lines in self.sections])

    def frame(self, level: int) -> str:
        """Return that without its entries."""
        return self._joined(level, [lines.frame(self.gone(level)) for lines in self.sections])

    def highest(self, fits: Callable[[int], bool], lowest: int = 0) -> int:
        """Return the highest level that fits, and no lower one than that; `lowest` needs not fit.

        Entries go one at a time until it fits, but an omission that makes the layer no shorter, in code
        points, is not tried by itself: the marker can be longer than the entry.
        """
        if lowest == self.top or fits(self.top):
            return self.top
        between = self._shorter[bisect_right(self._shorter, lowest) : -1]
        if not any(map(fits, (lowest + 1, *between[:1]))):
            return lowest
        level = lowest
        if found := largest(len(between), lambda number: fits(between[number - 1])):
            level = between[found - 1]
        elif lowest < len(self._preamble):
            level = max(lowest, largest(len(self._preamble), fits))
        while fits(level + 1):
            level += 1
        return level

    def _joined(self, level: int, sections: Iterable[str]) -> str:
        preamble = cut(self._preamble, level)
        pieces = [preamble, *sections] if preamble else [*sections]
        if not pieces:
            return ""
        gone = self.gone(level)
        head = [] if self._heading is None else [self._heading]
        tail = [_omission(gone)] if gone else []
        return join([*head, *pieces, *tail])


def _useful_omissions(sections: Iterable[Lines]) -> list[int]:
    """Set when each entry goes; return after how many of them the layer is shorter than ever before.

    An entry goes from the section that has most tokens of entries left (ties: the earlier), from its end:
    so entries go in the order of what their section has up to and with them, most first.
    """
    up_to: list[int] = []
    owners: list[Lines] = []
    code_points: list[int] = []
    for lines in sections:
        up_to += reversed(list(accumulate([lines.tokens[place] for place in lines.places])))
        owners += [lines] * len(lines.places)
        code_points += reversed(lines.line_code_points)
    useful = [0]
    length = shortest = 0
    for gone, place in enumerate(sorted(range(len(up_to)), key=up_to.__getitem__, reverse=True), 1):
        lines = owners[place]
        lines.goes_at.append(gone)
        omitted = len(lines.goes_at)
        length -= code_points[place]
        length += len(lines.marker(1)) if omitted == 1 else omitted in _ROLLOVERS
        length += len(SEPARATOR + _omission(1)) if gone == 1 else gone in _ROLLOVERS
        if length < shortest:
            shortest = length
            useful.append(gone)
    return useful
