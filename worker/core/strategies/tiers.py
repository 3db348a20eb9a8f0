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
- A tier with which the text costs no less is passed over: as the counts of both texts alone say, or the whole
  where they are within `LOOSE_TOKENS`. `lowest_first` need not ask: on such a tier the text fits no better.
- The whole is counted only where it could fit: where its last count, less the most that the changes since can
  have saved, is within the limit. Where a counter keeps to `LOOSE_TOKENS` that finds the first state that
  fits, else "until it fits" holds along this path. What comes out was counted itself.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Self

from msgspec import UNSET, Struct
from pydantic import Field, model_validator

from worker.core.candidates import Prepared
from worker.core.errors import ErrorCode, EventError
from worker.core.events import MAX_INTEGER, Candidate
from worker.core.identity import thousandths
from worker.core.policy import Count, Policy, Table
from worker.core.render import SEPARATOR, join
from worker.core.results import ComposedItem, Entry, Fidelity, Group, Margin, Outcome, Reason, Status
from worker.core.strategies.base import Composition, Task, mark_repeats, missing, withhold
from worker.core.tokens import TokenCounter

LOOSE_TOKENS = 4
"""How far what a change saves in the whole can be from what the counts of its texts say. Estimators round up
once a text: 1. BPE tokens end at the newline before a list mark or a heading, so only a text's end can merge
otherwise: 4 was enough for every run of line ends and white space tried, 3 was not."""

_CONSTRAINT = "constraint"
_TITLES = {
    _CONSTRAINT: "Constraints",
    "directive": "Directives",
    "preference": "Preferences",
    "procedure": "Procedures",
}
_FRAMES = tuple(f"{SEPARATOR}## {title}\n- " for title in _TITLES.values())
"""All that can go with an item beside its text."""
_FIDELITIES = (Fidelity.FULL, Fidelity.SUMMARY, Fidelity.NAME)
_FULL, _SUMMARY, _NAME, _OMITTED = range(4)
"""The tiers; a greater one shows less."""


class Demotion(StrEnum):
    """Whether one item goes all the way down before the next is touched, or each one tier in turn."""

    LOWEST_FIRST = "lowest_first"
    ROUND_ROBIN = "round_robin"


Threshold = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class TiersTable(Table):
    """`[tiers]`: the least activation of each tier, and how items are demoted and cut."""

    full: Threshold = 0.7
    summary: Threshold = 0.3
    name: Threshold = 0.1
    demotion: Demotion = Field(default=Demotion.LOWEST_FIRST, strict=False)
    summary_characters: Annotated[int, Field(ge=1, le=MAX_INTEGER)] = 120

    @model_validator(mode="after")
    def _thresholds_fall(self) -> Self:
        if not self.name <= self.summary <= self.full:
            raise ValueError("name must not be above summary, nor summary above full")
        return self


class TiersPolicy(Policy):
    """A policy of strategy `tiers`."""

    budget_tokens: Count = 2_000
    tiers: TiersTable = TiersTable()


