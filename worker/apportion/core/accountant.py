"""Accounting of a strategy's verdicts: items, entries, groups, margins, reasons and counts."""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from sys import getsizeof

from msgspec import UNSET

from apportion.core.candidates.preparation import Excluded
from apportion.core.events import Opt
from apportion.core.lru import process_wide
from apportion.core.results import (
    Bound,
    Certificate,
    ComposedItem,
    Entry,
    Group,
    Outcome,
    Reason,
    ReasonCount,
    Shortfall,
    Status,
)
from apportion.core.strategy_api.verdict import GroupBounds, Output, Verdict, Verdicts

_REASONS: Mapping[Bound, Reason] = {
    Bound.ID: Reason.DUPLICATE,
    Bound.SUBJECT: Reason.SUPERSEDED,
    Bound.GROUP: Reason.UNSUITABLE,
    Bound.EXCLUSION: Reason.EXCLUDED_BY_POLICY,
    Bound.CONTENT: Reason.NO_CONTENT,
    Bound.THRESHOLD: Reason.BELOW_THRESHOLD,
    Bound.REDUNDANCY: Reason.REDUNDANT,
    Bound.SOURCE: Reason.SOURCE_MAX_REACHED,
    Bound.LANE: Reason.LANE_MAX_REACHED,
    Bound.RELEVANCE: Reason.TOOL_NOT_RELEVANT,
    Bound.TOOLS: Reason.TOOLS_MAX_REACHED,
    Bound.UNTRUSTED: Reason.UNTRUSTED_MAX_REACHED,
    Bound.CATEGORY: Reason.CATEGORY_BUDGET_REACHED,
    Bound.LIMIT: Reason.BUDGET_EXCEEDED,
    Bound.PREFIX: Reason.DISPLACED_BY_PREFIX,
    Bound.ROOM: Reason.NO_ROOM,
    Bound.HISTORY: Reason.HISTORY_TRUNCATED,
    Bound.RENDER: Reason.DROPPED_AFTER_RENDER,
}
BOUNDS: Mapping[str, Bound] = {
    reason: bound for bound, reason in _REASONS.items() if bound is not Bound.SUBJECT
}
"""The bound that each reason names; a reason without an entry names no bound.

`superseded` names none: the cause is an equal id or an equal subject.
"""
_PRECEDENCE = {reason: rank for rank, reason in enumerate(Reason)}
_cost_of = attrgetter("cost")
_EMPTY_GROUPS_MAX = 1 << 10
_COMPOSITION_BYTES = 800
_GROUP_BYTES = 50
"""Most groups are empty, and empty groups are shared."""
_ENTRY_BYTES = 400
"""Includes the string objects of id and kind without their characters, and the parts of the score."""
_ITEM_BYTES = 80
_NUMBER_BYTES = 36
_NUMBERS_OF_RANGE = 4
"""Two numbers and their tuple. An item and its entry share the ranges of an excerpt."""


class Composition(Output, frozen=True, kw_only=True):
    """The result of a task: a strategy's output with its accounts."""

    status: Status
    entries: tuple[Entry, ...] = ()
    """One for each candidate that the strategy saw, by rank."""
    groups: tuple[Group, ...] = ()
    items: tuple[ComposedItem, ...] = ()
    estimated_tokens: int = 0
    """The sum that the selection charged."""
    certificate: Opt[Certificate] = UNSET

    @property
    def size_bytes(self) -> int:
        """The estimated memory in bytes, from measured sizes of its parts; a test checks the estimate."""
        entries = self.entries
        names = sum([len(entry.id) + len(entry.kind) for entry in entries])
        ranges = sum([len(item.lines) for item in self.items if item.lines is not UNSET])
        numbers = len(self.kept or ()) + 2 * len(self.breakpoints) + _NUMBERS_OF_RANGE * ranges
        return (
            _COMPOSITION_BYTES
            + _GROUP_BYTES * len(self.groups)
            + _ENTRY_BYTES * len(entries)
            + names
            + _ITEM_BYTES * len(self.items)
            + _NUMBER_BYTES * numbers
            + getsizeof(self.text)
            + getsizeof(self.system_prompt)
            + len(self.carried)
        )


NOTHING = Composition(status=Status.EMPTY)


def account(answer: Verdicts, withheld: Reason | None) -> Composition:
    """Return the composition that a strategy's verdicts describe.

    With `withheld`, every candidate is omitted for that reason. Reasons before `excluded_by_policy` still
    hold, except if `withheld` is `duplicate`.
    """
    reasons = _reasons(withheld, infeasible=answer.infeasible)
    items: list[ComposedItem] = []
    for verdict in answer.standing:
        fidelity = verdict.fidelity
        assert fidelity is not None, "a selected candidate has a fidelity"
        lines = UNSET if verdict.excerpt is None else verdict.excerpt.lines
        items.append(ComposedItem(verdict.id, verdict.kind, verdict.group, fidelity, verdict.tokens, lines))
    estimated = answer.estimated_tokens
    status = Status.COMPOSED if items else Status.EMPTY
    return Composition(
        status=Status.INFEASIBLE if answer.infeasible else status,
        entries=tuple(
            [
                _omitted(verdict, rank, reasons) if verdict.fidelity is None else _selected(verdict, rank)
                for rank, verdict in enumerate(answer.verdicts, 1)
            ]
        ),
        groups=_groups(answer),
        items=tuple(items),
        estimated_tokens=sum(map(_cost_of, answer.standing)) if estimated is None else estimated,
        certificate=answer.certificate or UNSET,
        **{name: getattr(answer, name) for name in Output.__struct_fields__},
    )


