"""Token count of the text of `categories` while candidates are added.

It equals the count of the whole text, and only the added parts are counted. Candidates are indexes in output
order.
"""

from bisect import bisect, insort
from collections.abc import Callable, Sequence
from typing import Protocol

from apportion.core.text.piecewise_count import Joined
from apportion.core.text.reckoning import end_of, stands_apart
from apportion.core.text.render import SEPARATOR
from apportion.core.text.tokens import Units


class Text(Protocol):
    """A text that starts empty and grows by candidates."""

    def tokens(self) -> int:
        """Return its count."""

    def tokens_with(self, index: int) -> int:
        """Return its count with one more candidate."""

    def add(self, index: int) -> None:
        """Add the candidate of the last `tokens_with`."""


class GrowingText:
    """A text to which candidates are added at the end, in output order.

    The next piece can change only the count of the text after the last seam (see `core.text.reckoning`).
    """

    def __init__(self, contents: Sequence[str], units: Units) -> None:
        self._contents = contents
        self._counter = units
        self._units_of = units.of
        self._units = 0
        self._end = ""
        self._end_units = 0
        self._before_end_units = 0
        self._asked = (-1, 0)

    def tokens(self) -> int:
        """Return its count."""
        return self._counter.tokens(self._units)

    def tokens_with(self, index: int) -> int:
        """Return its count with one more candidate."""
        piece = self._contents[index]
        if stands_apart(self._end.rstrip("\n"), piece):
            units = self._before_end_units + self._end_units + self._units_of(piece)
        else:
            units = self._before_end_units + self._units_of(self._end + piece)
        self._asked = (index, units)
        return self._counter.tokens(units)

    def add(self, index: int) -> None:
        """Add the candidate of the last `tokens_with`."""
        asked, self._units = self._asked
        assert asked == index, "it was asked about last"
        end = end_of(self._end + self._contents[index])
        self._before_end_units = self._units - self._units_of(end)
        self._end = end + SEPARATOR
        self._end_units = self._units_of(self._end)


class OrderedText:
    """A text to which candidates are added in any order, each at its index in output order."""

    def __init__(self, contents: Sequence[str], counted: Callable[[int], int], units: Units) -> None:
        """Start empty; `counted` gives the count of a content."""
        self._contents = contents
        self._counted = counted
        self._joined = Joined.empty(len(contents), units)
        self._standing: list[int] = []
        self._asked: int | None = None

    def tokens(self) -> int:
        """Return its count."""
        self._withdraw()
        return self._joined.tokens()

    def tokens_with(self, index: int) -> int:
        """Return its count with one more candidate."""
        self._withdraw()
        after = bisect(self._standing, index)
        before = self._standing[after - 1] if after else None
        self._joined.put_in(index, self._contents[index], self._counted(index), before)
        self._asked = index
        return self._joined.tokens()

    def add(self, index: int) -> None:
        """Add the candidate of the last `tokens_with`."""
        assert self._asked == index, "it was asked about last"
        insort(self._standing, index)
        self._asked = None

    def _withdraw(self) -> None:
        """Remove the candidate of a `tokens_with` that was not added."""
        if self._asked is not None:
            self._joined.take_out(self._asked)
            self._asked = None
