"""Constraints of a request, and the candidates that each one matches: by id, kind, lane or path.

A constraint is named by its place (`pinned[0]`), never by its text. The caller applies the precedence:
exclusion over pin over must-include.
"""

from collections.abc import Collection, Sequence

from apportion.core.candidates.glob import GLOB_STEPS_MAX, Globs, Paths
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Constraint, MatchType
from apportion.core.results import ConstraintCount


class ConstraintList:
    """A list of constraints, compiled for many candidates; raises EventError for an invalid glob."""

    def __init__(self, name: str, constraints: Sequence[Constraint]) -> None:
        self.name = name
        self.given = len(constraints)
        patterns: list[tuple[int, str, str]] = []
        self._ids: dict[str, list[int]] = {}
        self._kinds: dict[str, list[int]] = {}
        self._lanes: dict[str, list[int]] = {}
        exact = {MatchType.ID: self._ids, MatchType.KIND: self._kinds, MatchType.LANE: self._lanes}
        for index, constraint in enumerate(constraints):
            match = constraint.match
            if match.type is MatchType.PATTERN:
                pointer = f"$.constraints.{name}[{index}].match.value"
                patterns.append((index, match.value, pointer))
            else:
                exact[match.type].setdefault(match.value, []).append(index)
        self.has_patterns = bool(patterns)
        """Whether the list has a path pattern."""
        self.globs = Globs(patterns)
        self._paths: dict[str, int] = {}
        self._matched: set[int] = set()

    def match_paths(self, paths: Paths) -> None:
        """Match the patterns against the paths of all candidates."""
        self._paths, matched = self.globs.match(paths)
        self._matched |= matched

    def first(self, candidate_id: str, kind: str, lane: str, path: str | None) -> str:
        """Return the place of the first matching constraint, or ""; all matching ones are recorded."""
        if not self.given:
            return ""
        first = -1 if path is None else self._paths.get(path, -1)
        exact = (self._ids.get(candidate_id), self._kinds.get(kind), self._lanes.get(lane))
        for indices in exact:
            if indices is not None:
                if indices[0] not in self._matched:
                    self._matched.update(indices)
                first = indices[0] if first < 0 else min(first, indices[0])
        return "" if first < 0 else f"{self.name}[{first}]"

    def count(self) -> ConstraintCount:
        """Return the numbers of constraints that have and have not matched a candidate so far."""
        matched = len(self._matched)
        return ConstraintCount(
            name=self.name, given=self.given, matched=matched, unmatched=self.given - matched
        )


def match_paths(lists: Collection[ConstraintList], paths: Collection[str | None]) -> None:
    """Match the patterns of all lists against all paths; raise EventError if that would take too long."""
    lists = [constraints for constraints in lists if constraints.has_patterns]
    if not lists:
        return
    sorted_paths = Paths(path for path in paths if path is not None)
    characters = sum(constraints.globs.characters for constraints in lists)
    if characters * sorted_paths.characters > GLOB_STEPS_MAX:
        message = (
            f"patterns with wildcards of {characters} characters on paths of {sorted_paths.characters}, in "
            f"product more than {GLOB_STEPS_MAX}; send fewer patterns, or whole paths or ids"
        )
        raise EventError(ErrorCode.TOO_MANY, message, "$.constraints")
    for constraints in lists:
        constraints.match_paths(sorted_paths)