def entries_of(made: Composition, aside: Sequence[Excluded]) -> tuple[Entry, ...]:
    """Return all entries by rank: the composition's first, then excluded candidates by id and reason."""
    if not aside:
        return made.entries
    ordered = sorted(aside, key=lambda excluded: (excluded.id, excluded.reason))
    first = len(made.entries) + 1
    return made.entries + tuple(
        Entry(excluded.id, excluded.kind, excluded.group, rank, Outcome.OMITTED, reason=excluded.reason)
        for rank, excluded in enumerate(ordered, first)
    )


def reason_counts(entries: Iterable[Entry]) -> tuple[ReasonCount, ...]:
    """Return the number of omitted candidates for each reason: highest number first, ties by name."""
    counts: dict[Reason, int] = {}
    for entry in entries:
        if entry.reason is not UNSET:
            counts[entry.reason] = counts.get(entry.reason, 0) + 1
    return tuple(
        [ReasonCount(*count) for count in sorted(counts.items(), key=lambda count: (-count[1], count[0]))]
    )


def _reasons(withheld: Reason | None, *, infeasible: bool) -> Mapping[Bound | None, Reason]:
    """Return the reason for each bound; with `withheld`, also under None, for candidates without a bound."""
    reasons: dict[Bound | None, Reason] = {**_REASONS}  # type: ignore[dict-item] # None is added
    first, instead = len(_PRECEDENCE), Reason.INFEASIBLE
    if withheld is not None:
        first = 0 if withheld is Reason.DUPLICATE else _PRECEDENCE[Reason.EXCLUDED_BY_POLICY]
        instead = withheld
        reasons[None] = withheld
    elif infeasible:
        first = _PRECEDENCE[Reason.BUDGET_EXCEEDED]
    return {bound: reason if _PRECEDENCE[reason] < first else instead for bound, reason in reasons.items()}


# A look-up of an enum's member costs about half as much as an entry.
_SELECTED, _OMITTED = Outcome.SELECTED, Outcome.OMITTED
_SUPERSEDED, _INFEASIBLE = Reason.SUPERSEDED, Reason.INFEASIBLE


def _selected(verdict: Verdict, rank: int) -> Entry:
    return Entry(
        verdict.id,
        verdict.kind,
        verdict.group,
        rank,
        outcome=_SELECTED,
        score=verdict.score,
        parts=verdict.parts,
        tokens=verdict.tokens,
        fidelity=verdict.fidelity or UNSET,
        full_tokens=verdict.full_tokens or UNSET,
        constraint=verdict.constraint or UNSET,
        redundant=verdict.redundant or UNSET,
        lexical=verdict.lexical,
        excerpt=verdict.excerpt or UNSET,
        moved=verdict.moved or UNSET,
    )


def _omitted(verdict: Verdict, rank: int, reasons: Mapping[Bound | None, Reason]) -> Entry:
    tokens, margin = verdict.tokens or verdict.cost or UNSET, verdict.margin
    reason, bound = reasons[verdict.bound], verdict.bound
    return Entry(
        verdict.id,
        verdict.kind,
        verdict.group,
        rank,
        outcome=_OMITTED,
        score=verdict.score,
        parts=verdict.parts,
        tokens=tokens,
        reason=reason,
        bound=verdict.withheld_by if reason is not _INFEASIBLE or bound is None else bound,
        needed=UNSET if margin is None or margin.needed == tokens else margin.needed,
        left=UNSET if margin is None else margin.left,
        more=verdict.more or UNSET,
        limit_left=verdict.limit_left,
        constraint=verdict.constraint or UNSET,
        redundant=verdict.redundant or UNSET,
        superseded_by=verdict.superseded_by if reason is _SUPERSEDED else UNSET,
        lexical=verdict.lexical,
    )


def _groups(answer: Verdicts) -> tuple[Group, ...]:
    in_groups: dict[str, list[Verdict]] = {}
    for verdict in answer.verdicts:
        in_groups.setdefault(verdict.group, []).append(verdict)
    groups: list[Group] = []
    for bounds in answer.groups:
        verdicts = in_groups.get(bounds.name)
        groups.append(_empty_group(bounds) if verdicts is None else _group(bounds, verdicts))
    return tuple(groups)


def _group(bounds: GroupBounds, verdicts: Sequence[Verdict]) -> Group:
    low, available, used = bounds.min, bounds.available, bounds.used
    selected = [verdict.tokens for verdict in verdicts if verdict.fidelity is not None]
    if available is None:
        available = sum(map(_cost_of, verdicts))
    return Group(
        name=bounds.name,
        min=low,
        max=bounds.max,
        used=sum(selected) if used is None else used,
        available=available,
        selected=len(selected),
        rejected=len(verdicts) - len(selected),
        shortfall=Shortfall(low, available) if bounds.short else UNSET,
    )


@process_wide(_EMPTY_GROUPS_MAX)
def _empty_group(bounds: GroupBounds) -> Group:
    """Return a group without candidates; cached, because most answers under a policy share it."""
    return _group(bounds, ())
