"""Which candidates a request's constraints mean. Exclusion over pin over must-include is the caller's.

Decides matches by id, kind, lane and path; knows nothing of budgets. A constraint is named by its
place (`pinned[0]`), never by its text.
"""

from collections import defaultdict
from collections.abc import Sequence

from apportion.core.events import Constraint, MatchType
from apportion.core.glob import Glob
from apportion.core.results import ConstraintCount


class ConstraintList:
    """One list of constraints, ready to be asked about many candidates.

    Raises:
        EventError: a pattern is not a valid glob.
    """

    def __init__(self, name: str, constraints: Sequence[Constraint]) -> None:
        """Compile the list; `name` is the field's, as `must_exclude`."""
        self.name = name
        self._given = len(constraints)
        self._matched: set[int] = set()
        self._ids: defaultdict[str, list[int]] = defaultdict(list)
        self._kinds: defaultdict[str, list[int]] = defaultdict(list)
        self._lanes: defaultdict[str, list[int]] = defaultdict(list)
        self._globs: list[tuple[int, Glob]] = []
        exact = {MatchType.ID: self._ids, MatchType.KIND: self._kinds, MatchType.LANE: self._lanes}
        for index, constraint in enumerate(constraints):
            match = constraint.match
            if match.type is MatchType.PATTERN:
                pointer = f"$.constraints.{name}[{index}].match.value"
                self._globs.append((index, Glob(match.value, pointer)))
            else:
                exact[match.type][match.value].append(index)

    def first(self, candidate_id: str, kind: str, lane: str, path: str | None) -> str:
        """Return the place of the first constraint that means the candidate, or the empty string."""
        if not self._given:
            return ""
        found = [*self._ids.get(candidate_id, ()), *self._kinds.get(kind, ()), *self._lanes.get(lane, ())]
        if path is not None:
            found += [index for index, glob in self._globs if glob.matches(path)]
        if not found:
            return ""
        self._matched.update(found)
        return f"{self.name}[{min(found)}]"

    def count(self) -> ConstraintCount:
        """Return how many constraints have matched a candidate so far."""
        matched = len(self._matched)
        return ConstraintCount(given=self._given, matched=matched, unmatched=self._given - matched)
