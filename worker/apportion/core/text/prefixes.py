"""Token counts of a text's prefixes, each with another text after it.

They equal the counts of the joined texts. The units up to a seam (see `core.text.reckoning`) are counted
once, so a whole bisection costs about one count of the text. With an exact counter, a prefix that ends in a
long stretch without a seam is counted on the grid, approximately.
"""

from bisect import bisect_left, insort

from apportion.core.text.reckoning import GRID_LENGTH, SEAM_REACH, SEAMLESS_LENGTH, Correction, last_seam
from apportion.core.text.tokens import Units


class Prefixes:
    """The prefixes of a text, and the units up to its known seams."""

    def __init__(self, text: str, units: Units, correction: Correction) -> None:
        """Start; a prefix that is counted on the grid sets the correction's `on_grid`."""
        self._correction = correction
        self._text = text
        self._units = units
        self._known = [(0, 0)]
        self._searched: dict[int, int] = {}
        self._grids: dict[int, list[int]] = {}

    def units(self, code_points: int, after: str) -> int:
        """Return the units of a prefix of so many code points, followed by `after`."""
        # A seam at the end of the prefix is not used: it depends on the text's next character.
        seam, units = self._known[max(0, bisect_left(self._known, (code_points,)) - 1)]
        near = max(seam, code_points - SEAM_REACH)
        nearest = last_seam(self._text[near:code_points])
        last = near + nearest if nearest else self._seam_far_back(seam, code_points)
        if last:
            seam, units = last, units + self._units.of(self._text[seam:last])
            insort(self._known, (seam, units))
        if self._units.dear and code_points - seam > SEAMLESS_LENGTH:
            seam, units_to_seam = self._last_of_grid(seam, code_points)
            units += units_to_seam
        return units + self._units.of(self._text[seam:code_points] + after)

    def _seam_far_back(self, seam: int, code_points: int) -> int:
        """Return the index of the last seam beyond `SEAM_REACH`; 0 if there is none or none is needed."""
        searched = self._searched.get(seam, seam)
        if not self._units.dear or code_points - seam <= SEAMLESS_LENGTH or code_points <= searched:
            return 0
        begin = max(seam, searched - SEAM_REACH)
        last = last_seam(self._text[begin:code_points])
        if last:
            return begin + last
        self._searched[seam] = code_points
        return 0

    def _last_of_grid(self, seam: int, code_points: int) -> tuple[int, int]:
        """Return the start of the last part on the grid from a seam, and the units between them."""
        self._correction.on_grid = True
        up_to = self._grids.setdefault(seam, [0])
        number = (code_points - seam - 1) // GRID_LENGTH
        for start in range(seam + GRID_LENGTH * (len(up_to) - 1), seam + GRID_LENGTH * number, GRID_LENGTH):
            up_to.append(up_to[-1] + self._units.of(self._text[start : start + GRID_LENGTH]))
        return seam + GRID_LENGTH * number, up_to[number]
