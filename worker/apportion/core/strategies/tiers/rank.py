"""First tier of each behavior by its activation, and canonical order."""

from apportion.core.canonical_json import thousandths
from apportion.core.strategies.tiers.policy import TiersPolicy
from apportion.core.strategy_api.task import Prepared, Task
from apportion.core.strategy_api.verdict import Bound, Verdict
from apportion.core.text.characters import lowered

CONSTRAINT = "constraint"
FULL, SUMMARY, NAME, OMITTED = range(4)
"""The tiers, most detailed first."""

TITLES = {
    CONSTRAINT: "Constraints",
    "directive": "Directives",
    "preference": "Preferences",
    "procedure": "Procedures",
}


class RankedItem(Verdict, gc=False, kw_only=True):
    """A candidate in canonical order, with its tier and its verdict."""

    prepared: Prepared
    is_constraint: bool
    first: int
    """The tier by its activation, before any demotion."""
    tier: int
    """The current tier."""
    tier_tokens: list[int]
    """The tokens of its text by tier; 0: not counted, or omitted."""
    texts: tuple[str, ...] = ()
    """Its text by tier: content, summary, name."""
    index: int = 0
    """Its index among the shown items."""
    line_units: int = 0
    """The units of its line with the line end (see `tier_count`)."""

    def below(self) -> range:
        """Return the lower tiers that it may have, the next one first."""
        return range(self.tier + 1, NAME if self.is_constraint else OMITTED + 1)

    def line(self) -> str:
        """Return its line in the text."""
        return f"- {self.texts[self.tier]}"


def rank(task: Task[TiersPolicy, None]) -> list[RankedItem]:
    """Return all candidates in canonical order, on their first tiers."""
    table = task.policy.tiers
    levels = [thousandths(level) for level in (table.full, table.summary, table.name)]
    groups = {kind: lowered(title) for kind, title in TITLES.items()}
    items = []
    for prepared in task.candidates:
        activation, is_constraint = prepared.facts.activation or 0, prepared.kind == CONSTRAINT
        tier = sum([activation < level for level in levels])
        if is_constraint:
            tier = min(tier, SUMMARY)
        items.append(
            RankedItem(
                prepared.id,
                prepared.kind,
                groups[prepared.kind],
                activation,
                constraint=prepared.constraint,
                bound=prepared.bound or (Bound.THRESHOLD if tier == OMITTED else None),
                prepared=prepared,
                is_constraint=is_constraint,
                first=tier,
                tier=tier,
                tier_tokens=[0, 0, 0, 0],
            )
        )
    items.sort(key=lambda item: (not item.is_constraint, -int(item.score or 0), item.id, item.prepared.tie))
    return items
