"""Token count of a text of pieces that change, joined by blank lines.

The count equals that of the whole text. Each piece adds its own units, and each joint what
two pieces add to each other, for which their ends up to the next seam are enough (see
`core.text.reckoning`). So a piece that changes takes no longer than that piece. A piece without a seam
and without an ASCII letter or digit, between two joints without a seam, joins what is before it to what is
after it. More than eight of these in a row are counted as if the first ones were not there. A caller that
needs certainty counts the whole.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

from apportion.core.text.reckoning import REACH, beginning_of, end_of, stands_apart
from apportion.core.text.render import SEPARATOR
from apportion.core.text.tokens import Units


class Stretch(Struct, frozen=True):
    """The ends of a text that matter to its neighbours, and its units."""

    start: str
    end: str
    units: int


def stretch_of(text: str, units: int) -> Stretch:
    """Return a text as a stretch of a longer one."""
    return Stretch(text[:REACH], text[-REACH:], units)


def joined(first: Stretch | None, second: Stretch | None, units: Units) -> Stretch | None:
    """Return two stretches as one, with a blank line between them; None is no text."""
    if first is None or second is None:
        return first or second
    beginning = "" if stands_apart(first.end, second.start) else beginning_of(second.start)
    end = end_of(first.end)
    both = units.of(f"{end}{SEPARATOR}{beginning}") - units.of(end) - units.of(beginning)
    return Stretch(first.start, second.end, first.units + both + second.units)


_WORD = re.compile("[0-9A-Za-z]")
_GLUE_PIECES = 8
"""The largest number of successive pieces that may let their neighbours merge."""


class _Part(Struct):
    """A piece, and what matters of it to its neighbours.

    `closing` are the units of a blank line after it. `glue` means that its neighbours may merge across it.
    """

    text: str
    units: int
    end: str
    end_units: int
    closing: int
    glue: bool


class Joined:
    """The pieces by place, and the count of their text.

    A removed piece comes back in the reverse order (`put_back`), or after a given piece (`put_in`).
    """

    def __init__(self, pieces: Iterable[tuple[str, int]], units: Units) -> None:
        """Start with all pieces, each with its count."""
        self._units = units
        self._parts = [self._part(text, tokens) for text, tokens in pieces]
        none = len(self._parts)
        self._before = [none, *range(none)]
        self._after = [*range(1, none + 1), 0]
        self._joints = [self._joint(place - 1 if place else none, place) for place in range(none)] + [0]
        self._sum = sum(part.units for part in self._parts) + sum(self._joints)

    @classmethod
    def empty(cls, number: int, units: Units) -> "Joined":
        """Start with that many places and no piece."""
        joined = cls((), units)
        joined._parts = [_Part("", 0, "", 0, 0, glue=False)] * number
        joined._before, joined._after = [number] * (number + 1), [number] * (number + 1)
        joined._joints = [0] * (number + 1)
        return joined

    def tokens(self) -> int:
        """Return the count of the text."""
        return self._units.tokens(self._sum)

    def change(self, place: int, text: str, tokens: int) -> None:
        """Replace the piece at a place by another text with the given count."""
        self._sum -= self._parts[place].units
        self._parts[place] = self._part(text, tokens)
        self._sum += self._parts[place].units
        self._rejoin(place)
        self._rejoin_from(self._after[place])

    def take_out(self, place: int) -> None:
        """Remove the piece at a place."""
        before, after = self._before[place], self._after[place]
        self._sum -= self._parts[place].units + self._joints[place]
        self._after[before], self._before[after] = after, before
        self._rejoin_from(after)

    def put_back(self, place: int) -> None:
        """Put back the piece that was removed last."""
        before, after = self._before[place], self._after[place]
        assert self._after[before] == after, "pieces come back in the reverse order"
        self._after[before] = self._before[after] = place
        self._joints[place] = self._joint(before, place)
        self._sum += self._parts[place].units + self._joints[place]
        self._rejoin_from(after)

    def put_in(self, place: int, text: str, tokens: int, before: int | None) -> None:
        """Insert a piece with its count after the piece at `before`, or as the first piece."""
        before = len(self._parts) if before is None else before
        self._parts[place] = self._part(text, tokens)
        self._before[place], self._after[place] = before, self._after[before]
        self.put_back(place)

    def _part(self, text: str, tokens: int) -> _Part:
        end = end_of(text)
        end_units = self._units.of(end)
        closing = self._units.of(end + SEPARATOR) - end_units
        glue = end == text and _WORD.search(text) is None
        return _Part(text, self._units.known(text, tokens), end, end_units, closing, glue)

    def _rejoin_from(self, place: int) -> None:
        """Count the joint before a piece again, and the joints after it that merge across it."""
        for _ in range(_GLUE_PIECES + 1):
            self._rejoin(place)
            if place == len(self._parts) or not self._parts[place].glue:
                return
            place = self._after[place]

    def _rejoin(self, place: int) -> None:
        joint = self._joint(self._before[place], place)
        self._sum += joint - self._joints[place]
        self._joints[place] = joint

    def _joint(self, before: int, after: int) -> int:
        """Return the units of the joint of two pieces: the blank line, and the change of both by merging."""
        none = len(self._parts)
        if none in (before, after):
            return 0
        first, second = self._parts[before], self._parts[after]
        apart = stands_apart(first.text, second.text)
        if apart and not first.glue:
            return first.closing
        end, end_units = first.end, first.end_units
        if first.glue:
            end = self._glued_end(before)
            end_units = self._units.of(end)
        beginning = "" if apart else beginning_of(second.text)
        both = self._units.of(f"{end}{SEPARATOR}{beginning}")
        return both - end_units - self._units.of(beginning)

    def _glued_end(self, place: int) -> str:
        """Return the end of the text up to and including a piece, with the glue pieces before it."""
        end = self._parts[place].end
        for _ in range(_GLUE_PIECES):
            before = self._before[place]
            if before == len(self._parts) or stands_apart(self._parts[before].text, self._parts[place].text):
                break
            end = f"{self._parts[before].end}{SEPARATOR}{end}"
            if not self._parts[before].glue:
                break
            place = before
        return end[-REACH:]
