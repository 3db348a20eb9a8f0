"""The count of a text of items as it follows from their lines, while they go from tier to tier.

Decides nothing: it is what counting the whole would give. Every line and heading begins at a seam (see
`core.text.reckoning`), so that it adds the same units wherever it stands. Only what follows the last
line of a section is no line end, but a blank line, or nothing.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from msgspec import Struct

from apportion.core.strategies.tiers.rank import OMITTED, TITLES, RankedItem
from apportion.core.strategies.tiers.render import heading
from apportion.core.text.render import SEPARATOR
from apportion.core.text.tokens import TokenCounter, units_of

_LINE_END = "\n"


class _Section(Struct):
    """How many items of a kind stand, and which is the last of them.

    `order` is a heap by tier and place, negated; an item that has gone to another tier since stays in it
    until it comes first. `frame_units` are those of the heading, and of `end` after the last line in place
    of a line end; without an `end` they have to be reckoned.
    """

    heading_units: int
    shown: int = 0
    order: list[tuple[int, int]] = []
    frame_units: int = 0
    end: str | None = None


class Reckoning:
    """What the text of these items costs; `put` is the one way to change their tiers."""

    def __init__(self, items: Sequence[RankedItem], counter: TokenCounter) -> None:
        """Begin with the items at their tiers; they stand in canonical order, and all are shown."""
        self._items = items
        self._units = units_of(counter)
        self._sections = {kind: _Section(self._units.of(heading(kind) + _LINE_END)) for kind in TITLES}
        self._end_units: dict[tuple[int, int, str], int] = {}
        for place, item in enumerate(items):
            item.place, item.line_units = place, self._units.of(item.line() + _LINE_END)
            section = self._sections[item.prepared.kind]
            section.shown += 1
            section.order.append((-item.tier, -place))
        for section in self._sections.values():
            heapify(section.order)
        units = [item.line_units for item in items]
        self._lines_units, self._last_lines_units = sum(units), len(TITLES) * max(units)

    def tokens(self) -> int:
        """Return the count of the text."""
        units, end = self._lines_units, ""
        for section in reversed(self._sections.values()):
            if section.shown:
                if section.end != end:
                    last = self._last(section)
                    section.end = end
                    section.frame_units = section.heading_units + self._of_end(last, end)
                units += section.frame_units
                end = SEPARATOR
        return self._units.tokens(units)

    def least_tokens_without(self, item: RankedItem) -> int:
        """Return what the text costs at least, on whatever tier one item stands; the others have not moved.

        It has their lines, the last one of a section with another end, which may cost less than a line end:
        these are left out, as if they were the longest.
        """
        return self._units.tokens(self._lines_units - item.line_units - self._last_lines_units)

    def put(self, item: RankedItem, tier: int) -> None:
        """Put an item that is shown on a tier."""
        section = self._sections[item.prepared.kind]
        self._lines_units -= item.line_units
        if tier == OMITTED:
            item.tier = tier
            section.shown -= 1
            section.end = None
            return
        last = self._last(section)
        item.tier = tier
        item.line_units = self._units.of(item.line() + _LINE_END)
        self._lines_units += item.line_units
        heappush(section.order, (-tier, -item.place))
        if item is last or item is self._last(section):
            section.end = None

    def _last(self, section: _Section) -> RankedItem:
        while True:
            tier, place = section.order[0]
            item = self._items[-place]
            if item.tier == -tier:
                return item
            heappop(section.order)

    def _of_end(self, item: RankedItem, end: str) -> int:
        """Return what the units of a line change by when this stands in place of its line end."""
        key = (item.place, item.tier, end)
        if key not in self._end_units:
            self._end_units[key] = self._units.of(item.line() + end) - item.line_units
        return self._end_units[key]
