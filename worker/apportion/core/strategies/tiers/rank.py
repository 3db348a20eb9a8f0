"""Tiers by activation, and canonical order.

Decides where each behavior starts, and who comes before whom. Canonical order: constraints first, then
activation descending, id, then canonical JSON, so that the order of the request never shows.
"""

from apportion.core.rounding import thousandths
from apportion.core.strategies.tiers.policy import TiersPolicy
from apportion.core.strategy_api.task import Prepared, Task
from apportion.core.strategy_api.verdict import Bound, Verdict
from apportion.core.text.characters import lowered

CONSTRAINT = "constraint"
FULL, SUMMARY, NAME, OMITTED = range(4)
"""The tiers; a greater one shows less."""


TITLES = {
    CONSTRAINT: "Constraints",
    "directive": "Directives",
    "preference": "Preferences",
    "procedure": "Procedures",
}


class RankedItem(Verdict, gc=False, kw_only=True):
    """A candidate in canonical order, its tier, and what becomes of it.

    `texts` and the tokens of each alone stand by tier; what is not known yet is empty, or 0. `place` is
    that among what is shown, `line_units` are those of its line and its end (see `reckon`).
    """

    prepared: Prepared
    is_constraint: bool
    first: int
    tier: int
    tier_tokens: list[int]
    texts: tuple[str, ...] = ()
    place: int = 0
    line_units: int = 0

    def below(self) -> range:
        """Return the tiers that it can go down to, the next one first."""
        return range(self.tier + 1, NAME if self.is_constraint else OMITTED + 1)

    def line(self) -> str:
        """Return the line that it has in the text."""
        return f"- {self.texts[self.tier]}"


def rank(task: Task[TiersPolicy, None]) -> list[RankedItem]:
    """Return all candidates in canonical order, at the tiers of their activation."""
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
