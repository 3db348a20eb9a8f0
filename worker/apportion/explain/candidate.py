"""One candidate that was left out, for a person: why, by how much, and what would have admitted it.

Decides only how it looks. What the record tells stands apart from what was found by composing again.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import UNSET
from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from apportion.core.levers import Lever
from apportion.core.results import ContextDecision, Entry, Reason, Status
from apportion.core.strategies import meaning_of
from apportion.explain.decision import in_points, percent
from apportion.printable import printable
from apportion.replay.why import AdmittingChange, Searched, Why

_NUMBERS = ("From", "To", "Displaces")
_DISPLACED_SHOWN = 10
_TOLD_MOST = 1 << 29
"""A bound above it is that of integers, and says nothing."""
_HEADING = Style(bold=True)
_ASIDE = Style(dim=True)
_NO_CHANGE = "no total, no ceiling, no score and no pin would have admitted it"


def candidate_explanation(decision: ContextDecision, entries: Sequence[Entry]) -> RenderableType:
    """Return what the record tells of the entries of one id, the one that stands for it first."""
    return Group(*_of_record(decision, entries[0]), *_of_repeats(entries[1:]))


def changes_explanation(found: Why) -> RenderableType:
    """Return the smallest changes that were found, one a row, and how far they are to be believed."""
    return Group(*_of_search(found))


def _of_record(decision: ContextDecision, one: Entry) -> Iterator[RenderableType]:
    score = "" if one.score is UNSET else f", score {in_points(one.score)}"
    yield _line(f"candidate {one.id}", _HEADING)
    yield _line(f"{one.kind or 'no kind'}, group {one.group or 'none'}, rank {one.rank}{score}")
    yield _line(f"decision {decision.decision_id}", _ASIDE)
    if one.reason is UNSET:
        yield from _of_standing(one)
        return
    if decision.status is Status.DUPLICATE:
        yield _line(
            f"The request was answered before, by decision {decision.duplicate_of}: ask about that one."
        )
        return
    yield _line(f"Left out, {_in_words(decision.policy.strategy, one.reason)}.")
    if one.constraint is not UNSET:
        yield _line(f"The constraint that decided is {one.constraint} of the request.")
    if one.redundant is not UNSET:
        yield _line(f"{percent(one.redundant.permille)} of it is in {one.redundant.covered_by}.")
    yield from _of_margin(one)
    for group in decision.groups:
        if group.name == one.group:
            floor = f"floor {group.min:,}, " if group.min else ""
            most = "no ceiling" if group.max is UNSET else f"ceiling {group.max:,}"
            had = f"{group.used:,} used, {group.available:,} available"
            yield _line(f"In the end {group.name} had: {floor}{most}, {had}.")
    whole = decision.tokens
    yield _line(f"In the end the limit of {whole.limit:,} had {whole.used:,} used, {whole.remaining:,} left.")


def _in_words(strategy: str, reason: Reason) -> str:
    """Return a reason and its meaning; of a reason of another version only the name is known."""
    meaning = meaning_of(strategy, reason)
    if meaning is None:
        return reason
    return f"{reason}: {meaning.text}" if meaning.helps else f"{reason}: {meaning.text}: {_NO_CHANGE}"


def _of_standing(one: Entry) -> Iterator[RenderableType]:
    tokens = "" if one.tokens is UNSET else f", {one.tokens:,} tokens"
    full = "" if one.full_tokens is UNSET else f" of {one.full_tokens:,}"
    yield _line(f"It stands in the context: {one.fidelity}{tokens}{full}.")
    if one.redundant is not UNSET:
        said = percent(one.redundant.permille)
        yield _line(f"When it was chosen {said} of it was in {one.redundant.covered_by}.")


def _of_margin(one: Entry) -> Iterator[RenderableType]:
    if one.margin is not None:
        needed, left = one.margin.needed, one.margin.left
        short = f", {needed - left:,} too few" if needed > left else ""
        yield _line(f"It needed {needed:,} tokens; when it was considered last {left:,} were left{short}.")
        if one.more is not UNSET:
            yield _line(f"With {one.more:,} tokens more of that alone it would have been selected.")
        if one.limit_left is not UNSET:
            yield _line(f"The limit had {one.limit_left:,} left then: too few as well.")
    elif one.tokens is not UNSET:
        yield _line(f"It would have cost {one.tokens:,} tokens.")


def _of_repeats(repeats: Sequence[Entry]) -> Iterator[RenderableType]:
    if repeats:
        times = "once" if len(repeats) == 1 else f"{len(repeats):,} times"
        yield _line(f"Its id came {times} more in the request; the others were left out as duplicates.")


def _of_search(found: Why) -> Iterator[RenderableType]:
    yield _line("\nThe smallest change found of each kind, by itself", _HEADING)
    if not found.changes:
        yield _line("none: there is nothing of the kind to change under this strategy")
        return
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style=_ASIDE)
    for column in ("Change", "From", "To", "Displaces", "Then it stands"):
        justify: Literal["left", "right"] = "right" if column in _NUMBERS else "left"
        table.add_column(column, justify=justify, overflow="fold")
    for change in found.changes:
        table.add_row(*map(_text, _cells(change)))
    yield table
    for change in found.changes:
        if change.displaced:
            yield _line(f"{change.key} displaces {_named(change.displaced)}")
    yield _line(
        f"Found by composing {found.recompositions:,} times, each answer checked by composing once more. "
        "Counts are not monotone: what was found admits it and one less does not; "
        "a smaller one elsewhere is not ruled out.",
        _ASIDE,
    )
    if any(change.ended is Searched.STOPPED for change in found.changes):
        yield _line("The limit of recompositions was reached: what is marked so was not searched to its end.")


def _cells(change: AdmittingChange) -> tuple[str, str, str, str, str]:
    stopped, is_pin = change.ended is Searched.STOPPED, change.lever is Lever.PIN
    now = "" if is_pin else _value(change, change.now)
    if change.needed is UNSET:
        return (
            change.key,
            now,
            "",
            "",
            "not found: limit reached" if stopped else f"none found{_most(change)}",
        )
    needed = "pinned" if is_pin else _value(change, change.needed)
    fidelity = f"{change.fidelity} (limit reached)" if stopped else str(change.fidelity)
    return (change.key, now, needed, str(len(change.displaced)), fidelity)


def _named(ids: Sequence[str]) -> str:
    rest = len(ids) - _DISPLACED_SHOWN
    return ", ".join(ids[:_DISPLACED_SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")


def _most(change: AdmittingChange) -> str:
    """Return how far was searched, where a policy or a field's range says it, and what refused it there."""
    is_bounded = change.lever is not Lever.PIN and change.most <= _TOLD_MOST
    told = f" up to {_value(change, change.most)}" if is_bounded else ""
    return told if change.reason is UNSET else f"{told}: {change.reason}"


def _value(change: AdmittingChange, number: int) -> str:
    return in_points(number) if change.lever is Lever.SCORE else f"{number:,}"


def _line(text: str, style: Style | str = "") -> Text:
    lead = "\n" if text.startswith("\n") else ""
    return Text(lead + printable(text.removeprefix("\n")), style)


def _text(text: str) -> Text:
    return Text(printable(text))
