"""Token count of the text of `tiers`, kept up to date while items change their tiers.

It equals the count of the whole text. Every line and heading begins at a seam (see `core.text.reckoning`), so
it adds the same units in any position. Only the last line of a section ends with a blank line or with
nothing.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from apportion.core.strategies.tiers.rank import OMITTED, TITLES, RankedItem
from apportion.core.strategies.tiers.render import heading
from apportion.core.text import SEPARATOR
from apportion.core.text.tokens import TokenCounter, units_of

_LINE_END = "\n"


class Reckoning:
    """The count of the text of these items; only `put` may change their tiers."""

    def __init__(self, items: Sequence[RankedItem], counter: TokenCounter) -> None:
        """Start with items in canonical order, none of them omitted."""
        self._items = items
        self._units = units_of(counter)
        self._heading_units = {kind: self._units.of(heading(kind) + _LINE_END) for kind in TITLES}
        # A heap for each kind, the last line first: (-tier, -index). Outdated entries are removed at the top.
        self._orders: dict[str, list[tuple[int, int]]] = {kind: [] for kind in TITLES}
        self._end_units: dict[tuple[int, int, str], int] = {}
        for index, item in enumerate(items):
            item.index, item.line_units = index, self._units.of(item.line() + _LINE_END)
            self._orders[item.prepared.kind].append((-item.tier, -index))
        for order in self._orders.values():
            heapify(order)
        units = [item.line_units for item in items]
        self._lines_units, self._last_lines_units = sum(units), len(TITLES) * max(units)

    def tokens(self) -> int:
        """Return the count of the text."""
        units, end = self._lines_units, ""
        for kind, order in reversed(self._orders.items()):
            if (last := self._last(order)) is not None:
                units += self._heading_units[kind] + self._end_change(last, end)
                end = SEPARATOR
        return self._units.tokens(units)

    def least_tokens_without(self, item: RankedItem) -> int:
        """Return a lower bound of the count with an item on any tier, if the others keep theirs.

        The last line of each section may cost less than with a line end. So the bound leaves out one line
        per section, each as long as the longest line at the start.
        """
        return self._units.tokens(self._lines_units - item.line_units - self._last_lines_units)

    def put(self, item: RankedItem, tier: int) -> None:
        """Put an item that is not omitted on a tier."""
        self._lines_units -= item.line_units
        item.tier = tier
        if tier != OMITTED:
            item.line_units = self._units.of(item.line() + _LINE_END)
            self._lines_units += item.line_units
            heappush(self._orders[item.prepared.kind], (-tier, -item.index))

    def _last(self, order: list[tuple[int, int]]) -> RankedItem | None:
        while order:
            tier, index = order[0]
            item = self._items[-index]
            if item.tier == -tier:
                return item
            heappop(order)
        return None

    def _end_change(self, item: RankedItem, end: str) -> int:
        """Return the units that a line gains when `end` replaces its line end."""
        key = (item.index, item.tier, end)
        if key not in self._end_units:
            self._end_units[key] = self._units.of(item.line() + end) - item.line_units
        return self._end_units[key]
