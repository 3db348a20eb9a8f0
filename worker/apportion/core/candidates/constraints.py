"""Which candidates a request's constraints mean. Exclusion over pin over must-include is the caller's.

Decides matches by id, kind, lane and path; knows nothing of budgets. A constraint is named by its
place (`pinned[0]`), never by its text.
"""

from collections.abc import Collection, Sequence

from apportion.core.candidates.glob import GLOB_STEPS_MAX, Globs, Paths
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Constraint, MatchType
from apportion.core.results import ConstraintCount


class ConstraintList:
    """One list of constraints, ready to be asked about many candidates once its patterns are matched.

    Raises:
        EventError: a pattern is not a valid glob.
    """

    def __init__(self, name: str, constraints: Sequence[Constraint]) -> None:
        """Compile the list; `name` is the field's, as `must_exclude`."""
        self.name = name
        self.given = len(constraints)
        self._patterns: list[tuple[int, str, str]] = []
        self._ids: dict[str, list[int]] = {}
        self._kinds: dict[str, list[int]] = {}
        self._lanes: dict[str, list[int]] = {}
        exact = {MatchType.ID: self._ids, MatchType.KIND: self._kinds, MatchType.LANE: self._lanes}
        for index, constraint in enumerate(constraints):
            match = constraint.match
            if match.type is MatchType.PATTERN:
                pointer = f"$.constraints.{name}[{index}].match.value"
                self._patterns.append((index, match.value, pointer))
            else:
                exact[match.type].setdefault(match.value, []).append(index)
        self._globs = Globs(self._patterns)
        self._paths: dict[str, int] = {}
        self._matched: set[int] = set()

    @property
    def has_patterns(self) -> bool:
        """Whether paths matter to this list."""
        return bool(self._patterns)

    @property
    def glob_characters(self) -> int:
        """How many characters its patterns with wildcards have."""
        return self._globs.characters

    def match_paths(self, paths: Paths) -> None:
        """Match the patterns against the paths of all candidates."""
        self._paths, matched = self._globs.match(paths)
        self._matched |= matched

    def first(self, candidate_id: str, kind: str, lane: str, path: str | None) -> str:
        """Return the place of the first constraint that means the candidate, or the empty string."""
        if not self.given:
            return ""
        found = -1 if path is None else self._paths.get(path, -1)
        exact = (self._ids.get(candidate_id), self._kinds.get(kind), self._lanes.get(lane))
        for same in exact:
            if same is not None:
                if same[0] not in self._matched:
                    self._matched.update(same)
                found = same[0] if found < 0 else min(found, same[0])
        return "" if found < 0 else f"{self.name}[{found}]"

    def count(self) -> ConstraintCount:
        """Return how many constraints have matched a candidate so far."""
        matched = len(self._matched)
        return ConstraintCount(
            name=self.name, given=self.given, matched=matched, unmatched=self.given - matched
        )


def match_paths(lists: Collection[ConstraintList], paths: Collection[str | None]) -> None:
    """Match the patterns of all lists against the paths of all candidates, once.

    Raises:
        EventError: the patterns and paths are so long that it would take too long.
    """
    lists = [each for each in lists if each.has_patterns]
    if not lists:
        return
    sorted_paths = Paths(path for path in paths if path is not None)
    characters = sum(each.glob_characters for each in lists)
    if characters * sorted_paths.characters > GLOB_STEPS_MAX:
        message = (
            f"patterns with wildcards of {characters} characters on paths of {sorted_paths.characters}, in "
            f"product more than {GLOB_STEPS_MAX}; send fewer patterns, or whole paths or ids"
        )
        raise EventError(ErrorCode.TOO_MANY, message, "$.constraints")
    for each in lists:
        each.match_paths(sorted_paths)
