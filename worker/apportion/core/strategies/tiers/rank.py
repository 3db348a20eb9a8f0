"""Tiers by activation, and canonical order.

Decides where each behavior starts, and who comes before whom. Canonical order: constraints first, then
activation descending, id, then canonical JSON, so that the order of the request never shows.
"""

from msgspec import Struct

from apportion.core.candidates import Prepared
from apportion.core.identity import thousandths
from apportion.core.results import Margin, Reason
from apportion.core.strategies.base import Task
from apportion.core.strategies.tiers.policy import TiersPolicy

CONSTRAINT = "constraint"
FULL, SUMMARY, NAME, OMITTED = range(4)
"""The tiers; a greater one shows less."""


class Item(Struct, gc=False):
    """A candidate in canonical order, and what has become of it so far.

    `texts` and the `tokens` of each alone stand by tier; what is not known yet is empty, or 0. `place` is
    that among what is shown, `line_units` are those of its line and its end (see `reckon`).
    """

    prepared: Prepared
    is_constraint: bool
    activation: int
    first: int
    tier: int
    tokens: list[int]
    reason: Reason | None
    texts: tuple[str, ...] = ()
    margin: Margin | None = None
    place: int = 0
    line_units: int = 0

    def below(self) -> range:
        """Return the tiers that it can go down to, the next one first."""
        return range(self.tier + 1, NAME if self.is_constraint else OMITTED + 1)

    def line(self) -> str:
        """Return the line that it has in the text."""
        return f"- {self.texts[self.tier]}"


def rank(task: Task[TiersPolicy]) -> list[Item]:
    """Return all candidates in canonical order, at the tiers of their activation."""
    table = task.policy.tiers
    levels = [thousandths(level) for level in (table.full, table.summary, table.name)]
    below_threshold = Reason.BELOW_THRESHOLD
    items = []
    for prepared in task.candidates:
        activation, is_constraint = prepared.rounded["activation"], prepared.kind == CONSTRAINT
        tier = sum([activation < level for level in levels])
        if is_constraint:
            tier = min(tier, SUMMARY)
        reason = prepared.omitted or (below_threshold if tier == OMITTED else None)
        items.append(Item(prepared, is_constraint, activation, tier, tier, [0, 0, 0, 0], reason))
    items.sort(
        key=lambda one: (not one.is_constraint, -one.activation, one.prepared.id, one.prepared.canonical)
    )
    return items
