"""Token counts of a text's prefixes, each with another text after it.

Decides nothing: it is what counting each would give. What is known up to a seam (see
`core.text.reckoning`) is not counted again, so that all that a bisection asks for costs about one
count of the text. With a counter that is dear, a beginning that ends in a stretch without a seam in sight
is reckoned on a grid (see `core.text.reckoning`), which is near what counting it would give.
"""

from bisect import bisect_left, insort

from apportion.core.text.reckoning import MESH, REACH, SIGHT, Correction, last_seam
from apportion.core.text.tokens import Units


class Prefixes:
    """The beginnings of a text, and the seams up to which its units are known."""

    def __init__(self, text: str, units: Units, correction: Correction) -> None:
        """Know nothing yet. A beginning that is reckoned on the grid sets the correction's `on_grid`."""
        self._correction = correction
        self._text = text
        self._units = units
        self._known = [(0, 0)]
        self._bare: dict[int, int] = {}
        self._grids: dict[int, list[int]] = {}

    def units(self, code_points: int, after: str) -> int:
        """Return the units of a prefix of that many code points, followed by `after`."""
        # A seam at the very end depends on the text that follows there; here, `after` follows instead.
        seam, units = self._known[max(0, bisect_left(self._known, (code_points,)) - 1)]
        near = max(seam, code_points - REACH)
        nearest = last_seam(self._text[near:code_points])
        place = near + nearest if nearest else self._seam_far_back(seam, code_points)
        if place:
            seam, units = place, units + self._units.of(self._text[seam:place])
            insort(self._known, (seam, units))
        if self._units.dear and code_points - seam > SIGHT:
            seam, units_to_seam = self._last_of_grid(seam, code_points)
            units += units_to_seam
        return units + self._units.of(self._text[seam:code_points] + after)

    def _seam_far_back(self, seam: int, code_points: int) -> int:
        """Return the place of the last seam that is not near; 0 if there is none, or if it is not needed."""
        bare = self._bare.get(seam, seam)
        if not self._units.dear or code_points - seam <= SIGHT or code_points <= bare:
            return 0
        begin = max(seam, bare - REACH)
        last = last_seam(self._text[begin:code_points])
        if last:
            return begin + last
        self._bare[seam] = code_points
        return 0

    def _last_of_grid(self, seam: int, code_points: int) -> tuple[int, int]:
        """Return where the last part of the grid from a seam begins, and the units from the seam to there."""
        self._correction.on_grid = True
        up_to = self._grids.setdefault(seam, [0])
        number = (code_points - seam - 1) // MESH
        for place in range(seam + MESH * (len(up_to) - 1), seam + MESH * number, MESH):
            up_to.append(up_to[-1] + self._units.of(self._text[place : place + MESH]))
        return seam + MESH * number, up_to[number]
