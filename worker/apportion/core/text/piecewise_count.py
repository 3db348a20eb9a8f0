"""Token count of a text of pieces that change, joined by blank lines.

It equals the count of the whole text: the units of all pieces, and for each joint the effect of two pieces on
each other. That effect is computed on their ends up to the next seam (see `core.text.reckoning`). So a change
of a piece costs no more than the count of the piece.

A *glue* piece has no seam, no ASCII letter and no digit. Between two joints without a seam, it lets its
neighbours merge. If more than eight follow one another, the first of them are ignored, and the count may be
wrong. A caller that needs certainty counts the whole.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

from apportion.core.text import SEPARATOR
from apportion.core.text.reckoning import SEAM_REACH, beginning_of, begins_at_seam, end_of
from apportion.core.text.tokens import Units


class Stretch(Struct, frozen=True):
    """The ends of a text that affect its neighbours, and its units."""

    start: str
    end: str
    units: int


def stretch_of(text: str, units: int) -> Stretch:
    """Return the stretch of a text."""
    return Stretch(text[:SEAM_REACH], text[-SEAM_REACH:], units)


def joined(first: Stretch | None, second: Stretch | None, units: Units) -> Stretch | None:
    """Return two stretches as one, with a blank line between them; None means no text."""
    if first is None or second is None:
        return first or second
    beginning = "" if begins_at_seam(first.end, second.start) else beginning_of(second.start)
    end = end_of(first.end)
    both = units.of(f"{end}{SEPARATOR}{beginning}") - units.of(end) - units.of(beginning)
    return Stretch(first.start, second.end, first.units + both + second.units)


_WORD = re.compile("[0-9A-Za-z]")
_GLUE_PIECES = 8
"""The largest number of successive pieces that may let their neighbours merge."""


class _Part(Struct):
    """A piece with the values that its joints need."""

    text: str
    units: int
    end: str
    """Its end from the last seam on."""
    end_units: int
    closing: int
    """The units of a blank line after it."""
    glue: bool
    """True if its neighbours may merge across it."""


class Joined:
    """The pieces by index, and the count of their text.

    Removed pieces are put back in the reverse order (`put_back`), or after a given piece (`put_in`).
    """

    def __init__(self, pieces: Iterable[tuple[str, int]], units: Units) -> None:
        """Start with pieces and their counts."""
        self._units = units
        self._parts = [self._part(text, tokens) for text, tokens in pieces]
        none = len(self._parts)
        self._before = [none, *range(none)]
        self._after = [*range(1, none + 1), 0]
        self._joints = [self._joint(index - 1 if index else none, index) for index in range(none)] + [0]
        self._sum = sum(part.units for part in self._parts) + sum(self._joints)

    @classmethod
    def empty(cls, number: int, units: Units) -> "Joined":
        """Start with so many indexes and no piece."""
        joined = cls((), units)
        joined._parts = [_Part("", 0, "", 0, 0, glue=False)] * number
        joined._before, joined._after = [number] * (number + 1), [number] * (number + 1)
        joined._joints = [0] * (number + 1)
        return joined

    def tokens(self) -> int:
        """Return the count of the text."""
        return self._units.tokens(self._sum)

    def change(self, index: int, text: str, tokens: int) -> None:
        """Replace the text of a piece; `tokens` is the count of the new text."""
        self._sum -= self._parts[index].units
        self._parts[index] = self._part(text, tokens)
        self._sum += self._parts[index].units
        self._rejoin(index)
        self._rejoin_from(self._after[index])

    def take_out(self, index: int) -> None:
        """Remove a piece."""
        before, after = self._before[index], self._after[index]
        self._sum -= self._parts[index].units + self._joints[index]
        self._after[before], self._before[after] = after, before
        self._rejoin_from(after)

    def put_back(self, index: int) -> None:
        """Put back the piece that was removed last."""
        before, after = self._before[index], self._after[index]
        assert self._after[before] == after, "pieces come back in the reverse order"
        self._after[before] = self._before[after] = index
        self._joints[index] = self._joint(before, index)
        self._sum += self._parts[index].units + self._joints[index]
        self._rejoin_from(after)

    def put_in(self, index: int, text: str, tokens: int, before: int | None) -> None:
        """Insert a piece with its count after piece `before`, or as the first piece if that is None."""
        before = len(self._parts) if before is None else before
        self._parts[index] = self._part(text, tokens)
        self._before[index], self._after[index] = before, self._after[before]
        self.put_back(index)

    def _part(self, text: str, tokens: int) -> _Part:
        end = end_of(text)
        end_units = self._units.of(end)
        closing = self._units.of(end + SEPARATOR) - end_units
        glue = end == text and _WORD.search(text) is None
        return _Part(text, self._units.known(text, tokens), end, end_units, closing, glue)

    def _rejoin_from(self, index: int) -> None:
        """Count the joint before a piece again, and the joints after it that merge across it."""
        for _ in range(_GLUE_PIECES + 1):
            self._rejoin(index)
            if index == len(self._parts) or not self._parts[index].glue:
                return
            index = self._after[index]

    def _rejoin(self, index: int) -> None:
        joint = self._joint(self._before[index], index)
        self._sum += joint - self._joints[index]
        self._joints[index] = joint

    def _joint(self, before: int, after: int) -> int:
        """Return the units of a joint: the blank line, and the change of both pieces by merging."""
        none = len(self._parts)
        if none in (before, after):
            return 0
        first, second = self._parts[before], self._parts[after]
        apart = begins_at_seam(first.text, second.text)
        if apart and not first.glue:
            return first.closing
        end, end_units = first.end, first.end_units
        if first.glue:
            end = self._glued_end(before)
            end_units = self._units.of(end)
        beginning = "" if apart else beginning_of(second.text)
        both = self._units.of(f"{end}{SEPARATOR}{beginning}")
        return both - end_units - self._units.of(beginning)

    def _glued_end(self, index: int) -> str:
        """Return the end of the text up to a piece, with the glue pieces before it."""
        end = self._parts[index].end
        for _ in range(_GLUE_PIECES):
            before = self._before[index]
            if before == len(self._parts) or begins_at_seam(
                self._parts[before].text, self._parts[index].text
            ):
                break
            end = f"{self._parts[before].end}{SEPARATOR}{end}"
            if not self._parts[before].glue:
                break
            index = before
        return end[-SEAM_REACH:]
