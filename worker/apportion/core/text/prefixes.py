"""Token counts of a text's prefixes, each with another text after it.

The counts are exact. Units up to a known seam (see `core.text.token_boundaries`) are not counted again, so
all counts of a bisection cost about one count of the text. Counters that are `dear` are an exception: a
prefix that ends in a long stretch without a seam is estimated by chunks (see `core.text.fixed_chunks`).
"""

from bisect import bisect_left, insort

from apportion.core.text.fixed_chunks import MESH, SIGHT
from apportion.core.text.token_boundaries import REACH, last_seam
from apportion.core.text.tokens import Units


class Prefixes:
    """The prefixes of a text, and the seams up to which its units are known.

    `on_grid` is true if any prefix was estimated by chunks.
    """

    def __init__(self, text: str, units: Units) -> None:
        """Start without any known seam."""
        self.on_grid = False
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
            seam, on_grid = self._last_of_grid(seam, code_points)
            units += on_grid
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
        """Return the start of the last chunk after a seam, and the units from the seam to that start."""
        self.on_grid = True
        up_to = self._grids.setdefault(seam, [0])
        number = (code_points - seam - 1) // MESH
        for place in range(seam + MESH * (len(up_to) - 1), seam + MESH * number, MESH):
            up_to.append(up_to[-1] + self._units.of(self._text[place : place + MESH]))
        return seam + MESH * number, up_to[number]
