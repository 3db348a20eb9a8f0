"""Cases of the evaluation: a question, the sources that may answer it, and the parts of them that do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

Part = tuple[int, int]
"""The place of a source in `Case.sources`, and of a part in it, both from 0."""


@dataclass(frozen=True, eq=False)
class Source:
    """A file or a turn of a dialogue: its name, its parts (lines or sentences), and the text that joins them.

    Cases with the same source share the object, so that results about it can be cached.
    """

    name: str
    parts: tuple[str, ...]
    joined_by: str = "\n"

    @cached_property
    def text(self) -> str:
        """The whole text."""
        return self.joined_by.join(self.parts)


@dataclass(frozen=True, eq=False)
class Case:
    """A question and its evidence, which is never empty."""

    name: str
    group: str
    """The data that it comes from: a repository, a dialogue, a meeting."""
    kind: str
    """The kind of question, if the data have several kinds."""
    query: str
    sources: tuple[Source, ...]
    evidence: frozenset[Part]
    newest_first: Sequence[int]
    """The places of the sources, the one changed or said last first."""
    units: tuple[frozenset[Part], ...] = ()
    """Parts of the evidence that belong together: a changed function, a turn."""
    answers: tuple[frozenset[Part], ...] = ()
    """The parts of each unit that contain the answer, as far as their words show it."""
    stale: frozenset[Part] = frozenset()
    """Parts with a value that `answers` replaces."""
    has_paths: bool = False
    """Whether the names of sources are paths of files."""


@dataclass(frozen=True)
class Shown:
    """The parts that a method shows, and the exact tokens of its text."""

    parts: frozenset[Part]
    tokens: int


Measure = Callable[["Case", "Shown"], float | None]
"""A function from the shown parts of a case to a number from 0 to 1; None if the case does not count."""

Method = Callable[[Case, int], Shown]
"""A way to choose text for a case within a limit of tokens."""


def share_found(case: Case, shown: Shown) -> float:
    """Return the share of a case's evidence that is shown, 0 to 1."""
    return len(case.evidence & shown.parts) / len(case.evidence)


def units_found(case: Case, shown: Shown) -> float | None:
    """Return the share of a case's units that are shown whole, 0 to 1; None without units."""
    if not case.units:
        return None
    return sum(unit <= shown.parts for unit in case.units) / len(case.units)


def units_touched(case: Case, shown: Shown) -> float:
    """Return the share of a case's units of which a part is shown, 0 to 1."""
    return sum(not unit.isdisjoint(shown.parts) for unit in case.units) / len(case.units)


def all_touched(case: Case, shown: Shown) -> float:
    """Return 1 if a part of each unit is shown, else 0."""
    return float(not any(unit.isdisjoint(shown.parts) for unit in case.units))


def all_whole(case: Case, shown: Shown) -> float:
    """Return 1 if all evidence is shown, else 0."""
    return float(case.evidence <= shown.parts)


def all_answered(case: Case, shown: Shown) -> float:
    """Return 1 if of each unit a part is shown that says the answer, else 0."""
    return float(not any(parts.isdisjoint(shown.parts) for parts in case.answers))


def stale_alone(case: Case, shown: Shown) -> float | None:
    """Return 1 if a stale value is shown without the new one, else 0; None if the case has none."""
    if not case.stale:
        return None
    is_new_shown = any(not parts.isdisjoint(shown.parts) for parts in case.answers)
    return float(not is_new_shown and not case.stale.isdisjoint(shown.parts))
