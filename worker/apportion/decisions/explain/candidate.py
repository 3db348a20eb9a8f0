"""The explanation of a rejected candidate: why, by how much, and the changes that would have admitted it."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET
from rich.console import Group, RenderableType
from rich.console import group as grouped

from apportion.core.results import Bound, ContextDecision, Entry, Reason, Status
from apportion.core.strategies import meaning_of
from apportion.core.strategy_api.levers import Lever
from apportion.decisions.explain.decision import (
    DIM,
    HEADING,
    heading,
    in_points,
    line,
    lines_shown,
    percent,
    table,
)
from apportion.decisions.replay.findings import Finding, FindingKind
from apportion.decisions.replay.why import AdmittingChange, Searched, Why
from apportion.printable import printable

_DISPLACED_SHOWN = 10
_SHOWN_MOST = 1 << 29
"""A larger bound is only the range of integers, and is not shown."""
_NO_CHANGE = "no total, no ceiling, no score and no pin would have admitted it"


def candidate_explanation(decision: ContextDecision, entries: Sequence[Entry]) -> RenderableType:
    """Return the recorded facts about the entries of one id; the first entry counts."""
    facts = [*_record_lines(decision, entries[0])]
    if (repeats := len(entries) - 1) > 0:
        times = "once" if repeats == 1 else f"{repeats:,} times"
        facts.append(line(f"The request has its id {times} more; the others were left out."))
    return Group(*facts)


def not_searched(finding: Finding) -> str:
    """Return a line that says why no change was searched: the events do not give the decision."""
    if finding.found is FindingKind.NO_EVENT:
        return "no_event: the events do not hold this decision's request, so no change was searched"
    place = f" at {printable(finding.place)}" if finding.place else ""
    message = "these events do not give this decision, so no change was searched; see docs/verify.md"
    return f"{finding.found}{place}: {message}"


def _record_lines(decision: ContextDecision, entry: Entry) -> Iterator[RenderableType]:
    score = "" if entry.score is UNSET else f", score {in_points(entry.score)}"
    yield line(f"candidate {entry.id}", HEADING)
    yield line(f"{entry.kind or 'no kind'}, group {entry.group or 'none'}, rank {entry.rank}{score}")
    yield line(f"decision {decision.decision_id}", DIM)
    if entry.lexical is not UNSET:
        yield line(f"Its relevance to the query is {in_points(entry.lexical)}.")
    if entry.reason is UNSET:
        yield from _selected_lines(entry)
        return
    if decision.status is Status.DUPLICATE:
        yield line(
            f"The request was answered before, by decision {decision.duplicate_of}: explain that decision."
        )
        return
    yield line(f"Left out, {_in_words(decision.policy.strategy, entry.reason)}.")
    if entry.constraint is not UNSET:
        yield line(f"The constraint that decided is {entry.constraint} of the request.")
    if entry.bound is Bound.PREFIX:
        yield line("It would fit, and is kept out so that the beginning stays (prefix.slack of the policy).")
    if entry.redundant is not UNSET:
        yield line(f"{percent(entry.redundant.permille)} of it is in {entry.redundant.covered_by}.")
    if entry.superseded_by is not UNSET:
        yield line(f"{entry.superseded_by} counts instead.")
    yield from _margin_lines(entry)
    for group in decision.groups:
        if group.name == entry.group:
            floor = f"floor {group.min:,}, " if group.min else ""
            most = "no ceiling" if group.max is UNSET else f"ceiling {group.max:,}"
            had = f"{group.used:,} used, {group.available:,} available"
            yield line(f"In the end {group.name} had: {floor}{most}, {had}.")
    tokens = decision.tokens
    yield line(
        f"In the end the limit of {tokens.limit:,} had {tokens.used:,} used, {tokens.remaining:,} left."
    )


def _in_words(strategy: str, reason: Reason) -> str:
    """Return a reason and its meaning; only the name if another version defines it."""
    meaning = meaning_of(strategy, reason)
    if meaning is None:
        return reason
    return f"{reason}: {meaning.text}" if meaning.helps else f"{reason}: {meaning.text}: {_NO_CHANGE}"


def _selected_lines(entry: Entry) -> Iterator[RenderableType]:
    tokens = "" if entry.tokens is UNSET else f", {entry.tokens:,} tokens"
    full = "" if entry.full_tokens is UNSET else f" of {entry.full_tokens:,}"
    yield line(f"It is in the context: {entry.fidelity}{tokens}{full}.")
    if entry.excerpt is not UNSET:
        yield line(f"Of its {entry.excerpt.passages:,} passages it shows {lines_shown(entry.excerpt)}.")
    if entry.redundant is not UNSET:
        share = percent(entry.redundant.permille)
        yield line(f"When it was selected, {share} of it was in {entry.redundant.covered_by}.")


def _margin_lines(entry: Entry) -> Iterator[RenderableType]:
    if entry.margin is not None:
        needed, left = entry.margin.needed, entry.margin.left
        short = f", {needed - left:,} too few" if needed > left else ""
        yield line(f"It needed {needed:,} tokens; when it was considered last {left:,} were left{short}.")
        if entry.more is not UNSET:
            yield line(f"With {entry.more:,} tokens more of that alone it would have been selected.")
        if entry.limit_left is not UNSET:
            yield line(f"The limit had {entry.limit_left:,} left then: too few as well.")
    elif entry.tokens is not UNSET:
        yield line(f"It would have cost {entry.tokens:,} tokens.")


@grouped()
def changes_explanation(why: Why) -> Iterator[RenderableType]:
    """Return a table of the smallest changes found, and a note on their reliability."""
    yield heading("The smallest change found of each kind, by itself")
    if not why.changes:
        yield line("none: this strategy has nothing to change that could admit it")
        return
    rows = table("Change", "From", "To", "Displaces", "Admitted as", right=(1, 2, 3))
    for change in why.changes:
        rows.add_row(*map(line, _cells(change)))
    yield rows
    for change in why.changes:
        if change.displaced:
            yield line(f"{change.key} displaces {_named(change.displaced)}")
    yield line(
        f"Found by composing {why.recompositions:,} times, each answer checked by composing once more. "
        "Counts are not monotone: the value found admits it, and one less does not; "
        "a smaller value elsewhere is possible.",
        DIM,
    )
    if any(change.ended is Searched.STOPPED for change in why.changes):
        yield line("The limit of recompositions was reached: rows marked so were not searched to the end.")


def _cells(change: AdmittingChange) -> tuple[str, str, str, str, str]:
    stopped, is_pin = change.ended is Searched.STOPPED, change.lever is Lever.PIN
    now = "" if is_pin else _value(change, change.now)
    if change.needed is UNSET:
        missing = "not found: limit reached" if stopped else f"none found{_most(change)}"
        return change.key, now, "", "", missing
    needed = "pinned" if is_pin else _value(change, change.needed)
    fidelity = f"{change.fidelity} (limit reached)" if stopped else str(change.fidelity)
    return (change.key, now, needed, str(len(change.displaced)), fidelity)


def _named(ids: Sequence[str]) -> str:
    rest = len(ids) - _DISPLACED_SHOWN
    return ", ".join(ids[:_DISPLACED_SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")


def _most(change: AdmittingChange) -> str:
    """Return the largest value tried, if a policy or a range sets it, and the reason that remained."""
    is_bounded = change.lever is not Lever.PIN and change.most <= _SHOWN_MOST
    searched = f" up to {_value(change, change.most)}" if is_bounded else ""
    return searched if change.reason is UNSET else f"{searched}: {change.reason}"


def _value(change: AdmittingChange, number: int) -> str:
    return in_points(number) if change.lever is Lever.SCORE else f"{number:,}"
