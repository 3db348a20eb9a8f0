"""A question, the sources that may answer it, and the lines that do."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A file, a section or a turn: its name, and its text."""

    path: str
    text: str


@dataclass(frozen=True)
class Case:
    """A question and its evidence: pairs of a source's place in `sources` and a line of it, both from 0."""

    name: str
    group: str
    """The data that it comes from: a repository, a dialogue, a domain of meetings."""
    query: str
    sources: tuple[Source, ...]
    evidence: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Shown:
    """The lines that a method shows, as pairs like those of `Case.evidence`, and the tokens of its text."""

    lines: frozenset[tuple[int, int]]
    tokens: int


Method = Callable[[Case, int], Shown]
"""A way to choose text for a case within a limit of tokens."""


def share_found(case: Case, shown: Shown) -> float:
    """Return the share of a case's evidence that is shown, 0 to 1."""
    return len(case.evidence & shown.lines) / len(case.evidence)
