"""Strategy `tiers`: at which fidelity each behavior is shown.

Decides tiers, demotion and the rendered text. Source: floop's Token Budget System, whose numbers these are;
where it contradicts itself, the rules here hold:

- Tiers by activation: full, summary, name, or left out (`below_threshold`); a constraint is never below
  summary. A summary is the given one, unless it is blank; else the first line of the content that is not
  blank, without the white space around it, cut to `summary_characters` code points of which the last is
  `…`; where all lines are blank, the name.
- Canonical order: constraints first, then activation descending, id, canonical JSON.
- Over the limit, by the exact count of the whole text: the last in canonical order goes down a tier at a time
  until the text fits or it is left out, before the one above it is touched (`lowest_first`); or each in turn
  goes down one tier, round after round (`round_robin`). Constraints come last, each once, and only down to
  summary; if that is not enough the result is infeasible.
- A tier with which the text costs no less is passed over.
- What the whole costs at each step follows from its lines (see `reckon`); what comes out was counted itself.
"""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import UNSET

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate
from apportion.core.results import ComposedItem, Entry, Fidelity, Group, Outcome, Reason, Status
from apportion.core.strategies.base import CandidateNeeds, Composition, Task, mark_repeats, missing, withhold
from apportion.core.strategies.tiers.demote import fit
from apportion.core.strategies.tiers.policy import TiersPolicy
from apportion.core.strategies.tiers.rank import FULL, NAME, OMITTED, Item, rank
from apportion.core.strategies.tiers.render import TITLES, sections, texts_of

_SELECTED, _OMITTED, _BUDGET_EXCEEDED = Outcome.SELECTED, Outcome.OMITTED, Reason.BUDGET_EXCEEDED
_FIDELITIES = (Fidelity.FULL, Fidelity.SUMMARY, Fidelity.NAME)


class Tiers:
    """The strategy; see the module."""

    name = "tiers"
    policy_type = TiersPolicy
    reads: ClassVar = frozenset({"candidates", "constraints.must_exclude"})
    needs: ClassVar = frozenset({"candidates"})
    candidate_needs: ClassVar = CandidateNeeds(("content", "kind", "activation"))

    def unsuitable(self, candidate: Candidate, policy: TiersPolicy) -> EventError | None:
        """Return why this candidate cannot be used: a field is missing, or its kind is unknown."""
        error = missing(candidate, self.candidate_needs.every)
        if error is None and candidate.kind not in TITLES:
            message = f"strategy {policy.strategy} knows the kinds {', '.join(TITLES)}"
            return EventError(ErrorCode.UNKNOWN_KIND, message, ".kind")
        return error

    def compose(self, task: Task[TiersPolicy]) -> Composition:
        """Give each its tier, then demote until the text fits; constraints are never left out."""
        items = rank(task)
        mark_repeats(items)
        if task.withheld is not None:
            withhold(items, task.withheld)
        table = task.policy.tiers
        shown = [one for one in items if one.reason is None]
        for one in shown:
            one.texts = texts_of(one.prepared, table.summary_characters)
        sheet = fit(shown, task.limit_tokens, task.counter, table.demotion)
        _count_shown(task, shown)
        if sheet.tokens > task.limit_tokens:
            for one in shown:
                one.reason = Reason.INFEASIBLE
            return _composition(Status.INFEASIBLE, items, "", 0)
        out = [one for one in shown if one.tier == OMITTED]
        _count(task, NAME, out)
        for one in out:
            one.reason, one.margin = _BUDGET_EXCEEDED, sheet.margin(one)
        return _composition(Status.COMPOSED if sheet.text else Status.EMPTY, items, sheet.text, sheet.tokens)


def _count_shown(task: Task[TiersPolicy], items: Sequence[Item]) -> None:
    """Set the tokens of what each item was to show at first, and of what it shows."""
    by_tier: tuple[list[Item], ...] = ([], [], [])
    for one in items:
        by_tier[one.first].append(one)
        if one.first < one.tier < OMITTED:
            by_tier[one.tier].append(one)
    for tier, those in enumerate(by_tier):
        _count(task, tier, those)


def _count(task: Task[TiersPolicy], tier: int, items: Sequence[Item]) -> None:
    """Set the tokens of what a tier shows of these items."""
    if tier == FULL:
        counts = task.count_contents([one.prepared for one in items])
    else:
        counts = task.counter.count_many([one.texts[tier] for one in items])
    for one, tokens in zip(items, counts, strict=True):
        one.tokens[tier] = tokens


def _composition(status: Status, items: list[Item], text: str, used_tokens: int) -> Composition:
    standing = sections([one for one in items if one.reason is None])
    return Composition(
        status=status,
        text=text,
        items=tuple(_composed(one) for shown in standing.values() for one in shown),
        entries=[_entry(place, one) for place, one in enumerate(items, 1)],
        groups=tuple(_group(kind, shown, items) for kind, shown in standing.items()),
        estimated_tokens=sum(one.tokens[one.tier] for shown in standing.values() for one in shown),
        used_tokens=used_tokens,
    )


def _composed(one: Item) -> ComposedItem:
    kind = one.prepared.kind
    group, fidelity, tokens = TITLES[kind].lower(), _FIDELITIES[one.tier], one.tokens[one.tier]
    return ComposedItem(id=one.prepared.id, kind=kind, group=group, fidelity=fidelity, tokens=tokens)


def _entry(place: int, one: Item) -> Entry:
    selected = one.reason is None
    return Entry(
        one.prepared.id,
        one.prepared.kind,
        TITLES[one.prepared.kind].lower(),
        place,
        _SELECTED if selected else _OMITTED,
        one.activation,
        UNSET,
        one.tokens[one.tier] if selected else one.tokens[one.tier] or one.tokens[one.first] or UNSET,
        _FIDELITIES[one.tier] if selected else UNSET,
        one.reason or UNSET,
        one.margin or UNSET,
        one.prepared.constraint or UNSET,
    )


def _group(kind: str, shown: list[Item], items: list[Item]) -> Group:
    mine = [one.tokens[one.first] for one in items if one.prepared.kind == kind]
    used = sum(one.tokens[one.tier] for one in shown)
    rejected = len(mine) - len(shown)
    name = TITLES[kind].lower()
    return Group(name=name, min=0, used=used, available=sum(mine), selected=len(shown), rejected=rejected)
