"""What the text of categories costs while one candidate after another joins it.

Decides nothing: it is what counting the whole would give, reckoned from what has changed. Candidates are told
by their place in output order.
"""

from bisect import bisect, insort
from collections.abc import Sequence
from typing import Protocol

from apportion.core.joined import Joined
from apportion.core.render import SEPARATOR
from apportion.core.seams import end_of, stands_apart
from apportion.core.tokens import Units


class Text(Protocol):
    """A text to which candidates are joined; it begins empty."""

    def tokens(self) -> int:
        """Return its count."""
        ...

    def tokens_with(self, place: int) -> int:
        """Return what it would count with one more candidate."""
        ...

    def add(self, place: int) -> None:
        """Join a candidate."""
        ...


class GrowingText:
    """A text to which candidates are joined in output order, each at the end.

    What stands after its last seam is all that a next piece can change. No more than its last code points
    are looked at for that (see `core.seams.REACH`).
    """

    def __init__(self, contents: Sequence[str], units: Units) -> None:
        """Start empty."""
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

    def __init__(self, contents: Sequence[str], counts: Sequence[int], units: Units) -> None:
        """Start empty; the counts are those of the contents."""
        self._joined = Joined(zip(contents, counts, strict=True), units, standing=False)
        self._standing: list[int] = []

    def tokens(self) -> int:
        """Return its count."""
        return self._joined.tokens()

    def tokens_with(self, place: int) -> int:
        """Return what it would count with one more candidate."""
        self._put_in(place)
        tokens = self._joined.tokens()
        self._joined.take_out(place)
        return tokens

    def add(self, place: int) -> None:
        """Join a candidate."""
        self._put_in(place)
        insort(self._standing, place)

    def _put_in(self, place: int) -> None:
        before = bisect(self._standing, place)
        self._joined.put_in(place, self._standing[before - 1] if before else None)
