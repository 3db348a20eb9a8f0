"""Token count of a layer at every level, computed from its lines.

It equals the count of the whole layer. Headings, entries and markers of sections begin at seams (see
`core.text.reckoning`), so each adds the same units in any position. The text before the first section is
counted as one text; its count is approximate if it has a long stretch without a seam (see
`core.text.prefixes`).
"""

from functools import cache, cached_property
from itertools import accumulate

from apportion.core.strategies.layers.form import Layer, SectionLines, omission
from apportion.core.text import SEPARATOR
from apportion.core.text.cut import MARK
from apportion.core.text.piecewise_count import Stretch, stretch_of
from apportion.core.text.prefixes import Prefixes
from apportion.core.text.reckoning import SEAM_REACH, Correction
from apportion.core.text.tokens import Units

_SECTION = "##"


class Levels:
    """The stretch of a layer at each level: its ends and its units."""

    def __init__(self, layer: Layer, whole_tokens: int, units: Units, correction: Correction) -> None:
        self._layer = layer
        self._units = units
        self._correction = correction
        whole = layer.text(layer.top)
        self._whole = stretch_of(whole, units.known(whole, whole_tokens)) if whole else None
        before = "" if layer.heading is None else layer.heading
        self._heading = before + SEPARATOR if before and layer.preamble else before
        self._front = self._heading + layer.preamble
        self._runs: dict[int, Stretch | None] = {}
        self._of_repeated = cache(units.of)

    def run(self, level: int) -> Stretch | None:
        """Return the layer at a level; None if nothing of it is shown."""
        if level not in self._runs:
            self._runs[level] = self._run(level)
        return self._runs[level]

    def _run(self, level: int) -> Stretch | None:
        layer = self._layer
        if level == layer.top or not (level or layer.sections):
            return self._whole if level == layer.top else None
        code_points, mark = self._cut(level)
        if layer.sections:
            front = self._front[: min(code_points, SEAM_REACH)] + mark
            start = f"{front}{SEPARATOR}{_SECTION}" if front else _SECTION
            gone = layer.gone(level)
            end = omission(gone) if gone else self._whole_run.end
            units = self._front_units(level) + self._sections_units(gone)
        else:
            start = self._front[: min(code_points, SEAM_REACH)] + mark
            end = self._front[max(0, code_points - SEAM_REACH) : code_points] + mark
            units = self._prefixes.units(code_points, mark)
        return Stretch(start[:SEAM_REACH], end[-SEAM_REACH:], units)

    def _cut(self, level: int) -> tuple[int, str]:
        """Return the code points left before the sections, and the marker of a cut."""
        length = len(self._layer.preamble)
        if not level or not length:
            return len(self._layer.heading or ""), ""
        return len(self._heading) + min(level, length), MARK if level < length else ""

    @property
    def _whole_run(self) -> Stretch:
        assert self._whole is not None, "a layer with sections has a text"
        return self._whole

    @cached_property
    def _prefixes(self) -> Prefixes:
        return Prefixes(self._front, self._units, self._correction)

    def _front_units(self, level: int) -> int:
        """Return the units of the text before the first section, with the blank line."""
        code_points, mark = self._cut(level)
        return self._prefixes.units(code_points, mark + SEPARATOR) if code_points else 0

    def _sections_units(self, gone: int) -> int:
        if not gone:
            return self._whole_run.units - self._front_units(self._layer.top)
        return self._closed_units[gone] + self._units.of(omission(gone))

    @cached_property
    def _closed_units(self) -> list[int]:
        """The units of all sections with a blank line after each, by the number of omitted entries."""
        sections = self._layer.sections
        changes = [0] * (1 + sum(len(lines.goes_at) for lines in sections))
        for lines in sections:
            before = self._units.of(lines.text(0) + SEPARATOR)
            changes[0] += before
            for goes_at, units in zip(lines.goes_at, self._cut_units(lines), strict=False):
                changes[goes_at] += units - before
                before = units
        return list(accumulate(changes))

    def _cut_units(self, lines: SectionLines) -> list[int]:
        """Return the units of a section and a blank line, with one entry omitted, with two, and so on."""
        if not lines.goes_at:
            return []
        of = self._units.of
        kept = accumulate(
            (of(f"- {entry}\n") for entry in lines.entries if entry),
            initial=self._of_repeated(f"{lines.heading}\n"),
        )
        title = self._of_repeated(f" more {lines.title}{SEPARATOR}")
        number = len(lines.goes_at)
        cut = [units + self._of_repeated(f"... and {number - at}") + title for at, units in enumerate(kept)]
        return cut[-2::-1]
