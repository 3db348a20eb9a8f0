"""Forms of a layer, from its minimum to the whole: the order of cuts, and their markers."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, compress, islice

from apportion.core.events import Section, SectionedLayer
from apportion.core.text import SEPARATOR, join
from apportion.core.text.characters import lowered
from apportion.core.text.cut import cut, largest

_BULLET = "\n- "
_ROLLOVERS = tuple(10**digits for digits in range(1, 8))
"""The numbers of omissions at which a marker gets one code point longer."""


def omission(entries: int) -> str:
    """Return the last line of a layer without so many of its entries."""
    return f"[... truncated, {entries} items omitted]"


class SectionLines:
    """A section's heading, and a line for each entry that is not empty.

    `tokens` has the counts of all entries, `indexes` the entries with a line. `goes_at` has, for each line
    from the last to the first, the number of the layer's entries that are gone once this line is gone.
    """

    def __init__(self, section: Section, tokens: list[int]) -> None:
        self.entries = section.entries
        self.tokens = tokens
        self.preserve = section.preserve
        self.title = lowered(section.title)
        self.indexes: Sequence[int] = list(compress(range(len(tokens)), section.entries))
        self.goes_at: list[int] = []
        lines = list(filter(None, section.entries))
        self.heading = f"## {section.title}"
        self._text = _BULLET.join([self.heading, *lines])
        self._code_points = [len(_BULLET) + len(line) for line in lines]
        self._ends = list(accumulate(self._code_points, initial=len(self.heading)))

    def tokens_up_to(self) -> list[int]:
        """Return for each line, the last first, the tokens of all entries up to it."""
        return list(accumulate(compress(self.tokens, self.entries)))[::-1]

    def savings(self) -> list[int]:
        """Return for each line, the last first, the code points that its omission saves in the section."""
        return _less_markers(self.marker(1), self._code_points[::-1])

    def kept(self, gone: int) -> int:
        """Return the number of lines left, from the first on, when `gone` entries of the layer are gone."""
        return len(self.indexes) - bisect_right(self.goes_at, gone)

    def marker(self, omitted: int) -> str:
        """Return the line that replaces so many entries."""
        return f"\n... and {omitted} more {self.title}" if omitted else ""

    def text(self, gone: int) -> str:
        """Return the section when `gone` entries of the layer are gone."""
        kept = self.kept(gone)
        return self._text[: self._ends[kept]] + self.marker(len(self.indexes) - kept)

    def frame(self, gone: int) -> str:
        """Return the section without its entries."""
        return self.heading + self.marker(len(self.indexes) - self.kept(gone))


class Layer:
    """A layer by levels: 0 is its minimum, `top` the whole; an empty layer has level 0 only.

    Level 0 has no free text, no preamble, and as few entries as is useful. Each level above adds a code point
    of the preamble (or free text). After its last code point, each level adds an entry.
    """

    def __init__(
        self,
        name: str,
        heading: str | None,
        content: str | SectionedLayer,
        count_many: Callable[[Sequence[str]], list[int]],
    ) -> None:
        given = SectionedLayer((), content) if isinstance(content, str) else content
        entries = list(chain.from_iterable(section.entries for section in given.sections))
        counts = iter(count_many(entries))
        self._texts: dict[int, str] = {}
        self.name = name
        self.sections = [
            SectionLines(section, list(islice(counts, len(section.entries)))) for section in given.sections
        ]
        self.heading = heading
        self.preamble = given.preamble
        cuttable = [lines for lines in self.sections if not lines.preserve]
        omissions = _useful_omissions(cuttable)
        every = sum(len(lines.indexes) for lines in cuttable)
        if omissions[-1] < every:
            # omissions that save no code points may save tokens
            fewer, least = self._render("", omissions[-1]), self._render("", every)
            fewer_tokens, every_tokens = count_many([fewer, least])
            if every_tokens < fewer_tokens:
                omissions.append(every)
            else:
                least = fewer
            self._texts[0] = least
        self._entries_gone_at_most = omissions[-1]
        self.top = len(self.preamble) + omissions[-1]
        self._shorter = [self.top - gone for gone in reversed(omissions)]

    def gone(self, level: int) -> int:
        """Return the number of omitted entries at a level."""
        return min(self.top - level, self._entries_gone_at_most)

    def text(self, level: int) -> str:
        """Return the layer at a level; empty if nothing of it is shown."""
        text = self._texts.get(level)
        if text is None:
            text = self._render(cut(self.preamble, level), self.gone(level))
            if level in {0, self.top}:  # these are read several times
                self._texts[level] = text
        return text

    def frame(self, level: int) -> str:
        """Return the layer at a level without its entries."""
        gone = self.gone(level)
        return self._joined(cut(self.preamble, level), gone, [lines.frame(gone) for lines in self.sections])

    def highest(self, fits: Callable[[int], bool], lowest: int = 0) -> int:
        """Return the highest level found that fits; else `lowest`, which need not fit.

        Each test is a count, so not all levels are tried. Unless the result is the top, the next level was
        tried and does not fit. `fits` gets a level.
        """
        # 1. The whole layer.
        if lowest == self.top or fits(self.top):
            return self.top
        # 2. Bisection over the levels with fewer code points than all levels above. The levels between two of
        # them omit entries that are shorter than their markers.
        levels = [lowest, *self._shorter[bisect_right(self._shorter, lowest) :]]
        if not any(map(fits, {lowest + 1, levels[1]} - {self.top})):
            return lowest
        found = largest(len(levels) - 2, lambda number: fits(levels[number]))
        level, next_level = levels[found], levels[found + 1]
        # 3. Bisection from there to the next of these levels: in tokens, some levels between may fit. Each
        # code point of the preamble is a level. Counts may fall while a text grows, so the preamble then
        # grows while it fits.
        if level < len(self.preamble):
            level = max(level, largest(len(self.preamble), fits))
            while fits(level + 1):
                level += 1
            return level
        return level + largest(next_level - level - 1, lambda more: fits(level + more))

    def _render(self, preamble: str, gone: int) -> str:
        return self._joined(preamble, gone, [lines.text(gone) for lines in self.sections])

    def _joined(self, preamble: str, gone: int, sections: Sequence[str]) -> str:
        pieces = [preamble, *sections] if preamble else sections
        if not pieces:
            return ""
        head = [] if self.heading is None else [self.heading]
        tail = [omission(gone)] if gone else []
        return join([*head, *pieces, *tail])


def _useful_omissions(sections: Sequence[SectionLines]) -> list[int]:
    """Set `goes_at` of the sections; return the useful numbers of omitted entries, ascending.

    A number is useful if it makes the layer shorter in code points than any smaller number does. 0 is the
    first.

    Each time, the section with the most tokens of entries left loses its last entry (ties: the earlier
    section). So entries are omitted by the tokens of their section's entries up to them, descending.
    """
    up_to: list[int] = []
    savings: list[int] = []
    for lines in sections:
        up_to += lines.tokens_up_to()
        savings += lines.savings()
    order = sorted(range(len(up_to)), key=up_to.__getitem__, reverse=True)
    saved = accumulate(_less_markers(SEPARATOR + omission(1), [savings[index] for index in order]))
    goes_at = [0] * len(order)
    useful, most = [0], 0
    for gone, (index, code_points) in enumerate(zip(order, saved, strict=True), 1):
        goes_at[index] = gone
        if code_points > most:
            most = code_points
            useful.append(gone)
    each = iter(goes_at)
    for lines in sections:
        lines.goes_at = list(islice(each, len(lines.indexes)))
    return useful


def _less_markers(marker: str, savings: list[int]) -> list[int]:
    """Subtract a marker from the savings, in place; it comes with the first omission, and may grow later."""
    if savings:
        savings[0] -= len(marker)
    for omissions in _ROLLOVERS:
        if omissions > len(savings):
            break
        savings[omissions - 1] -= 1
    return savings
