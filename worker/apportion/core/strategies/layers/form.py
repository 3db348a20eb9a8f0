"""A layer's forms: all that can stand of it, from its least to the whole.

Decides in which order a layer is cut, and what says so. Never knows a limit.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, compress, islice

from apportion.core.events import Section, SectionedLayer
from apportion.core.text.characters import lowered
from apportion.core.text.cut import cut, largest
from apportion.core.text.render import SEPARATOR, join

_BULLET = "\n- "
_ROLLOVERS = tuple(10**digits for digits in range(1, 8))
"""Where a number in a marker gets one code point longer."""


def omission(entries: int) -> str:
    """Return what a layer ends in that lost so many entries."""
    return f"[... truncated, {entries} items omitted]"


class SectionLines:
    """A section's heading and its entries, a line each; entries without content are not among them.

    `tokens` are the counts of all entries, `places` the indexes of those that have a line. `goes_at` holds,
    for lines from the last to the first, how many of the layer's are gone once that one is.
    """

    def __init__(self, section: Section, tokens: list[int]) -> None:
        self.entries = section.entries
        self.tokens = tokens
        self.preserve = section.preserve
        self.title = lowered(section.title)
        entries, every = section.entries, range(len(tokens))
        said = all(entries)  # as nearly always
        self.places: Sequence[int] = every if said else list(compress(every, entries))
        self.goes_at: list[int] = []
        lines = entries if said else list(filter(None, entries))
        self.heading = f"## {section.title}"
        self._text = _BULLET.join([self.heading, *lines])
        self._code_points = [len(_BULLET) + len(line) for line in lines]
        self._ends = list(accumulate(self._code_points, initial=len(self.heading)))

    def tokens_up_to(self) -> list[int]:
        """Return for each line, the last first, the tokens of the entries up to and with it."""
        return list(accumulate(compress(self.tokens, self.entries)))[::-1]

    def savings(self) -> list[int]:
        """Return for each line, the last first, by how many code points its omission shortens the section."""
        return _beside(self.marker(1), self._code_points[::-1])

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
        return self.heading + self.marker(len(self.places) - self.kept(gone))


class Layer:
    """A layer by levels: 0 is the least of it that can stand, `top` the whole; without content, both are.

    At level 0 free text is left out; sections have lost the entries that can go, and their preamble. Then
    the preamble (or free text) comes back, a code point a level, then the entries, one a level.
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
        every = sum(len(lines.places) for lines in cuttable)
        if omissions[-1] < every:
            # the omissions that code points do not pay for may pay in tokens
            fewer, least = self._standing("", omissions[-1]), self._standing("", every)
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
        """Return how many entries are gone at a level."""
        return min(self.top - level, self._entries_gone_at_most)

    def text(self, level: int) -> str:
        """Return the layer at a level; empty where nothing of it stands."""
        text = self._texts.get(level)
        if text is None:
            text = self._standing(cut(self.preamble, level), self.gone(level))
            if level in {0, self.top}:  # which are asked for again
                self._texts[level] = text
        return text

    def frame(self, level: int) -> str:
        """Return that without its entries."""
        gone = self.gone(level)
        return self._joined(cut(self.preamble, level), gone, [lines.frame(gone) for lines in self.sections])

    def highest(self, fits: Callable[[int], bool], lowest: int = 0) -> int:
        """Return the highest level that fits; where none above it is found, `lowest`, which need not fit.

        Telling whether a level fits takes a count, so not all are tried. First comes the top. Then bisection
        goes over those levels at which the layer is shorter, in code points, than at all above them: between
        two of these entries are gone whose markers are longer than they were. At last the layer grows from
        the level found towards the next of these, for in tokens some of the levels between may fit after all;
        bisection finds how many.

        Where part of the preamble is gone, each of its code points is a level, and that last bisection goes
        over them. Token counts may fall while a text grows, so from there it grows on as long as it fits.

        Unless it is the top, the level above the one returned was tried, and does not fit.
        """
        if lowest == self.top or fits(self.top):
            return self.top
        levels = [lowest, *self._shorter[bisect_right(self._shorter, lowest) :]]
        if not any(map(fits, {lowest + 1, levels[1]} - {self.top})):
            return lowest
        found = largest(len(levels) - 2, lambda number: fits(levels[number]))
        level, next_level = levels[found], levels[found + 1]
        if level < len(self.preamble):
            level = max(level, largest(len(self.preamble), fits))
            while fits(level + 1):
                level += 1
            return level
        return level + largest(next_level - level - 1, lambda more: fits(level + more))

    def _standing(self, preamble: str, gone: int) -> str:
        return self._joined(preamble, gone, [lines.text(gone) for lines in self.sections])

    def _joined(self, preamble: str, gone: int, sections: Sequence[str]) -> str:
        pieces = [preamble, *sections] if preamble else sections
        if not pieces:
            return ""
        head = [] if self.heading is None else [self.heading]
        tail = [omission(gone)] if gone else []
        return join([*head, *pieces, *tail])


def _useful_omissions(sections: Sequence[SectionLines]) -> list[int]:
    """Set when each entry goes; return after how many of them the layer is shorter than ever before.

    An entry goes from the section that has most tokens of entries left (ties: the earlier), from its end:
    so entries go in the order of what their section has up to and with them, most first.
    """
    up_to: list[int] = []
    savings: list[int] = []
    for lines in sections:
        up_to += lines.tokens_up_to()
        savings += lines.savings()
    order = sorted(range(len(up_to)), key=up_to.__getitem__, reverse=True)
    saved = accumulate(_beside(SEPARATOR + omission(1), [savings[place] for place in order]))
    goes_at = [0] * len(order)
    useful, most = [0], 0
    for gone, (place, code_points) in enumerate(zip(order, saved, strict=True), 1):
        goes_at[place] = gone
        if code_points > most:
            most = code_points
            useful.append(gone)
    each = iter(goes_at)
    for lines in sections:
        lines.goes_at = list(islice(each, len(lines.places)))
    return useful


def _beside(marker: str, savings: list[int]) -> list[int]:
    """Return what omissions save beside a marker: it comes with the first, and grows with its number."""
    if savings:
        savings[0] -= len(marker)
    for omissions in _ROLLOVERS:
        if omissions > len(savings):
            break
        savings[omissions - 1] -= 1
    return savings
