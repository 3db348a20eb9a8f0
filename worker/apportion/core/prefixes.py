"""What the beginnings of one text cost, each with something after it.

Decides nothing: it is what counting each would give. What is known up to a seam (see `core.seams`) is not
counted again, so that all that a bisection asks for costs about one count of the text; where there is no seam
in sight, one count each.
"""

from bisect import bisect_left, insort
from collections.abc import Callable

from apportion.core.seams import REACH, last_seam


class Prefixes:
    """The beginnings of a text, and the seams up to which its units are known."""

    def __init__(self, text: str, units_of: Callable[[str], int]) -> None:
        """Know nothing yet."""
        self._text = text
        self._units_of = units_of
        self._known = [(0, 0)]

    def units(self, code_points: int, after: str) -> int:
        """Return the units of that many code points, and of what stands after them."""
        # a seam at the very end would be one by what follows there in the text, which does not stand here
        seam, units = self._known[max(0, bisect_left(self._known, (code_points,)) - 1)]
        rest = self._text[seam:code_points]
        near = max(0, len(rest) - REACH)
        found = last_seam(rest[near:])
        place = near + found if found else 0
        if place:
            seam, units = seam + place, units + self._units_of(rest[:place])
            insort(self._known, (seam, units))
        return units + self._units_of(rest[place:] + after)
