"""Strategy `tiers`: the fidelity of each behavior.

`docs/strategies/tiers.md` has the rules, from floop's Token Budget System. More exactly:

- A blank summary counts as none. The line of a default summary is stripped. If all lines are blank, the
  summary is the name.
- Canonical order: constraints first, then activation descending, id, canonical JSON. The last item is
  demoted first; with `round_robin`, each item in turn goes down one tier, round after round.
- `tier_count` gives the count of each step. The final text is counted as a whole.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate, ContextRequest
from apportion.core.results import Fidelity, Reason
from apportion.core.strategies.tiers.demote import fit
from apportion.core.strategies.tiers.policy import TiersPolicy
from apportion.core.strategies.tiers.rank import FULL, NAME, OMITTED, TITLES, RankedItem, rank
from apportion.core.strategies.tiers.render import sections, texts_of
from apportion.core.strategy_api.levers import Lever, Levers, Meaning, ScoreField
from apportion.core.strategy_api.strategy import CandidateNeeds, mark_superseded, missing
from apportion.core.strategy_api.task import SessionPart, Task
from apportion.core.strategy_api.verdict import Bound, GroupBounds, Verdicts, mark_repeats
from apportion.core.text.characters import lowered

_FIDELITIES = (Fidelity.FULL, Fidelity.SUMMARY, Fidelity.NAME)


class TiersStrategy:
    """The strategy `tiers`; the module's docstring has its rules."""

    name = "tiers"
    policy_type = TiersPolicy
    reads: ClassVar = frozenset({"candidates", "constraints.must_exclude"})
    needs: ClassVar = frozenset({"candidates"})
    candidate_needs: ClassVar = CandidateNeeds(("content", "kind", "activation"))
    meanings: ClassVar[Mapping[Reason, Meaning]] = {
        Reason.BELOW_THRESHOLD: Meaning(
            "its activation is below the lowest of the policy's tiers", (Lever.SCORE,)
        )
    }

    def levers(self, policy: TiersPolicy, group: str) -> Levers:  # noqa: ARG002 - the protocol's
        """Return the score field: activation."""
        return Levers(scores=(ScoreField("activation"),))

    def unsuitable(self, candidate: Candidate, policy: TiersPolicy) -> EventError | None:
        """Return an error if a field of the candidate is missing, or if its kind is unknown."""
        error = missing(candidate, self.candidate_needs.every)
        if error is None and candidate.kind not in TITLES:
            message = f"strategy {policy.strategy} knows the kinds {', '.join(TITLES)}"
            return EventError(ErrorCode.UNKNOWN_KIND, message, ".kind")
        return error

    def read_own(self, request: ContextRequest, session: SessionPart) -> None:
        """Return None: the strategy reads no other fields."""

    def compose(self, task: Task[TiersPolicy, None]) -> Verdicts:
        """Give each item its tier, then demote items until the text fits."""
        items = rank(task)
        mark_superseded(items)
        mark_repeats(items)
        bounds = [GroupBounds(lowered(title)) for title in TITLES.values()]
        if not task.limit_tokens:
            return Verdicts(verdicts=items, groups=bounds)
        table = task.policy.tiers
        shown = [item for item in items if item.bound is None]
        for item in shown:
            item.texts = texts_of(item.prepared, table.summary_characters)
        sheet = fit(shown, task.limit_tokens, task.counter, table.demotion)
        _count_shown(task, shown)
        out = [item for item in shown if item.tier == OMITTED]
        infeasible = sheet.tokens > task.limit_tokens
        if not infeasible:
            _count(task, NAME, out)
        for item in shown:
            item.tokens, item.cost = item.tier_tokens[item.tier], item.tier_tokens[item.first]
            if infeasible:
                item.bound = Bound.LIMIT
            elif item.tier == OMITTED:
                item.bound, item.margin = Bound.LIMIT, sheet.margin(item)
            else:
                item.stand(_FIDELITIES[item.tier])
                if item.tier != FULL:
                    item.full_tokens = item.tier_tokens[FULL]
        if infeasible:
            return Verdicts(verdicts=items, groups=bounds, infeasible=True)
        standing = [item for section in sections(shown).values() for item in section]
        return Verdicts(
            verdicts=items,
            groups=bounds,
            standing=standing,
            text=sheet.text,
            used_tokens=sheet.tokens,
            estimated_tokens=sum(item.tokens for item in standing),
        )


def _count_shown(task: Task[TiersPolicy, None], items: Sequence[RankedItem]) -> None:
    """Set the tokens of each item on its first tier, and on its current tier if it is not omitted."""
    by_tier: tuple[list[RankedItem], ...] = ([], [], [])
    for item in items:
        by_tier[item.first].append(item)
        if item.first < item.tier < OMITTED:
            by_tier[item.tier].append(item)
    for tier, shown in enumerate(by_tier):
        _count(task, tier, shown)


def _count(task: Task[TiersPolicy, None], tier: int, items: Sequence[RankedItem]) -> None:
    if tier == FULL:
        counts = task.count_contents([item.prepared for item in items])
    else:
        counts = task.counter.count_many([item.texts[tier] for item in items])
    for item, tokens in zip(items, counts, strict=True):
        item.tier_tokens[tier] = tokens
