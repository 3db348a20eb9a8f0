"""Token count of the text of categories, while one candidate after another joins it.

The count equals that of the whole text, and is computed from what has changed. Candidates are identified by
their place in output order.
"""

from bisect import bisect, insort
from collections.abc import Callable, Sequence
from typing import Protocol

from apportion.core.text.piecewise_count import Joined
from apportion.core.text.reckoning import end_of, stands_apart
from apportion.core.text.render import SEPARATOR
from apportion.core.text.tokens import Units


class Text(Protocol):
    """A text to which candidates are joined; it begins empty."""

    def tokens(self) -> int:
        """Return its count."""

    def tokens_with(self, place: int) -> int:
        """Return what it would count with one more candidate."""

    def add(self, place: int) -> None:
        """Join the candidate that was asked about last."""


class GrowingText:
    """A text to which candidates are joined in output order, each at the end.

    What stands after its last seam is all that a next piece can change. No more than its last code points
    are looked at for that (see `core.text.reckoning.REACH`).
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

    def tokens_with(self, place: int) -> int:
        """Return what it would count with one more candidate."""
        piece = self._contents[place]
        if stands_apart(self._end.rstrip("\n"), piece):
            units = self._before_end_units + self._end_units + self._units_of(piece)
        else:
            units = self._before_end_units + self._units_of(self._end + piece)
        self._asked = (place, units)
        return self._counter.tokens(units)

    def add(self, place: int) -> None:
        """Join the candidate that was asked about last."""
        asked, self._units = self._asked
        assert asked == place, "it was asked about last"
        end = end_of(self._end + self._contents[place])
        self._before_end_units = self._units - self._units_of(end)
        self._end = end + SEPARATOR
        self._end_units = self._units_of(self._end)


class OrderedText:
    """A text to which candidates are joined in any order, each at its place in output order."""

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

    def tokens_with(self, place: int) -> int:
        """Return what it would count with one more candidate."""
        self._withdraw()
        after = bisect(self._standing, place)
        before = self._standing[after - 1] if after else None
        self._joined.put_in(place, self._contents[place], self._counted(place), before)
        self._asked = place
        return self._joined.tokens()

    def add(self, place: int) -> None:
        """Join the candidate that was asked about last."""
        assert self._asked == place, "it was asked about last"
        insort(self._standing, place)
        self._asked = None

    def _withdraw(self) -> None:
        """Let what was only asked about stand no longer."""
        if self._asked is not None:
            self._joined.take_out(self._asked)
            self._asked = None