class _Item(Struct, gc=False):
    """A candidate in canonical order, and what has become of it so far.

    `texts` and the `tokens` of each alone stand by tier; what is not known yet is empty, or 0.
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

    def below(self) -> range:
        """Return the tiers that it can go down to, the next one first."""
        return range(self.tier + 1, _NAME if self.is_constraint else _OMITTED + 1)


class Tiers:
    """The strategy; see the module."""

    name = "tiers"
    policy_type = TiersPolicy
    reads: ClassVar = frozenset({"candidates", "constraints.must_exclude"})
    needs: ClassVar = frozenset({"candidates"})

    def unsuitable(self, candidate: Candidate, policy: TiersPolicy) -> EventError | None:
        """Return why this candidate cannot be used: a field is missing, or its kind is unknown."""
        error = missing(candidate, ("content", "kind", "activation"))
        if error is None and candidate.kind not in _TITLES:
            message = f"strategy {policy.strategy} knows the kinds {', '.join(_TITLES)}"
            return EventError(ErrorCode.UNKNOWN_KIND, message, ".kind")
        return error

    def compose(self, task: Task[TiersPolicy]) -> Composition:
        """Give each its tier, then demote until the text fits; constraints are never left out."""
        items = _rank(task)
        mark_repeats(items)
        if task.withheld is not None:
            withhold(items, task.withheld)
        shown = [one for one in items if one.reason is None]
        sheet = _fitted(shown, task)
        left = task.limit_tokens - sheet.count()
        for one in shown:
            if left < 0:
                one.reason = Reason.INFEASIBLE
            elif one.tier == _OMITTED:
                one.reason, one.margin = Reason.BUDGET_EXCEEDED, sheet.margin(one)
        if left < 0:
            return _composition(Status.INFEASIBLE, items, "", 0)
        return _composition(Status.COMPOSED if sheet.text else Status.EMPTY, items, sheet.text, sheet.tokens)


def _rank(task: Task[TiersPolicy]) -> list[_Item]:
    """Return all candidates in canonical order, at the tiers of their activation."""
    table = task.policy.tiers
    levels = [thousandths(level) for level in (table.full, table.summary, table.name)]
    items = []
    for prepared in task.candidates:
        activation, is_constraint = prepared.rounded["activation"], prepared.kind == _CONSTRAINT
        tier = sum([activation < level for level in levels])
        if is_constraint:
            tier = min(tier, _SUMMARY)
        reason = prepared.omitted or (Reason.BELOW_THRESHOLD if tier == _OMITTED else None)
        items.append(_Item(prepared, is_constraint, activation, tier, tier, [0, 0, 0, 0], reason))
    items.sort(
        key=lambda one: (not one.is_constraint, -one.activation, one.prepared.id, one.prepared.canonical)
    )
    return items


def _texts(prepared: Prepared, summary_characters: int) -> tuple[str, ...]:
    """Return what each tier shows of a candidate."""
    candidate = prepared.candidate
    tags = "".join([f" #{tag}" for tag in candidate.tags or ()])
    name = f"`{candidate.name or prepared.id}` [{prepared.kind}]{tags}"
    summary = candidate.summary or ""
    if not summary.strip():
        line = prepared.content.strip().partition("\n")[0].rstrip()
        if len(line) > summary_characters:
            line = line[: summary_characters - 1] + "…"
        summary = line or name
    return prepared.content, summary, name


def _count(task: Task[TiersPolicy], tier: int, items: list[_Item]) -> None:
    """Set the tokens of what a tier shows of these items."""
    if tier == _FULL:
        counts = task.count_contents([one.prepared for one in items])
    else:
        counts = task.counter.count_many([one.texts[tier] for one in items])
    for one, tokens in zip(items, counts, strict=True):
        one.tokens[tier] = tokens


class _Sheet(Struct):
    """The items at their tiers, and what is known of the exact count of their text."""

    items: list[_Item]
    limit_tokens: int
    counter: TokenCounter
    frame_tokens: int
    text: str = ""
    tokens: int = 0
    changed: bool = True
    saved_at_most: int = 0
    last: _Item | None = None

    def count(self) -> int:
        """Return the exact count of the text as it is now."""
        if self.changed:
            self.text = _text(self.items)
            self.tokens = self.counter.count(self.text)
            self.changed, self.saved_at_most = False, 0
        return self.tokens

    def fits(self) -> bool:
        """Tell whether the text is within the limit; it is counted only where it could be."""
        return self.tokens - self.saved_at_most <= self.limit_tokens >= self.count()

    def put(self, one: _Item, tier: int) -> None:
        """Put an item on a tier."""
        saved = one.tokens[one.tier] - one.tokens[tier] + LOOSE_TOKENS
        if tier == _OMITTED:
            saved += self.frame_tokens
        self.saved_at_most += max(0, saved)
        self.changed = True
        self.last, one.tier = one, tier

    def lower(self, one: _Item) -> None:
        """Put an item on the next tier down with which the text costs less, if there is one."""
        for tier in one.below():
            if tier == _OMITTED or self._saves(one, tier):
                self.put(one, tier)
                return

    def margin(self, one: _Item) -> Margin:
        """Return what an item that is left out needed as a name, and what was left for it then."""
        if one is not self.last:
            return Margin(one.tokens[_NAME], 0)
        return Margin(self._count_with(one, _NAME) - self.count(), self.limit_tokens - self.count())

    def _saves(self, one: _Item, tier: int) -> bool:
        saved = one.tokens[one.tier] - one.tokens[tier]
        if abs(saved) > LOOSE_TOKENS or one.texts[tier] == one.texts[one.tier]:
            return saved > 0
        return self._count_with(one, tier) < self.count()

    def _count_with(self, one: _Item, tier: int) -> int:
        present, one.tier = one.tier, tier
        tokens = self.counter.count(_text(self.items))
        one.tier = present
        return tokens


def _fitted(items: list[_Item], task: Task[TiersPolicy]) -> _Sheet:
    """Return what the items show once they are demoted as far as the limit asks, or as can be."""
    table = task.policy.tiers
    for one in items:
        one.texts = _texts(one.prepared, table.summary_characters)
    for tier in (_FULL, _SUMMARY, _NAME):
        _count(task, tier, [one for one in items if one.first == tier])
    sheet = _Sheet(items, task.limit_tokens, task.counter, max(task.counter.count_many(_FRAMES)))
    if sheet.fits():
        return sheet
    for tier in (_SUMMARY, _NAME):
        _count(task, tier, [one for one in items if one.first < tier])
    others = [one for one in reversed(items) if not one.is_constraint]
    if table.demotion is Demotion.LOWEST_FIRST:
        _drive_down(others, sheet)
    while others and not sheet.fits():
        _one_round(others, sheet)
        others = [one for one in others if one.tier != _OMITTED]
    _one_round([one for one in reversed(items) if one.is_constraint], sheet)
    return sheet


def _drive_down(items: list[_Item], sheet: _Sheet) -> None:
    for one in items:
        for tier in one.below():
            if sheet.fits():
                return
            sheet.put(one, tier)


def _one_round(items: list[_Item], sheet: _Sheet) -> None:
    for one in items:
        if sheet.fits():
            return
        sheet.lower(one)


def _sections(items: list[_Item]) -> dict[str, list[_Item]]:
    """Return what is shown by kind, in the order of the text: full items, then summaries, then names."""
    tiers: dict[str, tuple[list[_Item], ...]] = {kind: ([], [], [], []) for kind in _TITLES}
    for one in items:
        tiers[one.prepared.kind][one.tier].append(one)
    return {kind: [*full, *summaries, *names] for kind, (full, summaries, names, _) in tiers.items()}


def _text(items: list[_Item]) -> str:
    return join(
        "\n".join([f"## {_TITLES[kind]}", *[f"- {one.texts[one.tier]}" for one in shown]])
        for kind, shown in _sections(items).items()
        if shown
    )


def _composition(status: Status, items: list[_Item], text: str, used_tokens: int) -> Composition:
    sections = _sections([one for one in items if one.reason is None])
    return Composition(
        status=status,
        text=text,
        items=tuple(_composed(one) for shown in sections.values() for one in shown),
        entries=[_entry(place, one) for place, one in enumerate(items, 1)],
        groups=tuple(_group(kind, shown, items) for kind, shown in sections.items()),
        estimated_tokens=sum(one.tokens[one.tier] for shown in sections.values() for one in shown),
        used_tokens=used_tokens,
    )


def _composed(one: _Item) -> ComposedItem:
    kind = one.prepared.kind
    group, fidelity, tokens = _TITLES[kind].lower(), _FIDELITIES[one.tier], one.tokens[one.tier]
    return ComposedItem(id=one.prepared.id, kind=kind, group=group, fidelity=fidelity, tokens=tokens)


def _entry(place: int, one: _Item) -> Entry:
    selected = one.reason is None
    return Entry(
        one.prepared.id,
        one.prepared.kind,
        _TITLES[one.prepared.kind].lower(),
        place,
        Outcome.SELECTED if selected else Outcome.OMITTED,
        one.activation,
        UNSET,
        one.tokens[one.tier] if selected else one.tokens[one.tier] or one.tokens[one.first] or UNSET,
        _FIDELITIES[one.tier] if selected else UNSET,
        one.reason or UNSET,
        one.margin or UNSET,
        one.prepared.constraint or UNSET,
    )


def _group(kind: str, shown: list[_Item], items: list[_Item]) -> Group:
    mine = [one.tokens[one.first] for one in items if one.prepared.kind == kind]
    used = sum(one.tokens[one.tier] for one in shown)
    rejected = len(mine) - len(shown)
    name = _TITLES[kind].lower()
    return Group(name=name, min=0, used=used, available=sum(mine), selected=len(shown), rejected=rejected)
